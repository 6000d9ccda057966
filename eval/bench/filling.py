"""
An index of any size, written through the product's own store without a model.

The same rows as the indexer writes, in the same order and in transactions of as many
files: so the full-text tables have the segments that they would have. Only the vectors
are drawn (see ``synthetic``) and the calibration is the generator's own.
"""

import dataclasses
import functools
import hashlib
import itertools
import json
import os
import pickle
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from docs_rag.background import Background
from docs_rag.calibration import (
    CALIBRATION_VERSION,
    Calibration,
    calibration_as_json,
)
from docs_rag.embedding import BuiltinEmbedder
from docs_rag.preparing import Prepared, digest_of, entries, recipe
from docs_rag.records import (
    Capacity,
    Chunk,
    ChunkedDocument,
    Document,
    EmbeddingBatch,
    ModelIdentity,
    Purpose,
    Section,
)
from docs_rag.schema import Entry
from docs_rag.store import Store
from docs_rag.vectors import to_bytes
from docs_rag.verdict import Thresholds
from eval.bench import synthetic
from eval.bench.synthetic import DIMENSION, Asked, Page, PageVectors

_ROOT = Path(__file__).resolve().parents[2]
CORPUS = "synthetic"
# As the indexer does: files that change in one transaction.
_GROUP_FILES = 64
# Below this a second process takes longer to start than it saves.
_ALONE_CHUNKS = 20_000
_TELL_SECONDS = 10.0
_WRITTEN = 1_700_000_000_000_000_000
# Of the book's own index under the built-in model.
_SPREAD = 0.058
_THRESHOLDS = {
    "both": Thresholds(weak=1.4, strong=1.7),
    "meaning": Thresholds(weak=0.34, strong=0.41),
    "words": Thresholds(weak=0.89, strong=1.12),
}


class SyntheticEmbedder:
    """
    Knows the vectors of generated questions; any other text gets one of no subject.

    It passes for the built-in model, so that a real server takes its index for its own.
    """

    def __init__(self, asked: Iterable[Asked] = (), dimension: int = DIMENSION) -> None:
        self._vectors = {one.text: one.vector for one in asked}
        self._dimension = dimension

    @property
    def identity(self) -> ModelIdentity:
        """The built-in model's."""
        return BuiltinEmbedder().identity

    def probe(self) -> Capacity:
        """No text is too long."""
        return Capacity(dimension=self._dimension, window=None)

    def count(self, text: str) -> int:
        """Count characters; nothing is measured by them."""
        return len(text)

    def embed(self, texts: Sequence[str], purpose: Purpose) -> EmbeddingBatch:
        """Look the texts up."""
        rows = [
            self._vectors[text]
            if text in self._vectors
            else synthetic.unknown_vector(text, self._dimension)
            for text in texts
        ]
        return EmbeddingBatch(np.stack(rows))


def fill_index(
    path: Path,
    chunks: int,
    dimension: int = DIMENSION,
    say: Callable[[str], None] = lambda line: None,
) -> None:
    """Write an index of exactly ``chunks`` passages to ``path``, which must be new."""
    embedder = SyntheticEmbedder(dimension=dimension)
    started = told = time.monotonic()
    written = 0
    with Store(path, writable=True) as store:
        # A scratch file: what a power failure does to it does not matter.
        store.rows("PRAGMA synchronous = OFF")
        with store.transaction():
            space = store.add_space(embedder.identity, embedder.probe())
        for rows in _in_order(chunks, dimension):
            with store.transaction():
                for one in rows:
                    _add_page(store, space.id, one)
                store.advance()
            written += sum(len(one.entries) for one in rows)
            if time.monotonic() - told > _TELL_SECONDS:
                told = time.monotonic()
                say(f"{written:,} of {chunks:,} chunks, {told - started:.0f} s")
        with store.transaction():
            store.set_meta(**_meta(space.id, space.fingerprint, dimension))
            store.advance()
        store.settle_text()
        store.rows("PRAGMA wal_checkpoint(TRUNCATE)")


@dataclass(frozen=True, slots=True)
class _Rows:
    """A page ready to be written; the vectors in ``entries`` are places in these."""

    prepared: Prepared
    entries: tuple[Entry, ...]
    vectors: dict[bytes, bytes]


def _in_order(chunks: int, dimension: int) -> Iterator[list[_Rows]]:
    """Yield groups of pages; those of a large corpus are made beside the writing."""
    groups = _groups(synthetic.page_sizes(chunks))
    make = functools.partial(_rows_of, dimension=dimension)
    if chunks < _ALONE_CHUNKS:
        yield from map(make, groups)
        return
    # Not multiprocessing, which would run the caller's own module again.
    command = [sys.executable, "-m", "eval.bench.filling", str(chunks), str(dimension)]
    with subprocess.Popen(command, cwd=_ROOT, stdout=subprocess.PIPE) as process:
        try:
            yield from _unpickled(process.stdout)
        finally:
            process.kill()


def _unpickled(stream: Any) -> Iterator[list[_Rows]]:
    while (rows := pickle.load(stream)) is not None:
        yield rows


def _write_pickled(chunks: int, dimension: int, stream: BinaryIO) -> None:
    """Be the process that makes the rows of a large corpus."""
    for group in _groups(synthetic.page_sizes(chunks)):
        pickle.dump(_rows_of(group, dimension), stream, pickle.HIGHEST_PROTOCOL)
    pickle.dump(None, stream)
    stream.flush()


def _groups(sizes: Iterable[tuple[int, int]]) -> Iterator[list[tuple[int, int]]]:
    sizes = iter(sizes)
    while group := list(itertools.islice(sizes, _GROUP_FILES)):
        yield group


