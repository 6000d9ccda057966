"""A folder of documentation with its settings; the real command line and server."""

import contextlib
import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import httpx2
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client

from docs_rag.config import load_settings
from docs_rag.embedders import embedder_for
from docs_rag.indexer import IndexOptions, index_corpus
from docs_rag.records import Hit, IndexReport
from docs_rag.retrieval import ask
from docs_rag.service import CallContext, Service
from docs_rag.tracing import Caller

ROOT = Path(__file__).resolve().parent.parent
PATIENCE_SECONDS = 60.0

PAGES = {
    "README.md": (
        "# Harbour manual\n\nHow the harbour of Wexcombe is run.\n\n"
        "## Lamps\n\nThe lamp of the north pier is lit at dusk.\n"
    ),
    "docs/lamps.md": (
        "# Lamps\n\n## Changing a lamp\n\n"
        "Take the spare lamp from locker seven and a wrench of 12 mm.\n\n"
        "## Faults\n\nError `LAMP-0502` means that the fuse of the lamp is blown.\n"
    ),
    "docs/tides.md": "# Tides\n\nHigh water is announced by two bells.\n",
}


@dataclass
class Running:
    """A server process, its URL, and the file of its standard error."""

    url: str
    port: int
    process: subprocess.Popen
    log_path: Path

    @property
    def log(self) -> str:
        return self.log_path.read_text(encoding="utf-8", errors="replace")

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and return the exit code."""
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_SECONDS)


@dataclass
class Project:
    """One ``RAG_DIR`` with the corpus "wexcombe"; settings are environment alone."""

    rag_dir: Path
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def corpus_dir(self) -> Path:
        return self.rag_dir / "corpus" / "wexcombe"

    @property
    def data_dir(self) -> Path:
        return self.rag_dir / "data-wexcombe"

    def write(self, pages: Mapping[str, str]) -> None:
        for name, text in pages.items():
            path = self.corpus_dir / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    def variables(self, **more: str | None) -> dict[str, str]:
        """Return a whole environment: what ``env -i`` leaves, and our settings."""
        variables: dict[str, str | None] = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.rag_dir),
            "PYTHONPATH": str(ROOT),
            "RAG_DIR": str(self.rag_dir),
            "RAG_CORPUS": "wexcombe",
            "RAG_EMBED_BACKEND": "stub",
            **self.environment,
            **more,
        }
        return {name: text for name, text in variables.items() if text is not None}

    def run(
        self,
        *words: str | bytes,
        stdin: bytes | None = b"",
        command: tuple[str, ...] = ("-m", "docs_rag"),
        **variables: str | None,
    ) -> subprocess.CompletedProcess:
        """Run the real command line in a process of its own and wait for it."""
        done = subprocess.run(
            [sys.executable, *command, *words],
            input=stdin,
            env=self.variables(**variables),
            cwd=self.rag_dir,
            capture_output=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        done.stdout = done.stdout.decode("utf-8", "replace")
        done.stderr = done.stderr.decode("utf-8", "replace")
        return done

    def index(self, *, full: bool = False, **variables: str | None) -> IndexReport:
        """Index within this process, which is quicker, and return the report."""
        settings = load_settings(self.variables(**variables))
        options = IndexOptions(full=full)
        return index_corpus(settings.chosen(), embedder_for(settings), options)

    @contextlib.contextmanager
    def serving(
        self, port: int | None = None, path: str = "/mcp", **variables: str | None
    ) -> Iterator[Running]:
        """Run ``python serve.py`` until the block ends; yield it once it answers."""
        port = port or free_port()
        log_path = self.rag_dir / f"serve-{port}-{time.monotonic_ns()}.log"
        with log_path.open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, str(ROOT / "serve.py"), "--port", str(port)],
                env=self.variables(PYTHONPATH=None, **variables),
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        running = Running(f"http://127.0.0.1:{port}{path}", port, process, log_path)
        try:
            _wait_for_announcement(running)
            yield running
        finally:
            process.terminate()
            try:
                process.wait(PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            process.stdout.close()


def make_project(rag_dir: Path, pages: Mapping[str, str] = PAGES, **config) -> Project:
    """Lay out ``pages`` and a corpora.json over them."""
    rag_dir.mkdir(parents=True, exist_ok=True)
    project = Project(rag_dir)
    project.write(pages)
    entry = {"top_files": ["README.md"], "roots": ["docs"], **config}
    (rag_dir / "corpora.json").write_text(json.dumps({"wexcombe": entry}))
    return project


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def _wait_for_announcement(running: Running) -> None:
    give_up_at = time.monotonic() + PATIENCE_SECONDS
    while " serving corpus " not in running.log:
        assert running.process.poll() is None, running.log
        assert time.monotonic() < give_up_at, running.log
        time.sleep(0.02)


def eventually(condition, what: str = "it") -> None:
    """Wait until a condition holds; fail if it does not for a long time."""
    give_up_at = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < give_up_at, f"{what} never came true"
        time.sleep(0.05)


# -- the official client ----------------------------------------------------------


@contextlib.asynccontextmanager
async def connected(url: str, mode: str = "auto", token: str | None = None):
    """Yield the official client, connected over streamable HTTP."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    http = httpx2.AsyncClient(headers=headers, timeout=30, trust_env=False)
    transport = streamable_http_client(url, http_client=http)
    async with http, Client(transport, mode=mode) as client:
        yield client


