"""
How long a question takes on an index, stage by stage, beside exact baselines.

The retrieve path of the server, on questions that are given; sqlite-vec and a plain
product with all vectors are timed on the same vectors in the same run, and say how many
of the engine's nearest are the nearest. Nothing is traced or written.
"""

import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from docs_rag.errors import EmbeddingError
from docs_rag.metrics import mean, percentile
from docs_rag.readers import ReaderPool
from docs_rag.records import Embedder, Purpose
from docs_rag.retrieval import Retriever, ask
from docs_rag.schema import Space
from docs_rag.status import space_in_force
from docs_rag.store import Store
from docs_rag.vectors import DiskVectors, VectorEngine, live_batches

Vectors = npt.NDArray[np.float32]
Near = list[tuple[int, float]]

# What ``retrieve`` reports of itself; the rest of its time is ``other``.
STAGES = ("embed", "vector", "words", "trigrams", "fetch", "fuse")
RECALL_DEPTH = 10
# As many as retrieve asks the engine for.
_NEAREST = 120
# sqlite-vec reads all vectors for each question: it is asked for as long as this, but
# a few questions at least.
_DISK_SECONDS = 20.0
_DISK_LEAST = 3
# Two cosines closer than this are the same: float32 adds up in any order.
_SAME_COSINE = 1e-6


@dataclass(frozen=True, slots=True)
class Spread:
    """Times of one thing, in milliseconds."""

    p50_ms: float
    p95_ms: float
    count: int


@dataclass(frozen=True, slots=True)
class Target:
    """What is asked: an index, its embedder, the engine under test."""

    corpus: str
    directory: Path
    index_path: Path
    embedder: Embedder
    engine: VectorEngine


@dataclass(frozen=True, slots=True)
class Measured:
    """
    What questions cost on one index.

    ``stages`` are parts of ``retrieve``, ``text`` the full-text ones together and
    ``total`` the whole; ``engine`` is
    the vector engine alone, ``baselines`` the same task done exactly. ``recall`` is
    that of the engine's first ten against exact ones, None where are no vectors.
    ``per_question`` has the milliseconds of each stage in the order of questions.
    """

    corpus: str
    engine_name: str
    chunks: int
    vectors: int
    dimension: int
    questions: int
    repeats: int
    warm_up_seconds: float
    stages: Mapping[str, Spread]
    per_question: tuple[Mapping[str, float], ...]
    engine: Spread | None
    baselines: Mapping[str, Spread]
    recall: float | None


def measure_queries(
    target: Target,
    questions: Sequence[str],
    repeats: int,
    say: Callable[[str], None] = lambda line: None,
) -> Measured:
    """Ask every question ``repeats`` times and return what it took."""
    started = time.perf_counter()
    retriever = Retriever(
        target.corpus,
        target.directory,
        target.index_path,
        target.embedder,
        target.engine,
    )
    try:
        retriever.warm_up()
        target.engine.wait()
        warm_up_seconds = time.perf_counter() - started
        say(f"{target.corpus}: ready after {warm_up_seconds:.1f} s")
        per_question = _per_question(retriever, questions, repeats)
    finally:
        retriever.close()
    say(f"{target.corpus}: asked {len(questions)} questions")
    pool = ReaderPool(target.index_path)
    try:
        with pool.snapshot() as store:
            space, _ = space_in_force(store, target.embedder.identity)
            found = _compare(target, store, space, questions, repeats)
            chunks = int(store.meta("chunks", 0))
    finally:
        pool.close()
    return Measured(
        corpus=target.corpus,
        engine_name=target.engine.name,
        chunks=chunks,
        vectors=found.vectors,
        dimension=space.capacity.dimension if space else 0,
        questions=len(questions),
        repeats=repeats,
        warm_up_seconds=round(warm_up_seconds, 3),
        stages=_stages(per_question),
        per_question=per_question,
        engine=found.engine,
        baselines=found.baselines,
        recall=found.recall,
    )


def _per_question(
    retriever: Retriever, questions: Sequence[str], repeats: int
) -> tuple[dict[str, float], ...]:
    """Time ``retrieve``: of each question the median over its repeats counts."""
    asked = [ask(query) for query in questions]
    # All of them, then all again: a question that is repeated at once finds its pages
    # in the cache, which no caller's does.
    passes = [
        [_row(retriever.retrieve(question).facts) for question in asked]
        for _ in range(repeats)
    ]
    return tuple(
        {
            stage: round(statistics.median(row[stage] for row in rows), 3)
            for stage in (*STAGES, "other", "text", "total")
        }
        for rows in zip(*passes, strict=True)
    )


def _stages(rows: Sequence[Mapping[str, float]]) -> dict[str, Spread]:
    return {stage: spread_of([row[stage] for row in rows]) for stage in rows[0]}


