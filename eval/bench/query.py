"""
What a question costs as the corpus grows: stage by stage, beside exact search.

Each size in a process of its own, with the engine and the retrieve path of a server;
``docs-rag bench`` measures a user's own index by the same code.
"""

import dataclasses
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import sqlite_vec

from docs_rag.benchmark import RECALL_DEPTH, STAGES, Target, measure_queries, spread_of
from docs_rag.config import load_settings
from docs_rag.embedding import BuiltinEmbedder
from docs_rag.metrics import percentile
from docs_rag.records import Purpose
from docs_rag.service import engine_for
from docs_rag.store import Store
from docs_rag.vectors import VectorEngine, live_batches, to_bytes
from eval.bench.figures import Bench, Figure, Section, Table, median_seconds
from eval.bench.filling import CORPUS, Filled, SyntheticEmbedder, filled
from eval.bench.processes import answer, run_child, say
from eval.bench.synthetic import queries

# The table that the growth chart is drawn from.
GROWTH = "Milliseconds (p50) by stage and size of the corpus"

_QUESTIONS, _QUESTIONS_OF_MANY = 100, 50
_MANY_CHUNKS = 1_000_000
# A bare virtual table is built anew for the run: beyond this it takes too long.
_BARE_CHUNKS = 100_000
_NEAREST = 120
_SHOWN = (*STAGES[1:], "other", "total")
_BY_KIND = ("words", "trigrams", "total")


