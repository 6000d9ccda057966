"""
Nearest neighbours by cosine, over the vectors that one snapshot holds.

What an engine is, and the one on disk: exact, and the measure of the other. The one
in memory, for a server, is in ``resident``.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from docs_rag.schema import Space
from docs_rag.store import Store

Vectors = npt.NDArray[np.float32]
Ids = npt.NDArray[np.int64]

# How many vectors are read from disk at a time.
_BATCH = 4096


@dataclass(frozen=True, slots=True)
class EngineState:
    """Which engine answers, the memory its vectors take, and what to do about it."""

    name: str
    resident_bytes: int = 0
    notice: str = ""


class VectorEngine(Protocol):
    """Finds the live vectors of a space that are nearest to a query."""

    @property
    def name(self) -> str:
        """Which engine answers at present."""

    def nearest(
        self, store: Store, space: Space, query: Vectors, count: int
    ) -> list[tuple[int, float]]:
        """
        Return up to ``count`` (vector id, cosine), best first, ties by id.

        ``query`` is a unit vector of shape (dimension,); ``store`` is in a snapshot.
        """

    def similarities(
        self, store: Store, space: Space, query: Vectors, ids: Sequence[int]
    ) -> list[float]:
        """Return the cosine of each of these live vectors, which ascend."""

    def state(self, store: Store, space: Space) -> EngineState:
        """Say how the vectors of this snapshot are searched."""

    def wait(self) -> None:
        """Return when no vectors are being loaded any more."""


class DiskVectors:
    """sqlite-vec over the file: no start-up cost, no memory, a full read a query."""

    name = "sqlite-vec"

    def nearest(
        self, store: Store, space: Space, query: Vectors, count: int
    ) -> list[tuple[int, float]]:
        """See ``VectorEngine``."""
        return store.nearest(space.id, to_bytes(query), count)

    def similarities(
        self, store: Store, space: Space, query: Vectors, ids: Sequence[int]
    ) -> list[float]:
        """See ``VectorEngine``."""
        matrix = from_bytes(b"".join(store.vectors(ids)), space.capacity.dimension)
        return _cosines(matrix, query)

    def state(self, store: Store, space: Space) -> EngineState:
        """See ``VectorEngine``."""
        return EngineState(self.name)

    def wait(self) -> None:
        """See ``VectorEngine``: nothing ever is."""


def live_batches(
    store: Store, space: Space, after: int = 0
) -> Iterator[tuple[Ids, Vectors]]:
    """Yield the live vectors with ids above ``after``, ascending, in bounded memory."""
    while rows := store.live_vectors(space.id, after, _BATCH):
        yield _as_arrays(rows, space)
        after = rows[-1][0]


def live_batches_among(
    store: Store, space: Space, ids: Sequence[int]
) -> Iterator[tuple[Ids, Vectors]]:
    """Yield those of the vectors with these ascending ids that are live."""
    for start in range(0, len(ids), _BATCH):
        rows = store.live_vectors_among(space.id, ids[start : start + _BATCH])
        if rows:
            yield _as_arrays(rows, space)


def _as_arrays(rows: Sequence[tuple[int, bytes]], space: Space) -> tuple[Ids, Vectors]:
    ids = np.array([row[0] for row in rows], dtype=np.int64)
    blobs = b"".join(row[1] for row in rows)
    return ids, from_bytes(blobs, space.capacity.dimension)


def _cosines(matrix: Vectors, query: Vectors) -> list[float]:
    return [float(value) for value in matrix @ query.astype(np.float32)]


def to_bytes(vector: Vectors) -> bytes:
    """Return a vector as the index keeps it: little-endian float32."""
    return np.ascontiguousarray(vector, dtype="<f4").tobytes()


def from_bytes(data: bytes, dimension: int) -> Vectors:
    """Return the vectors in ``data`` as an array of shape (count, dimension)."""
    return np.frombuffer(data, dtype="<f4").reshape(-1, dimension).astype(np.float32)
