"""
What it takes in memory: a server, a chunk's vectors, an indexing run.

Servers are the real ones, with the built-in model loaded. An indexing run is one with
the stub, so that what is seen is the indexer and not a model.
"""

import json
import os
import sys
import tempfile
from pathlib import Path

from docs_rag.config import load_settings
from docs_rag.embedding import StubEmbedder
from docs_rag.indexer import index_corpus
from docs_rag.store import Store
from docs_rag.vectors import DiskVectors
from eval.bench.figures import Bench, Figure, Section, Table
from eval.bench.filling import Filled, SyntheticEmbedder, filled
from eval.bench.processes import (
    answer,
    peak_bytes,
    resident_bytes,
    run_child,
    serving,
)
from eval.bench.query import server_engine
from eval.bench.synthetic import queries, write_markdown

CORPUS = "tree"
_LIMIT = "RAG_VECTOR_CACHE_MB"
_MANY_CHUNKS = 1_000_000
_QUESTIONS = 30
_MEGABYTE = 1e6


def measure(bench: Bench) -> Section:
    """Measure servers, engines and indexing runs."""
    sizes = bench.sizes[-2:]
    places = [filled(bench.work, chunks, bench.say) for chunks in sizes]
    servers = [_server(place, bench) for place in places]
    engines = [run_child(__name__, "engine", p.rag_dir, p.chunks) for p in places]
    indexing, runs = _indexing(bench)
    figures = []
    for chunks, rss, engine in zip(sizes, servers, engines, strict=True):
        is_many = chunks == _MANY_CHUNKS
        figures += [
            Figure(
                f"server, resident at {chunks:,} chunks",
                rss / _MEGABYTE,
                "MB",
                goal=600.0 if is_many else None,
            ),
            Figure(
                f"vector engine, resident bytes a chunk at {chunks:,} chunks",
                max(engine["grown"], engine["size"]) / chunks,
                "bytes",
                goal=160.0 if is_many else None,
            ),
        ]
    return Section(
        title="Memory",
        figures=(*figures, *indexing, _limited(bench)),
        tables=(
            Table(
                "Vector engine",
                ("chunks", "vectors", "engine", "its own count (MB)", "seen (MB)"),
                tuple(
                    (
                        chunks,
                        one["vectors"],
                        one["engine"],
                        one["size"] / _MEGABYTE,
                        one["grown"] / _MEGABYTE,
                    )
                    for chunks, one in zip(sizes, engines, strict=True)
                ),
            ),
            Table("Indexing run, peak", ("files", "MB"), runs),
        ),
        notes=(
            f"Servers after {_QUESTIONS} questions, with the built-in model, which is "
            "most of it in a small corpus. Engine: how much a process grew from before "
            "the vectors were loaded to after the first search, or its own count where "
            "that is more.",
        ),
    )


def _server(place: Filled, bench: Bench) -> int:
    """Return what the real server has resident after some questions."""
    bench.say(f"memory: a server over {place.chunks:,} chunks")
    with serving(place.variables(), bench.work / "server.log") as server:
        for asked in queries(_QUESTIONS, place.chunks):
            server.call("retrieve", query=asked.text)
        return resident_bytes(server.pid)


def _limited(bench: Bench) -> Figure:
    """Say whether a server with too small a budget goes to disk and says so."""
    # A bit for each dimension of each vector is more than a megabyte from here on.
    chunks = max(bench.given_sizes, default=100_000 if bench.is_full else 20_000)
    place = filled(bench.work, chunks, bench.say)
    log = bench.work / "server.log"
    with serving(place.variables(**{_LIMIT: "1"}), log) as server:
        server.call("retrieve", query="warm up")
        status = server.call("corpus_status")
    said = status["vectors"]["engine"] == DiskVectors.name or _LIMIT in json.dumps(
        status
    )
    name = f"corpus_status says that {_LIMIT}=1 is too little (1: yes)"
    return Figure(name, float(said), "", goal=1.0, at_least=True)


def _indexing(bench: Bench) -> tuple[list[Figure], tuple[tuple[int, float], ...]]:
    files = (200, 2_000, 8_000) if bench.is_full else (100, 400)
    if bench.given_sizes:
        files = tuple(max(1, chunks // 10) for chunks in bench.given_sizes[-2:])
    peaks = []
    for count in files:
        bench.say(f"memory: indexing {count:,} files")
        with tempfile.TemporaryDirectory(dir=bench.work) as folder:
            write_markdown(Path(folder) / "corpus", count)
            peaks.append(run_child(__name__, "index", folder)["peak"] / _MEGABYTE)
    figures = [
        Figure(
            f"indexing run, peak with {count:,} files",
            peak,
            "MB",
            before,
            f"with {fewer:,} files",
            1.2,
        )
        for fewer, before, count, peak in zip(
            files, peaks, files[1:], peaks[1:], strict=False
        )
    ]
    return figures, tuple(zip(files, peaks, strict=True))


# -- in the child -----------------------------------------------------------------


def lay_out(folder: Path, **entry: object) -> dict[str, str]:
    """Declare the markdown under ``folder``/corpus; return the settings that do it."""
    value = {"corpus_dir": str(folder / "corpus"), "roots": ["docs"], **entry}
    config = folder / "corpora.json"
    config.write_text(json.dumps({CORPUS: value}), encoding="utf-8")
    return {"RAG_DIR": str(folder), "RAG_CORPUS": CORPUS}


def _index(folder: Path) -> dict[str, object]:
    settings = load_settings(lay_out(folder))
    index_corpus(settings.chosen(), StubEmbedder())
    return {"peak": peak_bytes()}


def _engine(place: Filled) -> dict[str, object]:
    asked = queries(1, place.chunks)[0]
    engine = server_engine(place)
    with Store(place.index_path) as store, store.snapshot():
        space = store.space(SyntheticEmbedder().identity.fingerprint)
        if space is None:
            raise LookupError(f"{place.index_path} has no space")
        count = store.live_vector_count(space.id)
        before = _own_bytes()
        engine.nearest(store, space, asked.vector, 10)
        engine.wait()
        engine.nearest(store, space, asked.vector, 10)
        grown = _own_bytes() - before
    return {
        "engine": engine.name,
        "vectors": count,
        "size": int(getattr(engine, "size_bytes", 0)),
        "grown": max(0, grown),
    }


def _own_bytes() -> int:
    return resident_bytes(os.getpid())


def _child(words: list[str]) -> None:
    if words[0] == "index":
        answer(_index(Path(words[1])))
    else:
        answer(_engine(Filled(Path(words[1]), int(words[2]))))


if __name__ == "__main__":
    _child(sys.argv[1:])
