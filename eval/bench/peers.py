"""
The same passages and questions put to others, where they are installed.

None of them does all of it: some know vectors, some words, `grep` a string. Each row
says what was asked of it; `python -m pip install lancedb bm25s` adds two of them.
"""

import contextlib
import importlib.metadata
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from docs_rag.benchmark import recall
from docs_rag.functionwords import ENGLISH
from docs_rag.lexical import query_words
from docs_rag.metrics import mean, percentile
from docs_rag.retrieval import Retriever, ask
from docs_rag.schema import Space
from docs_rag.store import Store
from docs_rag.vectors import DiskVectors, live_batches, to_bytes
from eval.bench.figures import Bench, Section, Table
from eval.bench.filling import CORPUS, Filled, SyntheticEmbedder, filled
from eval.bench.processes import answer, run_child
from eval.bench.query import bare_table, server_engine
from eval.bench.synthetic import Asked, queries, write_markdown

_QUESTIONS = 50
_DEPTH = 10
_CHUNKS, _CHUNKS_QUICK = 100_000, 1_000
_COLUMNS = (
    *("who", "version", "asked for", "build s", "p50 ms", "p95 ms", "recall@10"),
    "page found",
)
_MISSING = "not installed"

Vectors = npt.NDArray[np.float32]
Near = list[tuple[int, float]]


@dataclass(frozen=True, slots=True)
class Corpus:
    """What all are asked about: an index, its vectors and texts, the questions."""

    place: Filled
    store: Store
    space: Space
    asked: Sequence[Asked]
    ids: npt.NDArray[np.int64]
    matrix: Vectors
    folder: Path

    def exact(self, row: Vectors) -> Near:
        """Return the nearest vectors, from a product with all of them."""
        cosines = self.matrix @ row
        best = np.argsort(-cosines, kind="stable")[: 2 * _DEPTH]
        return [(int(self.ids[i]), float(cosines[i])) for i in best]

    def texts(self) -> tuple[list[str], list[str]]:
        """Return the path and the text of every passage."""
        chunks = self.store.all_chunks()
        return [c.path for c in chunks], [f"{c.heading}\n{c.text}" for c in chunks]


@dataclass(frozen=True, slots=True)
class Peer:
    """One of them, built: ``ask`` returns vector ids with cosines, or paths."""

    asked_for: str
    build_seconds: float
    ask: Callable[[Asked], Near | list[str]]


def measure(bench: Bench) -> Section:
    """Put the same questions to all of them, each in a process of its own."""
    chunks = _CHUNKS if bench.is_full else _CHUNKS_QUICK
    if bench.given_sizes:
        chunks = bench.given_sizes[-1]
    place = filled(bench.work, chunks, bench.say)
    rows = []
    for name in PEERS:
        bench.say(f"peers: {name}")
        rows.append(tuple(run_child(__name__, name, place.rag_dir, chunks)))
    return Section(
        title="Peers",
        tables=(
            Table(
                f"{chunks:,} passages, {_QUESTIONS} questions", _COLUMNS, tuple(rows)
            ),
        ),
        notes=(
            "Page found: how often the page that a question was made from is among the "
            f"first {_DEPTH}. Recall is of exact search of the same vectors. docs-rag, "
            "numpy and sqlite-vec work on one thread, others as they come; `grep -r` "
            "looks for files with any of the question's content words, ranks nothing, "
            "and starts a process each time.",
        ),
    )


# -- who is asked -----------------------------------------------------------------


def _docs_rag(corpus: Corpus) -> Peer:
    place, embedder = corpus.place, SyntheticEmbedder(corpus.asked)
    started = time.perf_counter()
    engine = server_engine(place)
    retriever = Retriever(CORPUS, place.directory, place.index_path, embedder, engine)
    retriever.warm_up()

    def one(asked: Asked) -> list[str]:
        found = retriever.retrieve(ask(asked.text, k=_DEPTH), even_if_none=True)
        return [hit.path for hit in found.hits]

    return Peer("all of it: retrieve", time.perf_counter() - started, one)


def _engine(corpus: Corpus) -> Peer:
    started = time.perf_counter()
    engine = server_engine(corpus.place)

    def one(asked: Asked) -> Near:
        return engine.nearest(corpus.store, corpus.space, asked.vector, _DEPTH)

    one(corpus.asked[0])
    return Peer("vectors", time.perf_counter() - started, one)


def _sqlite_vec(corpus: Corpus) -> Peer:
    def one(asked: Asked) -> Near:
        engine = DiskVectors()
        return engine.nearest(corpus.store, corpus.space, asked.vector, _DEPTH)

    return Peer("vectors, in the index", 0.0, one)


def _vec0(corpus: Corpus) -> Peer:
    started = time.perf_counter()
    connection = bare_table(corpus.place, corpus.folder)
    seconds = time.perf_counter() - started
    query = "SELECT rowid, 1 - distance FROM bare WHERE vector MATCH ? AND k = ?"

    def one(asked: Asked) -> Near:
        rows = connection.execute(query, (to_bytes(asked.vector), _DEPTH))
        return [(row[0], row[1]) for row in rows]

    return Peer("vectors, virtual table", seconds, one)


def _numpy(corpus: Corpus) -> Peer:
    return Peer("vectors, a product", 0.0, lambda asked: corpus.exact(asked.vector))


