"""
Exact nearest neighbours by cosine, over the vectors that one snapshot holds.

Two engines with the same answers up to ties: sqlite-vec on disk for a single query,
a resident matrix for a server. Neither approximates.
"""

import threading
from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from docs_rag.schema import Space
from docs_rag.store import Store

Vectors = npt.NDArray[np.float32]
Ids = npt.NDArray[np.int64]

# How many vectors are read from disk at a time while the matrix is filled.
_BATCH = 4096


class VectorEngine(Protocol):
    """Finds the live vectors of a space that are nearest to a query."""

    name: str

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


class ResidentVectors:
    """
    All live vectors in one float32 matrix: 4 x dimension bytes a vector.

    Vectors never change under their id, so a new generation costs only the vectors
    it added. Safe to share between threads.
    """

    name = "resident"

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._space = ("", -1)
        self._generation = -1
        self._ids = np.empty(0, dtype=np.int64)
        self._matrix = np.empty((0, 0), dtype=np.float32)

    def nearest(
        self, store: Store, space: Space, query: Vectors, count: int
    ) -> list[tuple[int, float]]:
        """See ``VectorEngine``."""
        ids, matrix = self._current(store, space)
        if not len(ids) or count < 1:
            return []
        similarities = matrix @ query.astype(np.float32)
        count = min(count, len(ids))
        # Everything at or above the count-th value, so that ties are cut by id.
        floor = np.partition(similarities, len(ids) - count)[len(ids) - count]
        best = np.flatnonzero(similarities >= floor)
        order = best[np.lexsort((ids[best], -similarities[best]))][:count]
        return [(int(ids[i]), float(similarities[i])) for i in order]

    def similarities(
        self, store: Store, space: Space, query: Vectors, ids: Sequence[int]
    ) -> list[float]:
        """See ``VectorEngine``."""
        known, matrix = self._current(store, space)
        return _cosines(matrix[np.searchsorted(known, ids)], query)

    @property
    def size_bytes(self) -> int:
        """Memory that the matrix takes now."""
        return int(self._matrix.nbytes)

    def _current(self, store: Store, space: Space) -> tuple[Ids, Vectors]:
        # Ids are unique in one build of the index: a full rebuild starts them anew.
        wanted, generation = (store.build, space.id), store.generation
        with self._lock:
            if self._space != wanted:
                self._ids = np.empty(0, dtype=np.int64)
                self._matrix = np.empty((0, space.capacity.dimension), np.float32)
            if (self._space, self._generation) != (wanted, generation):
                self._load(store, space)
                self._space, self._generation = wanted, generation
            return self._ids, self._matrix

    def _load(self, store: Store, space: Space) -> None:
        ids = np.array(store.live_vector_ids(space.id), dtype=np.int64)
        matrix = np.empty((len(ids), space.capacity.dimension), dtype=np.float32)
        known = np.isin(ids, self._ids, assume_unique=True)
        matrix[known] = self._matrix[np.searchsorted(self._ids, ids[known])]
        fresh = np.flatnonzero(~known)
        for start in range(0, len(fresh), _BATCH):
            rows = fresh[start : start + _BATCH]
            blobs = store.vectors([int(i) for i in ids[rows]])
            matrix[rows] = from_bytes(b"".join(blobs), space.capacity.dimension)
        self._ids, self._matrix = ids, matrix


def in_batches(store: Store, space: Space) -> Iterator[tuple[list[int], Vectors]]:
    """Yield all live vectors once, with their ids, in bounded memory."""
    ids = store.live_vector_ids(space.id)
    for start in range(0, len(ids), _BATCH):
        batch = ids[start : start + _BATCH]
        blobs = b"".join(store.vectors(batch))
        yield batch, from_bytes(blobs, space.capacity.dimension)


def _cosines(matrix: Vectors, query: Vectors) -> list[float]:
    return [float(value) for value in matrix @ query.astype(np.float32)]


def to_bytes(vector: Vectors) -> bytes:
    """Return a vector as the index keeps it: little-endian float32."""
    return np.ascontiguousarray(vector, dtype="<f4").tobytes()


def from_bytes(data: bytes, dimension: int) -> Vectors:
    """Return the vectors in ``data`` as an array of shape (count, dimension)."""
    return np.frombuffer(data, dtype="<f4").reshape(-1, dimension).astype(np.float32)