def _rows_of(sizes: Sequence[tuple[int, int]], dimension: int) -> list[_Rows]:
    pages = [synthetic.page(number, passages) for number, passages in sizes]
    vectors = synthetic.page_vectors(pages, dimension)
    return [_rows(*pair) for pair in zip(pages, vectors, strict=True)]


def _rows(one: Page, vectors: PageVectors) -> _Rows:
    prepared = prepared_page(one)
    found = {
        digest_of(window[0]): row
        for window, row in zip(prepared.windows, vectors.bodies, strict=True)
    }
    for passage, heading in zip(one.passages, prepared.headings, strict=True):
        found.setdefault(digest_of(heading), vectors.headings[passage.section])
    places = {digest: place for place, digest in enumerate(found)}
    return _Rows(
        prepared=prepared,
        entries=tuple(entries(prepared, places)),
        vectors={digest: to_bytes(row) for digest, row in found.items()},
    )


def _add_page(store: Store, space_id: int, one: _Rows) -> None:
    store.add_vectors(space_id, one.vectors)
    found = store.vector_ids(space_id, one.vectors)
    ids = [found[digest] for digest in one.vectors]
    written = [
        dataclasses.replace(
            entry,
            vector_ids=tuple(ids[place] for place in entry.vector_ids),
            heading_id=None if entry.heading_id is None else ids[entry.heading_id],
        )
        for entry in one.entries
    ]
    document, chunked = one.prepared.document, one.prepared.chunked
    store.add_file(document, chunked, None, recipe(), space_id, written)


def prepared_page(one: Page) -> Prepared:
    """Return a page as the indexer prepares it, without parsing its markdown."""
    last_lines = {p.section: p.last_line for p in one.passages}
    first_lines = {p.section: p.first_line for p in reversed(one.passages)}
    sections = tuple(
        Section(
            path=(one.title,) if place == 0 else (one.title, heading),
            slug=heading.replace(" ", "-") if place == 0 else f"{place}-{heading}",
            level=1 if place == 0 else 2,
            first_line=first_lines[place],
            last_line=last_lines[place],
        )
        for place, heading in enumerate(one.headings[: len(last_lines)])
    )
    chunks = tuple(
        Chunk(
            ordinal=ordinal,
            sections=(sections[passage.section],),
            section=sections[passage.section],
            first_line=passage.first_line,
            last_line=passage.last_line,
            body=passage.body,
        )
        for ordinal, passage in enumerate(one.passages)
    )
    data = one.text.encode()
    document = Document(
        path=one.path,
        root=Path(),
        size_bytes=len(data),
        mtime_ns=_WRITTEN,
        sha256=hashlib.sha256(data).hexdigest(),
    )
    return Prepared(
        document=document,
        chunked=ChunkedDocument(
            one.title, "", sections, chunks, one.passages[-1].last_line
        ),
        notice=None,
        windows=tuple(
            (f"{' > '.join(chunk.section.path)}\n{chunk.text}",) for chunk in chunks
        ),
        headings=tuple(chunk.heading for chunk in chunks),
    )


def _meta(space_id: int, fingerprint: str, dimension: int) -> dict[str, object]:
    body, heading = synthetic.common_vectors(dimension)
    calibration = Calibration(Background(body, heading, _SPREAD), _THRESHOLDS, {})
    written = "2026-01-01T00:00:00+00:00"
    return {
        "corpus": CORPUS,
        "active_space": space_id,
        "indexed_at": written,
        "checked_at": written,
        "commit": None,
        "synced_at": None,
        "dirty": None,
        "skipped": [],
        "unmatched_scope": [],
        "unfinished": 0,
        "changed_files": 0,
        "calibration": calibration_as_json(calibration),
        "calibrated_by": [CALIBRATION_VERSION, fingerprint],
    }


@dataclass(frozen=True, slots=True)
class Filled:
    """A synthetic index on disk, laid out so that a server can be started on it."""

    rag_dir: Path
    chunks: int

    @property
    def index_path(self) -> Path:
        """The index itself."""
        return self.rag_dir / f"data-{CORPUS}" / "index.sqlite"

    @property
    def directory(self) -> Path:
        """Where its markdown would be: hits come with freshness unchecked."""
        return self.rag_dir / "no-markdown"

    def variables(self, **more: str) -> dict[str, str]:
        """Return the settings that choose it, for a process of its own."""
        return {"RAG_DIR": str(self.rag_dir), "RAG_CORPUS": CORPUS, **more}


def filled(work: Path, chunks: int, say: Callable[[str], None]) -> Filled:
    """Return the index of so many chunks, kept from run to run under its version."""
    name = f"synthetic-{synthetic.VERSION}-{recipe().replace('/', '-')}-{chunks}"
    found = Filled(work / name, chunks)
    if found.index_path.exists():
        return found
    beside = Filled(work / f"{name}.{os.getpid()}", chunks)
    try:
        beside.index_path.parent.mkdir(parents=True)
        entry = {"corpus_dir": str(found.directory), "roots": ["docs"]}
        config = json.dumps({CORPUS: entry})
        (beside.rag_dir / "corpora.json").write_text(config, encoding="utf-8")
        say(f"writing an index of {chunks:,} chunks")
        fill_index(beside.index_path, chunks, say=say)
        shutil.rmtree(found.rag_dir, ignore_errors=True)
        beside.rag_dir.rename(found.rag_dir)
    finally:
        shutil.rmtree(beside.rag_dir, ignore_errors=True)
    return found


if __name__ == "__main__":
    from eval.bench.filling import _write_pickled as write

    write(int(sys.argv[1]), int(sys.argv[2]), sys.stdout.buffer)