def measure(bench: Bench) -> Section:
    """Measure retrieve at every size."""
    rows = []
    for chunks in bench.sizes:
        place = filled(bench.work, chunks, bench.say)
        bench.say(f"query: {chunks:,} chunks")
        count = _QUESTIONS_OF_MANY if chunks >= _MANY_CHUNKS else _QUESTIONS
        # A corpus of a few passages has not so many different questions.
        count = min(count, max(1, chunks // 10))
        rows.append(run_child(__name__, place.rag_dir, chunks, count, bench.repeats))
    model = run_child(__name__, "model", _QUESTIONS, bench.repeats)
    return section(rows, model)


def server_engine(place: Filled, **variables: str) -> VectorEngine:
    """Return the engine that a server of this corpus would have."""
    settings = load_settings(place.variables(**variables))
    return engine_for(settings, resident=True)


def section(rows: list[dict[str, Any]], model: dict[str, float]) -> Section:
    """Return what was measured as figures and tables."""
    return Section(
        title="Query",
        figures=tuple(figure for row in rows for figure in _figures(row)),
        tables=(
            Table(
                GROWTH,
                ("chunks", *_SHOWN),
                tuple(_stages(row, "p50_ms") for row in rows),
            ),
            Table(
                "Milliseconds (p95) by stage and size of the corpus",
                ("chunks", *_SHOWN),
                tuple(_stages(row, "p95_ms") for row in rows),
            ),
            Table(
                "Milliseconds (p50) by kind of question",
                ("chunks", "kind", "questions", *_BY_KIND),
                tuple(line for row in rows for line in _by_kind(row)),
            ),
            Table(
                "The nearest vectors, by who looks for them (p50 ms)",
                ("chunks", "vectors", "engine", "alone", "numpy", "sqlite-vec", "vec0"),
                tuple(map(_searches, rows)),
            ),
            Table(
                "The built-in model, one question (ms)",
                ("p50", "p95"),
                ((model["p50_ms"], model["p95_ms"]),),
            ),
        ),
        notes=(
            "Synthetic corpus (eval/bench/synthetic.py). Vectors of questions are "
            "given, so embedding is no part of the times by size: it does not depend "
            "on the corpus and has its own row. Each hit's file is looked for on disk.",
            "An identifier, or a misspelt word, is what trigrams are asked for; "
            "no other question reaches it.",
            "Baselines search the same vectors for as many neighbours, on one thread: "
            "sqlite-vec is `vec_distance_cosine` over the index's own table, vec0 "
            "its virtual table, numpy a product with all vectors in float32.",
        ),
    )


def _figures(row: dict[str, Any]) -> list[Figure]:
    chunks, stages, exact = row["chunks"], row["stages"], row["baselines"]
    at = f"at {chunks:,} chunks"
    vector = stages["vector"]["p50_ms"]
    figures = [
        Figure(
            f"retrieve, p50 {at}",
            stages["total"]["p50_ms"],
            "ms",
            exact["numpy"]["p50_ms"] if "numpy" in exact else None,
            "numpy product with all vectors",
            3.0 if chunks == 100_000 else None,
        ),
        Figure(
            f"vector stage, p50 {at}",
            vector,
            "ms",
            exact["sqlite-vec"]["p50_ms"],
            "sqlite-vec, exact",
            0.1 if chunks == _MANY_CHUNKS else None,
        ),
        Figure(
            f"full-text stages, p50 {at}",
            stages["text"]["p50_ms"],
            "ms",
            vector,
            "vector stage",
            2.0 if chunks == _MANY_CHUNKS else None,
        ),
        Figure(
            f"recall@{RECALL_DEPTH} of the engine {at}",
            row["recall"],
            "",
            goal=0.99,
            at_least=True,
        ),
    ]
    return figures


def _stages(row: dict[str, Any], percent: str) -> tuple[object, ...]:
    return (row["chunks"], *(row["stages"][stage][percent] for stage in _SHOWN))


def _by_kind(row: dict[str, Any]) -> list[tuple[object, ...]]:
    lines = []
    for kind in sorted(set(row["kinds"])):
        pairs = zip(row["kinds"], row["per_question"], strict=True)
        rows = [one for is_of, one in pairs if is_of == kind]
        times = (percentile([one[stage] for one in rows], 0.5) for stage in _BY_KIND)
        lines.append((row["chunks"], kind, len(rows), *times))
    return lines


def _searches(row: dict[str, Any]) -> tuple[object, ...]:
    exact = row["baselines"]
    others = (
        exact[name]["p50_ms"] if name in exact else "not measured"
        for name in ("numpy", "sqlite-vec", "vec0")
    )
    engine = (row["engine_name"], row["engine"]["p50_ms"])
    return (row["chunks"], row["vectors"], *engine, *others)


# -- in the child -----------------------------------------------------------------


def _measure_size(place: Filled, count: int, repeats: int) -> dict[str, Any]:
    asked = queries(count, place.chunks)
    embedder = SyntheticEmbedder(asked)
    target = Target(
        CORPUS, place.directory, place.index_path, embedder, server_engine(place)
    )
    measured = measure_queries(target, [one.text for one in asked], repeats, say)
    found = dataclasses.asdict(measured)
    found["kinds"] = [one.kind for one in asked]
    if place.chunks <= _BARE_CHUNKS:
        rows = [to_bytes(one.vector) for one in asked]
        found["baselines"]["vec0"] = _bare(place, rows, repeats)
    return found


def bare_table(place: Filled, folder: Path) -> apsw.Connection:
    """Return sqlite-vec's virtual table ``bare`` with the vectors of an index."""
    connection = apsw.Connection(str(folder / "vec0.sqlite"))
    connection.enable_load_extension(True)
    connection.load_extension(sqlite_vec.loadable_path())
    with Store(place.index_path) as store, store.snapshot():
        space = store.space(SyntheticEmbedder().identity.fingerprint)
        if space is None:
            raise LookupError(f"{place.index_path} has no space")
        connection.execute(
            "CREATE VIRTUAL TABLE bare USING vec0(vector "
            f"float[{space.capacity.dimension}] distance_metric=cosine)"
        )
        for ids, matrix in live_batches(store, space):
            with connection:
                connection.executemany(
                    "INSERT INTO bare(rowid, vector) VALUES(?, ?)",
                    zip(ids.tolist(), map(to_bytes, matrix), strict=True),
                )
    return connection


def _bare(place: Filled, rows: list[bytes], repeats: int) -> dict[str, Any]:
    """Time sqlite-vec's virtual table over the same vectors."""
    ask = "SELECT rowid FROM bare WHERE vector MATCH ? AND k = ? ORDER BY distance"
    with tempfile.TemporaryDirectory() as folder:
        connection = bare_table(place, Path(folder))

        def one(row: bytes) -> object:
            return connection.execute(ask, (row, _NEAREST)).fetchall()

        times = [1000 * median_seconds(partial(one, row), repeats) for row in rows]
        connection.close()
    return dataclasses.asdict(spread_of(times))


def _measure_model(count: int, repeats: int) -> dict[str, Any]:
    embedder = BuiltinEmbedder()
    texts = [one.text for one in queries(count, 10_000)]
    embedder.embed(texts[:1], Purpose.QUERY)
    asked = [partial(embedder.embed, [text], Purpose.QUERY) for text in texts]
    times = [1000 * median_seconds(one, repeats) for one in asked]
    return dataclasses.asdict(spread_of(times))


def _child(words: list[str]) -> None:
    if words[0] == "model":
        answer(_measure_model(int(words[1]), int(words[2])))
        return
    place = Filled(Path(words[0]), int(words[1]))
    answer(_measure_size(place, int(words[2]), int(words[3])))


if __name__ == "__main__":
    _child(sys.argv[1:])