def call(url: str, tool: str, arguments: dict | None = None, **options):
    """Call one tool over HTTP and return its result."""

    async def once():
        async with connected(url, **options) as client:
            try:
                return await client.call_tool(tool, arguments or {})
            except MCPError as error:  # outside, it would come in a group of groups
                return error

    result = anyio.run(once)
    if isinstance(result, MCPError):
        raise result
    return result


def retrieve(url: str, query: str, **arguments) -> dict:
    """Call ``retrieve``, expect it to work, and return its structured content."""
    result = call(url, "retrieve", {"query": query, **arguments})
    assert not result.is_error, text_of(result)
    return result.structured_content


def text_of(result) -> str:
    return "".join(block.text for block in result.content)


# -- raw HTTP, and raw stdio ------------------------------------------------------


def post(url: str, message: object, **headers: str) -> httpx2.Response:
    """POST one JSON-RPC message as a client of the handshake era does."""
    accept = {"accept": "application/json, text/event-stream"}
    with httpx2.Client(trust_env=False, timeout=30) as client:
        return client.post(url, json=message, headers={**accept, **headers})


def request(method: str, params: dict | None = None, number: int = 1) -> dict:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params or {}}


def initialize(version: str = "2025-11-25") -> dict:
    client = {"name": "test", "version": "0"}
    return request(
        "initialize",
        {"protocolVersion": version, "capabilities": {}, "clientInfo": client},
    )


def message_in(response: httpx2.Response) -> dict:
    """Return the JSON-RPC message of an answer, which may be an event stream."""
    if response.headers["content-type"].startswith("application/json"):
        return response.json()
    data = [
        line.removeprefix("data:")
        for line in response.text.splitlines()
        if line.startswith("data:") and line.removeprefix("data:").strip()
    ]
    return json.loads(data[-1])


@dataclass
class Pipe:
    """A server on stdio, spoken to line by line; ``lines`` is all that it wrote."""

    process: subprocess.Popen
    lines: list[str] = field(default_factory=list)
    _incoming: queue.Queue = field(default_factory=queue.Queue)

    def __post_init__(self) -> None:
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self.process.stdout:
            self.lines.append(line)
            self._incoming.put(line)

    def send(self, message: dict) -> None:
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def receive(self) -> dict:
        return json.loads(self._incoming.get(timeout=PATIENCE_SECONDS))


def ask_service(service: Service, query: str, k: int = 20) -> tuple[Hit, ...]:
    """Return the hits of a question that is asked without a server."""
    context = CallContext(Caller.EVAL)
    return service.retrieve(ask(query, k), context, even_if_none=True).hits
