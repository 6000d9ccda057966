"""How long it takes until something answers: a server, a question, a trace report."""

import http.client
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from eval.bench.figures import Bench, Figure, Section
from eval.bench.filling import filled

ROOT = Path(__file__).resolve().parents[2]
CHUNKS, QUICK_CHUNKS = 100_000, 2_000
HANDSHAKE_SECONDS, FIRST_ANSWER_SECONDS = 1.0, 2.0
QUERY_GOAL = 4.0
BASELINE = 'python -c "import numpy, apsw"'
GIVE_UP_SECONDS = 60.0
HEADERS = {
    "content-type": "application/json",
    "accept": "application/json, text/event-stream",
}
INITIALIZE = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "bench", "version": "1"},
}
QUESTION = "how are the parts of the pump connected?"
# Prints the modules that are loaded and are neither the standard library's nor ours.
FOREIGN = (
    "import sys, runpy\n"
    "before = set(sys.modules)\n"
    "try: runpy.run_path({door!r}, run_name='__main__')\n"
    "except SystemExit: pass\n"
    "names = {{n.partition('.')[0] for n in set(sys.modules) - before}}\n"
    "names -= {{*sys.stdlib_module_names, 'docs_rag'}}\n"
    "foreign = sorted(n for n in names if not n.startswith('_sysconfigdata'))\n"
    "print(*foreign, file=sys.stderr)\n"
)


def measure(bench: Bench) -> Section:
    """Start each of them several times, in processes of their own."""
    chunks = CHUNKS if bench.is_full else QUICK_CHUNKS
    index = filled(bench.work, chunks, bench.say)
    environment = index.variables(RAG_TRACE_DIR=str(bench.work / "traces"))
    bench.say(f"start: a server over {chunks:,} chunks")
    servers = [start_server(environment) for _ in range(bench.repeats)]
    handshakes, first_answers = zip(*servers, strict=True)
    figures = [
        Figure(
            f"server's handshake, {chunks:,} chunks",
            statistics.median(handshakes),
            "s",
            goal=HANDSHAKE_SECONDS,
        ),
        Figure(
            f"server's first answer to retrieve, {chunks:,} chunks",
            statistics.median(first_answers),
            "s",
            goal=FIRST_ANSWER_SECONDS,
        ),
        Figure(
            "the same handshake",
            statistics.median(handshakes),
            "s",
            statistics.median(
                run([sys.executable, "-c", "import mcp.server"], {})
                for _ in range(bench.repeats)
            ),
            'python -c "import mcp.server"',
        ),
        *(query_cold(bench, size) for size in dict.fromkeys((QUICK_CHUNKS, chunks))),
        *report(bench),
    ]
    return Section(
        "Start",
        tuple(figures),
        notes=(
            "Seconds of a server count from the start of its process; its first "
            "question is asked as soon as the handshake is answered.",
            "A question from the shell is answered by sqlite-vec, which reads every "
            "vector: the larger the corpus, the more of its time that is.",
        ),
    )


def start_server(environment: dict[str, str]) -> tuple[float, float]:
    """Return after how many seconds a new server shook hands, and answered."""
    started = time.perf_counter()
    with server(environment) as port:
        call(port, "initialize", INITIALIZE)
        shaken = time.perf_counter() - started
        arguments = {"query": QUESTION}
        call(port, "tools/call", {"name": "retrieve", "arguments": arguments})
        return shaken, time.perf_counter() - started


@contextmanager
def server(environment: dict[str, str]) -> Iterator[int]:
    """Run the real server process; yields its port, at once."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "serve.py")],
        env={**os.environ, **environment, "RAG_PORT": str(port)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield port
    finally:
        process.terminate()
        process.wait()


def call(port: int, method: str, params: dict[str, object]) -> bytes:
    """Ask until somebody listens; return the body of the answer."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    until = time.perf_counter() + GIVE_UP_SECONDS
    while True:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        try:
            connection.request("POST", "/mcp", body, HEADERS)
            answer = connection.getresponse()
            content = answer.read()
        except ConnectionRefusedError:
            if time.perf_counter() > until:
                raise SystemExit("the server does not start") from None
            time.sleep(0.005)
            continue
        finally:
            connection.close()
        if answer.status != 200 or b'"isError":true' in content:
            raise SystemExit(f"{method} failed: {answer.status} {content[:200]!r}")
        return content


def query_cold(bench: Bench, chunks: int) -> Figure:
    """Time a question from the shell beside the imports that no way leads around."""
    index = filled(bench.work, chunks, bench.say)
    environment = index.variables(RAG_TRACE_DIR=str(bench.work / "traces"))
    bench.say(f"start: a question from the shell over {chunks:,} chunks")
    question = [sys.executable, "-m", "docs_rag", "query", QUESTION]
    imports = [sys.executable, "-c", "import numpy, apsw"]
    # Reads the index into the page cache, where a second question finds it too.
    run(question, environment)
    rounds = [
        (run(imports, environment), run(question, environment))
        for _ in range(2 * bench.repeats + 1)
    ]
    baseline, value = (statistics.median(c) for c in zip(*rounds, strict=True))
    return Figure(
        f"docs-rag query, cold, {chunks:,} chunks",
        value,
        "s",
        baseline,
        BASELINE,
        QUERY_GOAL,
    )


def report(bench: Bench) -> list[Figure]:
    """Time a trace report of nothing, and count what it imports from elsewhere."""
    empty = bench.work / "no-traces.jsonl"
    empty.write_text("", encoding="utf-8")
    door = str(ROOT / "tracing.py")
    arguments = ["--report", str(empty)]
    command = [sys.executable, door, *arguments]
    bare = [sys.executable, "-c", "pass"]
    code = f"import sys; sys.argv = {[door, *arguments]!r}\n{FOREIGN.format(door=door)}"
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    )
    rounds = [(run(bare, {}), run(command, {})) for _ in range(bench.repeats)]
    baseline, value = (statistics.median(c) for c in zip(*rounds, strict=True))
    return [
        Figure(
            "packages that tracing.py --report imports",
            len(done.stderr.split()),
            "packages",
            goal=0,
        ),
        Figure(
            "tracing.py --report of nothing", value, "s", baseline, "python -c pass"
        ),
    ]


def run(command: Sequence[str], environment: dict[str, str]) -> float:
    """Return the seconds that a process took."""
    started = time.perf_counter()
    subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **environment},
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    return time.perf_counter() - started
