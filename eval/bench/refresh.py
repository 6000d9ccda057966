"""What a refresh costs beside reading the same files: no change, one, every name."""

import hashlib
import os
import shutil
import statistics
import time
from pathlib import Path

from docs_rag.config import Corpus
from docs_rag.corpus import scan
from docs_rag.embedding import StubEmbedder
from docs_rag.indexer import index_corpus
from docs_rag.preparing import entries, prepare
from docs_rag.records import IndexReport, Purpose
from eval.bench.figures import Bench, Figure, Section
from eval.bench.synthetic import write_markdown
from eval.bench.throughput import make_corpus

FILES, QUICK_FILES = 10_000, 100
GOAL = 2.0
BASELINE = "stat, read and sha256 of the same files"


def measure(bench: Bench) -> Section:
    """Time refreshes of one corpus; the model is the stub, for nothing is embedded."""
    files = FILES if bench.is_full else QUICK_FILES
    bench.say(f"refresh: a corpus of {files:,} files")
    place = bench.work / f"refresh-{files}"
    source = place / "source"
    shutil.rmtree(place, ignore_errors=True)
    write_markdown(source, files)
    corpus = make_corpus(place / "rag", source)
    index_corpus(corpus, StubEmbedder())
    figures = [unchanged(bench, corpus, source), one_changed(bench, corpus, source)]
    figures += renamed(bench, corpus, source)
    shutil.rmtree(place)
    return Section(
        f"Refresh of {files:,} files",
        tuple(figures),
        notes=(
            "The stub embedder stands in for the model: what is timed is all the rest.",
            "One file's work: the file cut, embedded and its rows made, on its own.",
        ),
    )


def unchanged(bench: Bench, corpus: Corpus, source: Path) -> Figure:
    """Time a run that finds nothing to do."""
    bench.say("refresh: nothing changed")
    runs = [(read_all(source), refresh(corpus)) for _ in range(bench.repeats)]
    return compared("nothing changed", runs, BASELINE)


def one_changed(bench: Bench, corpus: Corpus, source: Path) -> Figure:
    """Time a run that finds one changed file."""
    bench.say("refresh: one file changed")
    file = next(iter(sorted(source.rglob("*.md"))))
    runs = []
    for number in range(bench.repeats):
        with file.open("a", encoding="utf-8") as stream:
            stream.write(f"\n\nOne more line, {number}.\n")
        own_work = work_of(corpus, file.relative_to(source).as_posix())
        runs.append((read_all(source) + own_work, refresh(corpus)))
    return compared("one file changed", runs, f"{BASELINE}, and one file's work")


def renamed(bench: Bench, corpus: Corpus, source: Path) -> list[Figure]:
    """Time a run that finds every file under another name, and count its texts."""
    bench.say("refresh: every file renamed")
    for file in list(source.rglob("*.md")):
        file.rename(file.with_name(f"renamed-{file.name}"))
    reading = read_all(source)
    started = time.perf_counter()
    report: IndexReport = index_corpus(corpus, StubEmbedder())
    seconds = time.perf_counter() - started
    if len(report.renamed) != report.files:
        raise SystemExit(f"{len(report.renamed)} of {report.files} files were renamed")
    return [
        Figure("texts embedded, every file renamed", report.embedded, "texts", goal=0),
        Figure("every file renamed", seconds, "s", reading, BASELINE),
    ]


def compared(name: str, runs: list[tuple[float, float]], baseline_name: str) -> Figure:
    """Return the median of the refreshes beside the median of their baselines."""
    baseline, value = (statistics.median(column) for column in zip(*runs, strict=True))
    return Figure(name, value, "s", baseline, baseline_name, GOAL)


def refresh(corpus: Corpus) -> float:
    """Return the seconds of one run."""
    started = time.perf_counter()
    index_corpus(corpus, StubEmbedder())
    return time.perf_counter() - started


def read_all(source: Path) -> float:
    """Return the seconds it takes to stat, read and hash every file."""
    started = time.perf_counter()
    for directory, _, names in os.walk(source):
        for name in names:
            path = os.path.join(directory, name)
            os.stat(path)
            with open(path, "rb") as file:
                hashlib.sha256(file.read()).hexdigest()
    return time.perf_counter() - started


def work_of(corpus: Corpus, path: str) -> float:
    """Return the seconds it takes to cut and embed one file and to make its rows."""
    found = {one.path: one for one in scan(corpus).documents}
    embedder = StubEmbedder()
    started = time.perf_counter()
    prepared = prepare(found[path], embedder, embedder.probe())
    embedder.embed(list(prepared.texts.values()), Purpose.PASSAGE)
    list(entries(prepared, {}))
    return time.perf_counter() - started