def _row(facts: Mapping[str, object]) -> dict[str, float]:
    row = {stage: _number(facts.get(f"{stage}_ms")) for stage in STAGES}
    total = _number(facts.get("total_ms"))
    other = max(0.0, total - sum(row.values()))
    text = row["words"] + row["trigrams"]
    return {**row, "other": other, "text": text, "total": total}


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def spread_of(times: Sequence[float]) -> Spread:
    """Return what half, and nineteen in twenty, of these milliseconds are within."""
    return Spread(
        p50_ms=round(percentile(times, 0.5), 3),
        p95_ms=round(percentile(times, 0.95), 3),
        count=len(times),
    )


# -- the same vectors, searched exactly -------------------------------------------


@dataclass(frozen=True, slots=True)
class _Comparison:
    """What the engine and the exact baselines took; nothing where there is no space."""

    vectors: int = 0
    engine: Spread | None = None
    baselines: Mapping[str, Spread] = field(default_factory=dict)
    recall: float | None = None


def _compare(
    target: Target,
    store: Store,
    space: Space | None,
    questions: Sequence[str],
    repeats: int,
) -> _Comparison:
    if space is None:
        return _Comparison()
    try:
        rows = [
            target.embedder.embed([query], Purpose.QUERY).vectors[0]
            for query in questions
        ]
    except EmbeddingError:
        return _Comparison()
    count = store.live_vector_count(space.id)
    if not count:
        return _Comparison()
    times: dict[str, list[float]] = {"engine": [], "numpy": [], "sqlite-vec": []}
    recalls = []
    for found, exact, seconds in _searches(target, store, space, rows, repeats):
        for name, taken in seconds.items():
            times[name].append(taken * 1000)
        if exact is not None:
            recalls.append(recall(found, exact))
    return _Comparison(
        vectors=count,
        engine=spread_of(times.pop("engine")),
        baselines={name: spread_of(taken) for name, taken in times.items() if taken},
        recall=round(mean(recalls), 4),
    )


def _searches(
    target: Target, store: Store, space: Space, rows: Sequence[Vectors], repeats: int
) -> Iterator[tuple[Near, Near | None, dict[str, float]]]:
    """Yield what the engine finds for a row, what there is, and the seconds of each."""
    matrix = _matrix(store, space)
    spent = 0.0
    for position, row in enumerate(rows):
        found, taken = _timed(
            partial(target.engine.nearest, store, space, row, _NEAREST), repeats
        )
        seconds = {"engine": taken}
        exact = None
        if matrix is not None:
            exact, seconds["numpy"] = _timed(partial(matrix.nearest, row), repeats)
        if spent < _DISK_SECONDS or position < _DISK_LEAST:
            on_disk, taken = _timed(
                partial(DiskVectors().nearest, store, space, row, _NEAREST), 1
            )
            seconds["sqlite-vec"] = taken
            spent += taken
            exact = exact or on_disk
        yield found, exact, seconds


def _timed(action: Callable[[], Near], repeats: int) -> tuple[Near, float]:
    """Return what ``action`` does, and the median of its wall times."""
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        found = action()
        times.append(time.perf_counter() - started)
    return found, statistics.median(times)


def recall(found: Near, exact: Near) -> float:
    """Return the share of the exact first ten in the first ten; equals are equal."""
    best = exact[:RECALL_DEPTH]
    if not best:
        return 1.0
    known = dict(exact)
    least = best[-1][1] - _SAME_COSINE
    right = sum(known.get(i, -2.0) >= least for i, _ in found[:RECALL_DEPTH])
    return min(right, len(best)) / len(best)


@dataclass(frozen=True, slots=True)
class _Matrix:
    """All vectors of a space as they are: what every other engine has to beat."""

    ids: npt.NDArray[np.int64]
    rows: Vectors

    def nearest(self, query: Vectors) -> Near:
        cosines = self.rows @ query
        count = min(_NEAREST, len(cosines))
        best = np.argpartition(-cosines, count - 1)[:count]
        order = best[np.argsort(-cosines[best], kind="stable")]
        return [(int(self.ids[i]), float(cosines[i])) for i in order]


def _matrix(store: Store, space: Space) -> _Matrix | None:
    """Read all vectors, where they fit into half of this machine's memory."""
    count = store.live_vector_count(space.id)
    dimension = space.capacity.dimension
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if not count or 4 * count * dimension > memory // 2:
        return None
    ids = np.empty(count, dtype=np.int64)
    rows = np.empty((count, dimension), dtype=np.float32)
    start = 0
    for batch, vectors in live_batches(store, space):
        ids[start : start + len(batch)] = batch
        rows[start : start + len(batch)] = vectors
        start += len(batch)
    return _Matrix(ids, rows)
