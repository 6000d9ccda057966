"""
What a call over MCP costs, as a ratio to the same call in process.

Serves this project's own documentation (or DIR) with the real server process, asks it
the same questions with 1, 8 and 32 clients that keep their connections, and asks the
retriever in process as often. Absolute times are of one machine; the ratios travel.

usage: python eval/bench/bench_server.py [--backend stub] [--calls 320] [DIR]
"""

import argparse
import http.client
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from docs_rag.backend import usable_cores  # noqa: E402
from docs_rag.config import load_settings  # noqa: E402
from docs_rag.embedders import embedder_for  # noqa: E402
from docs_rag.indexer import index_corpus  # noqa: E402
from docs_rag.retrieval import ask  # noqa: E402
from docs_rag.scaffold import propose, write  # noqa: E402
from docs_rag.service import CallContext, open_service  # noqa: E402
from docs_rag.tracing import Caller  # noqa: E402

CLIENTS = (1, 8, 32)
QUESTIONS = (
    "how do I connect a coding agent?",
    "which exit code means that another indexer holds the lock?",
    "RAG_AUTH_TOKEN",
    "what happens when the embedding model changes?",
    "how are traces pruned?",
)
HEADERS = {
    "content-type": "application/json",
    "accept": "application/json, text/event-stream",
}


def percentile(values: list[float], share: float) -> float:
    """Return the value that ``share`` of the values do not exceed."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def summary(milliseconds: list[float], seconds: float) -> dict[str, float]:
    """Return what is said of one round."""
    return {
        "p50_ms": round(statistics.median(milliseconds), 2),
        "p95_ms": round(percentile(milliseconds, 0.95), 2),
        "calls_per_second": round(len(milliseconds) / seconds, 1),
    }


def in_process(settings, calls: int) -> dict[str, float]:
    """Ask the retriever itself, one question after the other."""
    service = open_service(settings, resident=True)
    service.warm_up()
    context = CallContext(Caller.EVAL)
    times = []
    started = time.perf_counter()
    for number in range(calls):
        before = time.perf_counter()
        service.retrieve(ask(QUESTIONS[number % len(QUESTIONS)]), context)
        times.append((time.perf_counter() - before) * 1000)
    seconds = time.perf_counter() - started
    service.close()
    return summary(times, seconds)


def one_client(port: int, calls: int) -> list[float]:
    """Ask over one connection, one question after the other."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    times = []
    for number in range(calls):
        arguments = {"query": QUESTIONS[number % len(QUESTIONS)]}
        call = {
            "jsonrpc": "2.0",
            "id": number,
            "method": "tools/call",
            "params": {"name": "retrieve", "arguments": arguments},
        }
        before = time.perf_counter()
        connection.request("POST", "/mcp", json.dumps(call), HEADERS)
        answer = connection.getresponse()
        body = answer.read()
        times.append((time.perf_counter() - before) * 1000)
        if answer.status != 200 or b'"isError":true' in body:
            sys.exit(f"a call failed: {answer.status} {body[:200]!r}")
    connection.close()
    return times


def over_mcp(port: int, clients: int, calls: int) -> dict[str, float]:
    """Ask with so many clients at once, so many calls in all."""
    started = time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        parts = pool.map(lambda _: one_client(port, calls // clients), range(clients))
        times = [t for part in parts for t in part]
    return summary(times, time.perf_counter() - started)


def start_server(environment: dict[str, str], log: Path) -> subprocess.Popen:
    """Start the real server and wait until it has answered a question."""
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            [sys.executable, str(ROOT / "serve.py")],
            env={**os.environ, **environment},
            stderr=stderr,
        )
    while b" serving corpus " not in log.read_bytes():
        if process.poll() is not None:
            sys.exit(log.read_text())
        time.sleep(0.05)
    return process


def main() -> None:
    """Measure, print a table, and write the numbers beside this file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("directory", nargs="?", type=Path, default=ROOT)
    parser.add_argument("--backend", default="builtin")
    parser.add_argument("--calls", type=int, default=320)
    parser.add_argument("--port", type=int, default=8799)
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).with_name("server.json")
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            "RAG_DIR": folder,
            "RAG_CORPUS": "bench",
            "RAG_EMBED_BACKEND": arguments.backend,
            "RAG_PORT": str(arguments.port),
        }
        write(Path(folder) / "corpora.json", propose(arguments.directory, "bench"))
        settings = load_settings(environment)
        report = index_corpus(settings.chosen(), embedder_for(settings))
        process = start_server(environment, Path(folder) / "serve.log")
        rounds = []
        try:
            over_mcp(arguments.port, 1, len(QUESTIONS))
            for clients in CLIENTS:
                # The baseline is timed beside each round: a machine has its moods.
                base = in_process(settings, arguments.calls // 2)
                served = over_mcp(arguments.port, clients, arguments.calls)
                rounds.append({"clients": clients, **compared(served, base)})
        finally:
            process.terminate()
            process.wait()
    show(rounds, report.chunks, arguments)


def compared(served: dict, base: dict) -> dict:
    """Return a round, its baseline, and the ratios between them."""
    return {
        "served": served,
        "in_process": base,
        "p50_ratio": round(served["p50_ms"] / base["p50_ms"], 2),
        "p95_ratio": round(served["p95_ms"] / base["p95_ms"], 2),
        "throughput_ratio": round(
            served["calls_per_second"] / base["calls_per_second"], 2
        ),
    }


def show(rounds: list[dict], chunks: int, arguments: argparse.Namespace) -> None:
    """Print the table and write it down."""
    print(
        "| clients | p50 ms | p95 ms | calls/s | p50 ratio | p95 ratio | rate ratio |"
    )
    print("|---|---|---|---|---|---|---|")
    for one in rounds:
        ratios = [one[k] for k in ("p50_ratio", "p95_ratio", "throughput_ratio")]
        cells = " | ".join(map(str, [*one["served"].values(), *ratios]))
        print(f"| {one['clients']} | {cells} |")
    result = {
        "date": time.strftime("%Y-%m-%d"),
        "command": f"python eval/bench/bench_server.py --backend {arguments.backend} "
        f"--calls {arguments.calls}",
        "python": platform.python_version(),
        "cores": usable_cores(),
        "load_average": [round(load, 1) for load in os.getloadavg()],
        "chunks": chunks,
        "rounds": rounds,
    }
    arguments.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
