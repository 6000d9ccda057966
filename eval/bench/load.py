"""Eight clients ask a real server while an indexer rewrites a tenth of its corpus."""

import http.client
import json
import os
import random
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from docs_rag.config import Corpus
from docs_rag.embedding import StubEmbedder
from docs_rag.errors import DocsRagError
from docs_rag.indexer import index_corpus
from docs_rag.metrics import percentile
from docs_rag.store import Store
from eval.bench.figures import Bench, Figure, Section
from eval.bench.start import HEADERS, INITIALIZE, ROOT, call, server
from eval.bench.synthetic import queries, write_markdown
from eval.bench.throughput import make_corpus

# Pages have ten passages on average.
FILES, QUICK_FILES = 10_000, 100
CLIENTS = 8
IDLE_SECONDS, QUICK_IDLE_SECONDS = 20.0, 2.0
# A run is bounded, whatever becomes of the indexer.
GIVE_UP_SECONDS = 900.0
SHARE = 10
STALE_GOAL_SECONDS, P95_GOAL = 1.0, 2.0
_GENERATION = re.compile(rb'"generation":\s*(\d+)')


@dataclass(slots=True)
class Heard:
    """What the clients heard: (asked at, milliseconds, generation), and errors."""

    answers: list[tuple[float, float, int]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def milliseconds(self) -> list[float]:
        """Return the latencies."""
        return [one[1] for one in self.answers]


def measure(bench: Bench) -> Section:
    """Index, serve, ask while nothing happens, and ask while the indexer writes."""
    files = FILES if bench.is_full else QUICK_FILES
    place = bench.work / f"load-{files}"
    shutil.rmtree(place, ignore_errors=True)
    bench.say(f"load: indexing {files:,} files")
    write_markdown(place / "source", files)
    corpus = make_corpus(place / "rag", place / "source")
    chunks = index_corpus(corpus, StubEmbedder()).chunks
    environment = {
        "RAG_DIR": str(place / "rag"),
        "RAG_CORPUS": "bench",
        "RAG_EMBED_BACKEND": "stub",
    }
    questions = [one.text for one in queries(200, chunks)]
    seconds = IDLE_SECONDS if bench.is_full else QUICK_IDLE_SECONDS
    with server(environment) as port:
        call(port, "initialize", INITIALIZE)
        for question in questions[:5]:
            ask(port, question)
        bench.say(f"load: {CLIENTS} clients, nothing else")
        idle = asked(port, questions, lambda: time.sleep(seconds))
        bench.say(f"load: {CLIENTS} clients, and an indexer")
        rewrite(place / "source")
        commits: dict[int, float] = {}
        took: list[float] = []
        busy = asked(
            port,
            questions,
            lambda: took.append(run_indexer(environment, corpus, commits)),
        )
    shutil.rmtree(place)
    return section(chunks, idle, busy, commits, took[0])


def section(
    chunks: int, idle: Heard, busy: Heard, commits: dict[int, float], took: float
) -> Section:
    """Return the figures."""
    idle_p95 = percentile(idle.milliseconds(), 0.95)
    busy_p95 = percentile(busy.milliseconds(), 0.95)
    late = staleness(busy, commits)
    errors = [*idle.errors, *busy.errors]
    return Section(
        f"Refresh under load, {chunks:,} chunks, {CLIENTS} clients",
        (
            Figure("calls that failed", len(errors), "calls", goal=0),
            Figure("longest stale after a commit", late, "s", goal=STALE_GOAL_SECONDS),
            Figure(
                "p95 while a tenth is rewritten",
                busy_p95,
                "ms",
                idle_p95,
                "p95 while nothing else runs",
                P95_GOAL,
            ),
            Figure(
                "p50 while a tenth is rewritten",
                percentile(busy.milliseconds(), 0.5),
                "ms",
                percentile(idle.milliseconds(), 0.5),
                "p50 while nothing else runs",
            ),
        ),
        notes=(
            f"{len(idle.answers):,} calls while idle, {len(busy.answers):,} beside the "
            f"indexer, which took {took:.0f} s and committed {len(commits)} times.",
            "Stale: how long after a commit, as another process sees it, a question "
            "was still asked whose answer did not have it.",
            *errors[:3],
        ),
    )


def rewrite(source: Path) -> None:
    """Change every tenth file: one paragraph more, at its end."""
    for file in sorted(source.rglob("*.md"))[::SHARE]:
        with file.open("a", encoding="utf-8") as stream:
            stream.write("\n\nThis paragraph came with the last edition.\n")


def run_indexer(
    environment: dict[str, str], corpus: Corpus, commits: dict[int, float]
) -> float:
    """Run the real indexer to its end; note when each generation could be seen."""
    started = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "docs_rag", "index"],
        cwd=ROOT,
        env={**os.environ, **environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        with Store(corpus.index_path) as store:
            while process.poll() is None:
                note_generation(store, commits)
                if time.perf_counter() - started > GIVE_UP_SECONDS:
                    raise SystemExit("the indexer does not come to an end")
                time.sleep(0.01)
            note_generation(store, commits)
    finally:
        process.kill()
        process.wait()
    if process.returncode:
        raise SystemExit(f"the indexer failed with exit code {process.returncode}")
    return time.perf_counter() - started


def note_generation(store: Store, commits: dict[int, float]) -> None:
    """Note the time at which a generation is seen first."""
    with store.snapshot():
        commits.setdefault(store.generation, time.perf_counter())


def staleness(heard: Heard, commits: dict[int, float]) -> float:
    """Return how long after a commit a question was still answered without it."""
    waits = [
        asked_at - seen
        for generation, seen in commits.items()
        for asked_at, _, shown in heard.answers
        if shown < generation and asked_at > seen
    ]
    return max(waits, default=0.0)


# -- clients ----------------------------------------------------------------------


def asked(port: int, questions: list[str], meanwhile: Callable[[], object]) -> Heard:
    """Let clients ask one question after the other until ``meanwhile`` returns."""
    heard, done = Heard(), threading.Event()
    clients = [
        threading.Thread(target=client, args=(port, questions, number, heard, done))
        for number in range(CLIENTS)
    ]
    for one in clients:
        one.start()
    try:
        meanwhile()
        # What the last commit brought is to be heard of as well.
        time.sleep(1.5)
    finally:
        done.set()
        for one in clients:
            one.join()
    return heard


def client(
    port: int, questions: list[str], number: int, heard: Heard, done: threading.Event
) -> None:
    """Ask over one connection; note every answer and every failure."""
    chance = random.Random(number)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    while not done.is_set():
        started = time.perf_counter()
        try:
            content = retrieve(connection, chance.choice(questions))
        except (OSError, http.client.HTTPException, DocsRagError) as error:
            heard.errors.append(f"{type(error).__name__}: {error}")
            connection.close()
            time.sleep(0.1)
            continue
        latency_ms = (time.perf_counter() - started) * 1000
        found = _GENERATION.search(content)
        if found is None or b'"isError":true' in content:
            heard.errors.append(repr(content[:200]))
            continue
        heard.answers.append((started, latency_ms, int(found[1])))
    connection.close()


def ask(port: int, question: str) -> None:
    """Ask once, over a connection of its own."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    retrieve(connection, question)
    connection.close()


def retrieve(connection: http.client.HTTPConnection, question: str) -> bytes:
    """Return the answer to one question as it came over the wire."""
    params = {"name": "retrieve", "arguments": {"query": question}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    connection.request("POST", "/mcp", json.dumps(body), HEADERS)
    answer = connection.getresponse()
    content = answer.read()
    if answer.status != 200:
        raise http.client.HTTPException(f"{answer.status} {content[:200]!r}")
    return content
