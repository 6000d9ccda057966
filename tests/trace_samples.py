"""Calls and trace lines for tests, a writer process, and a loopback collector."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from docs_rag.tracing import Caller, CallRecord, Tool

ROOT = Path(__file__).resolve().parent.parent
NOW = datetime(2031, 5, 20, 12, 0, tzinfo=UTC)

# Appends argv[3] records, with argv[4] characters of query, to the logs in argv[2].
WRITER = """
import sys
from pathlib import Path
from docs_rag.tracing import Caller, CallRecord, Tool, TraceWriter
writer = TraceWriter(Path(sys.argv[2]), "a", content=True)
for number in range(int(sys.argv[3])):
    query = f"{sys.argv[1]}/{number} " + "q" * int(sys.argv[4])
    writer.record(CallRecord(Tool.RETRIEVE, Caller.MCP, 1.0, query=query, k=5))
sys.exit(f"{writer.dropped} dropped" if writer.dropped else 0)
"""


def make_call(**changes: Any) -> CallRecord:
    """Return a finished retrieval over MCP, with ``changes``."""
    facts: dict[str, Any] = {
        "tool": Tool.RETRIEVE,
        "caller": Caller.MCP,
        "latency_ms": 12.5,
        "transport": "streamable-http",
        "query": "how deep is the tidal lock",
        "k": 5,
        "hits": 3,
        "match": "strong",
        "generation": 7,
        "model": "stub",
        "input_tokens": 6,
        "paths": ("docs/lock.md", "docs/weir.md"),
        "answer_text": "The tidal lock is four fathoms deep.",
    }
    return CallRecord(**facts | changes)


def make_line(
    *, ago: timedelta = timedelta(), duration_ms: float = 10.0, **changes: Any
) -> str:
    """Return a trace line; ``changes`` are attributes without ``docs_rag.``."""
    attributes = {
        "gen_ai.tool.name": changes.pop("tool", "retrieve"),
        **{f"docs_rag.{key}": value for key, value in changes.items()},
    }
    record = {
        "timestamp": (NOW - ago).isoformat(timespec="microseconds"),
        "name": "tools/call retrieve",
        "duration_ms": duration_ms,
        "status": "error" if "error.type" in changes else "ok",
        "attributes": attributes,
    }
    return json.dumps(record) + "\n"


def write_lines(path: Path, lines: Iterable[str]) -> Path:
    """Write ``lines`` to ``path`` and return it."""
    path.write_text("".join(lines), encoding="utf-8")
    return path


def read_json_lines(path: Path) -> list[dict[str, Any]]:
    """Parse every line of a file; a line that is no JSON fails the test."""
    lines = path.read_bytes().split(b"\n")
    assert lines.pop() == b"", "the last line has no end"
    return [json.loads(line) for line in lines]


def start_writer(name: str, directory: Path, calls: int, query_chars: int) -> Any:
    """Start a process that appends to the traces in ``directory``."""
    arguments = [name, str(directory), str(calls), str(query_chars)]
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, *arguments],
        env={"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"]},
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: Any) -> None:
    """Wait for a writer; a drop fails the test."""
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors


class Receiver(ThreadingHTTPServer):
    """An OTLP receiver on loopback that answers what it is told to, in turn."""

    daemon_threads = True

    def __init__(self, answers: list[tuple[int, dict[str, str], bytes]]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers = answers
        self.requests: list[tuple[str, dict[str, str], Any]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Receiver
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.requests.append((self.path, headers, json.loads(body)))
        answers = self.server.answers
        status, extra, content = answers.pop(0) if answers else (200, {}, b"{}")
        self.send_response(status)
        for name, value in extra.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Keep the test's output clean."""


@contextmanager
def receiver(*answers: tuple[int, dict[str, str], bytes]) -> Iterator[Receiver]:
    with Receiver(list(answers)) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
