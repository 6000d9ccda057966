"""
Processes of their own: a part measured with clean memory, and the real server.

A process that has measured one size has its arrays and caches; the next size starts
without them.
"""

import contextlib
import http.client
import json
import os
import re
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]

_PATIENCE_SECONDS = 900.0
_HEADERS = {
    "content-type": "application/json",
    "accept": "application/json, text/event-stream",
}
# As a server's is: the built-in model keeps the whole process at one.
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


class ChildError(Exception):
    """A process of the benchmark failed; the message is what it said."""


def run_child(module: str, *words: object, **variables: str) -> Any:
    """Run a module of the benchmark with these arguments and return its JSON."""
    done = subprocess.run(
        [sys.executable, "-m", module, *map(str, words)],
        cwd=ROOT,
        env={**_without_settings(), **_ONE_THREAD, **variables},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        raise ChildError(
            f"{module} {' '.join(map(str, words))}: exit {done.returncode}"
        )
    return json.loads(done.stdout.splitlines()[-1])


def answer(value: object) -> None:
    """Say to the process that waits in ``run_child`` what was measured."""
    print(json.dumps(value), flush=True)


def say(line: str) -> None:
    """Show a line of progress."""
    print(line, file=sys.stderr, flush=True)


def _without_settings() -> dict[str, str]:
    """Return the environment without docs-rag's own variables."""
    return {
        name: text
        for name, text in os.environ.items()
        if not name.startswith(("RAG_", "EMBED_", "LMSTUDIO_"))
    }


def peak_bytes() -> int:
    """
    Return the most memory that this process has had resident.

    Linux's own count begins anew with a program; what getrusage says goes back to the
    process that started it, and so is the parent's where that was larger.
    """
    status = Path("/proc/self/status")
    if status.exists():
        found = re.search(r"^VmHWM:\s*(\d+) kB", status.read_text(), re.MULTILINE)
        if found:
            return int(found[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def resident_bytes(pid: int) -> int:
    """Return the memory that a process has resident now."""
    command = ["ps", "-o", "rss=", "-p", str(pid)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(done.stdout) * 1024


@dataclass(frozen=True, slots=True)
class Server:
    """A server process that answers."""

    pid: int
    port: int

    def call(self, tool: str, **arguments: object) -> Any:
        """Call a tool and return its structured content."""
        connection = http.client.HTTPConnection(
            "127.0.0.1", self.port, timeout=_PATIENCE_SECONDS
        )
        params = {"name": tool, "arguments": arguments}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        with contextlib.closing(connection):
            connection.request("POST", "/mcp", json.dumps(message), _HEADERS)
            body = connection.getresponse().read().decode()
        line = body[body.index("{") :].splitlines()[0]
        result = json.loads(line)["result"]
        if result.get("isError"):
            raise ChildError(f"{tool}: {result}")
        return result["structuredContent"]


@contextlib.contextmanager
def serving(variables: Mapping[str, str], log: Path) -> Iterator[Server]:
    """Run the real server until the block ends; yield it once it answers."""
    port = _free_port()
    environment = {**_without_settings(), **variables, "RAG_PORT": str(port)}
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            [sys.executable, str(ROOT / "serve.py")], env=environment, stderr=stderr
        )
    try:
        give_up_at = time.monotonic() + _PATIENCE_SECONDS
        while b" serving corpus " not in log.read_bytes():
            if process.poll() is not None or time.monotonic() > give_up_at:
                raise ChildError(log.read_text(encoding="utf-8", errors="replace"))
            time.sleep(0.05)
        yield Server(process.pid, port)
    finally:
        process.terminate()
        process.wait()


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