def _lancedb(corpus: Corpus) -> Peer:
    import lancedb
    import pyarrow

    started = time.perf_counter()
    width = corpus.matrix.shape[1]
    flat = pyarrow.array(corpus.matrix.reshape(-1))
    data = pyarrow.table(
        {
            "id": pyarrow.array(corpus.ids),
            "vector": pyarrow.FixedSizeListArray.from_arrays(flat, width),
        }
    )
    table = lancedb.connect(str(corpus.folder)).create_table("vectors", data)
    seconds = time.perf_counter() - started

    def one(asked: Asked) -> Near:
        search = table.search(asked.vector).distance_type("cosine").limit(_DEPTH)
        rows = search.select(["id", "_distance"]).to_list()
        return [(row["id"], 1 - row["_distance"]) for row in rows]

    return Peer("vectors, flat table", seconds, one)


def _bm25s(corpus: Corpus) -> Peer:
    import bm25s

    paths, texts = corpus.texts()
    started = time.perf_counter()
    index = bm25s.BM25()
    tokens = bm25s.tokenize(texts, stopwords="en", show_progress=False)
    index.index(tokens, show_progress=False)
    seconds = time.perf_counter() - started

    def one(asked: Asked) -> list[str]:
        words = bm25s.tokenize(asked.text, stopwords="en", show_progress=False)
        found, _ = index.retrieve(words, k=_DEPTH, show_progress=False)
        return [paths[i] for i in found[0]]

    return Peer("words", seconds, one)


def _grep(corpus: Corpus) -> Peer:
    started = time.perf_counter()
    write_markdown(corpus.folder, len(corpus.store.files()))
    seconds = time.perf_counter() - started

    def one(asked: Asked) -> list[str]:
        words = [word for word in query_words(asked.text) if word not in ENGLISH]
        patterns = [part for word in words for part in ("-e", word)]
        command = ["grep", "-rliF", *patterns, str(corpus.folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        found = done.stdout.splitlines()
        return [str(Path(path).relative_to(corpus.folder)) for path in found]

    return Peer("strings in files", seconds, one)


PEERS: dict[str, Callable[[Corpus], Peer]] = {
    "docs-rag": _docs_rag,
    "docs-rag's engine": _engine,
    "numpy": _numpy,
    "sqlite-vec": _sqlite_vec,
    "sqlite-vec vec0": _vec0,
    "lancedb": _lancedb,
    "bm25s": _bm25s,
    "grep -r": _grep,
}


# -- in the child -----------------------------------------------------------------


def _version(name: str) -> str | None:
    """Return the version of what a row needs; None where it is not installed."""
    if name.startswith("grep"):
        if shutil.which("grep") is None:
            return None
        done = subprocess.run(
            ["grep", "-V"], capture_output=True, text=True, check=False
        )
        return done.stdout.partition("\n")[0].rsplit(" ", 1)[-1]
    package = name.split()[0].removesuffix("'s")
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


@contextlib.contextmanager
def _opened(place: Filled, folder: Path) -> Iterator[Corpus]:
    asked = queries(min(_QUESTIONS, place.chunks), place.chunks)
    with Store(place.index_path) as store, store.snapshot():
        space = store.space(SyntheticEmbedder().identity.fingerprint)
        if space is None:
            raise LookupError(f"{place.index_path} has no space")
        batches = list(live_batches(store, space))
        ids = np.concatenate([batch for batch, _ in batches])
        matrix = np.concatenate([rows for _, rows in batches])
        yield Corpus(place, store, space, asked, ids, matrix, folder)


def _row(name: str, place: Filled) -> list[object]:
    version = _version(name)
    if version is None:
        return [name, _MISSING, *[""] * (len(_COLUMNS) - 2)]
    with (
        tempfile.TemporaryDirectory() as folder,
        _opened(place, Path(folder)) as corpus,
    ):
        return [name, version, *_asked(PEERS[name](corpus), corpus)]


def _asked(peer: Peer, corpus: Corpus) -> list[object]:
    peer.ask(corpus.asked[0])
    times, recalls, pages = [], [], []
    for asked in corpus.asked:
        started = time.perf_counter()
        found = peer.ask(asked)
        times.append((time.perf_counter() - started) * 1000)
        if found and isinstance(found[0], tuple):
            near = [one for one in found if isinstance(one, tuple)]
            recalls.append(recall(near, corpus.exact(asked.vector)))
            found = _paths(corpus, [i for i, _ in near])
        pages.append(float(asked.path in found[:_DEPTH]))
    return [
        peer.asked_for,
        round(peer.build_seconds, 2),
        *(round(percentile(times, share), 3) for share in (0.5, 0.95)),
        round(mean(recalls), 4) if recalls else "",
        round(mean(pages), 2),
    ]


def _paths(corpus: Corpus, vector_ids: Sequence[int]) -> list[str]:
    by_vector = corpus.store.chunks_of_vectors(vector_ids)
    ids = [i for vector in vector_ids for i in by_vector.get(vector, ())]
    chunks = corpus.store.chunks(ids)
    return list(dict.fromkeys(chunks[i].path for i in ids))


def _child(words: list[str]) -> None:
    answer(_row(words[0], Filled(Path(words[1]), int(words[2]))))


if __name__ == "__main__":
    _child(sys.argv[1:])
