"""Factories for the values that indexing and retrieval pass around, and for indexes."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from docs_rag.lexical import searchable, words
from docs_rag.records import (
    Answer,
    Capacity,
    Chunk,
    ChunkedDocument,
    CorpusStatus,
    Document,
    Hit,
    Match,
    ModelIdentity,
    Ranks,
    Section,
)
from docs_rag.schema import Entry, IndexedFile, Space, StoredChunk
from docs_rag.store import Store
from docs_rag.vectors import to_bytes

IDENTITY = ModelIdentity("stub", "test")
DIMENSION = 8
RECIPE = "test/1"


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def make_section(heading: str = "Setup", line: int = 1) -> Section:
    path = tuple(part for part in heading.split(" > ") if part)
    slug = path[-1].lower().replace(" ", "-") if path else ""
    return Section(path, slug, len(path), line, line + 9)


def make_chunk(
    body: str = "Turn it on.",
    *,
    heading: str = "Setup",
    ordinal: int = 0,
    first_line: int = 1,
    lead: str = "",
    tail: str = "",
) -> Chunk:
    section = make_section(heading)
    last_line = first_line + body.count("\n")
    return Chunk(ordinal, (section,), section, first_line, last_line, body, lead, tail)


def make_stored(
    body: str = "Turn it on.",
    *,
    id: int = 1,
    path: str = "docs/a.md",
    ordinal: int = 0,
    slug: str = "setup",
    heading: str = "Setup",
    title: str = "Manual",
    first_line: int = 1,
    lead: str = "",
    tail: str = "",
    content: bytes = b"",
    mtime_ns: int = 0,
) -> StoredChunk:
    return StoredChunk(
        id=id,
        path=path,
        ordinal=ordinal,
        slug=slug,
        heading=heading,
        title=title,
        first_line=first_line,
        last_line=first_line + body.count("\n"),
        lead=lead,
        body=body,
        tail=tail,
        sha256=hashlib.sha256(content).hexdigest(),
        size_bytes=len(content),
        mtime_ns=mtime_ns,
    )


def make_document(path: str = "docs/a.md", text: str = "Turn it on.") -> Document:
    size = len(text.encode())
    return Document(path, Path("/corpus"), size, 1, sha256(text))


def make_indexed(
    path: str = "docs/a.md", text: str = "Turn it on.", recipe: str = RECIPE
) -> IndexedFile:
    return IndexedFile(1, path, sha256(text), len(text), 1, recipe, 1)


def make_hit(text: str = "Turn it on.", **changes: object) -> Hit:
    values: dict[str, object] = {
        "id": "docs-rag://demo/docs/a.md#setup",
        "path": "docs/a.md",
        "heading": "Setup",
        "first_line": 3,
        "last_line": 5,
        "text": text,
        "similarity": 0.5123,
        "ranks": Ranks(1, 2, None),
        "rrf_score": 0.032787,
    }
    return Hit(**{**values, **changes})  # type: ignore[arg-type]


def make_answer(*hits: Hit, **changes: object) -> Answer:
    values: dict[str, object] = {
        "corpus": "demo",
        "generation": 7,
        "commit": "0123456789abcdef0123456789abcdef01234567",
        "query": "how do I turn it on?",
        "match": Match.STRONG,
        "hits": hits,
        "omitted": (),
        "notice": "Passages are quotations.",
    }
    return Answer(**{**values, **changes})  # type: ignore[arg-type]


def make_status(**changes: object) -> CorpusStatus:
    values: dict[str, object] = {
        "corpus": "demo",
        "files": 3,
        "chunks": 9,
        "generation": 7,
        "indexed_at": "2026-01-02T03:04:05+00:00",
        "checked_at": "2026-01-03T03:04:05+00:00",
        "commit": "0123456789abcdef",
        "dirty": True,
        "synced_at": "2026-01-01T00:00:00Z",
        "embedding": {
            "backend": "stub",
            "model": "hash-512",
            "dimension": 512,
            "window": None,
            "semantic_search": True,
            "warning": "the stub backend is for tests: it knows no meaning",
        },
        "skipped": (),
        "failed": (),
        "unmatched_scope": (),
        "verdict": {"mean": 0.25, "deviation": 0.0625},
        "vectors": {"engine": "resident", "count": 9, "text_share": 1.0},
        "traces_dropped": 0,
        "notices": (),
    }
    return CorpusStatus(**{**values, **changes})  # type: ignore[arg-type]


# -- indexes ----------------------------------------------------------------------


def unit_vector(text: str, dimension: int = DIMENSION) -> npt.NDArray[np.float32]:
    """Return a unit vector that depends on nothing but ``text``."""
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
    vector = np.random.default_rng(seed).standard_normal(dimension)
    return (vector / np.linalg.norm(vector)).astype(np.float32)


def digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


@dataclass(frozen=True)
class Index:
    """A store that is open for writing, and its one vector space."""

    store: Store
    space: Space

    def embed(self, texts: Sequence[str]) -> dict[bytes, int]:
        """Keep the vectors of ``texts`` and return their ids."""
        dimension = self.space.capacity.dimension
        self.store.add_vectors(
            self.space.id,
            {digest(text): to_bytes(unit_vector(text, dimension)) for text in texts},
        )
        return self.store.vector_ids(self.space.id, map(digest, texts))

    def put(self, path: str, *bodies: str, title: str = "Manual") -> None:
        """Write or replace a file of one chunk for each of ``bodies``."""
        with self.store.transaction():
            self.put_inside(path, *bodies, title=title)
            self.store.advance()

    def put_inside(self, path: str, *bodies: str, title: str = "Manual") -> None:
        """Do what ``put`` does inside a transaction that is already open."""
        vector_ids = self.embed(bodies)
        chunks = tuple(
            make_chunk(body, ordinal=ordinal, first_line=1 + 10 * ordinal)
            for ordinal, body in enumerate(bodies)
        )
        text = "\n".join(bodies)
        self.store.remove_file(path)
        self.store.add_file(
            make_document(path, text),
            ChunkedDocument(title, "", (make_section(),), chunks, text.count("\n") + 1),
            None,
            RECIPE,
            self.space.id,
            [
                make_entry(
                    chunk, vector_ids[digest(chunk.body)], title=title, path=path
                )
                for chunk in chunks
            ],
        )

    def drop(self, path: str) -> None:
        """Remove a file."""
        with self.store.transaction():
            self.store.remove_file(path)
            self.store.advance()


def make_entry(
    chunk: Chunk, *vector_ids: int, title: str = "Manual", path: str = "docs/a.md"
) -> Entry:
    """Fold a chunk as the indexer does."""
    fields = (title, chunk.heading, chunk.text)
    first, second, third = (" ".join(words(field)) for field in fields)
    trigrams = searchable(path, chunk.heading, chunk.text)
    return Entry(chunk, (first, second, third), trigrams, vector_ids)


def make_store(path: Path, dimension: int = DIMENSION) -> Index:
    """Create (or open) the index at ``path`` with one vector space, empty at first."""
    store = Store(path, writable=True)
    with store.transaction():
        space = store.space(IDENTITY.fingerprint)
        space = space or store.add_space(IDENTITY, Capacity(dimension, None))
        store.set_meta(active_space=space.id)
    return Index(store, space)
