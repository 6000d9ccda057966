"""
The live vectors of an index in memory, for a server that is asked again and again.

Whole where they are few: then one matrix product finds the nearest exactly. Only their
signs where they are many (a 32nd of the size): those name the candidates, which are
read from the file and compared exactly. On disk alone where not even the signs fit.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from docs_rag.errors import DocsRagError
from docs_rag.schema import Space
from docs_rag.shelf import Exact, Form, Ids, Shelf, Signs
from docs_rag.store import Store
from docs_rag.vectors import (
    DiskVectors,
    EngineState,
    Vectors,
    from_bytes,
    live_batches,
    live_batches_among,
)

DEFAULT_LIMIT_MB = 256
_MB = 1024 * 1024

# A matrix up to this size is multiplied faster than candidates are read from a file.
_MATRIX_BYTES = 64 * _MB
# So many vectors are read while the query waits; more, while the file is asked.
_INLINE_VECTORS = 20_000


@dataclass(frozen=True, slots=True)
class _Loaded:
    """What is in memory: of which index, as of which generation, seen how far."""

    key: tuple[str, int]
    generation: int
    last_id: int
    spare: Ids
    shelf: Shelf


class ResidentVectors:
    """
    All live vectors in memory, within ``limit_bytes``. Safe to share between threads.

    Vectors never change under their id, so a new generation costs only the vectors
    that it added. What takes long to read is read beside the queries, which the file
    answers meanwhile.
    """

    def __init__(
        self,
        limit_bytes: int = DEFAULT_LIMIT_MB * _MB,
        matrix_bytes: int = _MATRIX_BYTES,
        inline_vectors: int = _INLINE_VECTORS,
    ) -> None:
        self._limit_bytes = limit_bytes
        self._matrix_bytes = min(matrix_bytes, limit_bytes)
        self._inline_vectors = inline_vectors
        self._lock = threading.Lock()
        self._disk = DiskVectors()
        self._loaded: _Loaded | None = None
        self._declined: tuple[tuple[str, int], int] | None = None
        self._loading: threading.Thread | None = None

    @property
    def name(self) -> str:
        """Which engine answers at present."""
        loaded = self._loaded
        return loaded.shelf.form.name if loaded else self._disk.name

    @property
    def size_bytes(self) -> int:
        """Memory that the vectors take now."""
        loaded = self._loaded
        return loaded.shelf.size_bytes if loaded else 0

    def nearest(
        self, store: Store, space: Space, query: Vectors, count: int
    ) -> list[tuple[int, float]]:
        """
        See ``VectorEngine``.

        Where only signs are in memory, a few of the nearest may be missing behind the
        first ones: ``eval/bench`` measures how many.
        """
        loaded = self._current(store, space)
        if loaded is None:
            return self._disk.nearest(store, space, query, count)

        def fetch(ids: list[int]) -> Vectors:
            return from_bytes(b"".join(store.vectors(ids)), space.capacity.dimension)

        return loaded.shelf.nearest(query.astype(np.float32), count, fetch)

    def similarities(
        self, store: Store, space: Space, query: Vectors, ids: Sequence[int]
    ) -> list[float]:
        """See ``VectorEngine``."""
        return self._disk.similarities(store, space, query, ids)

    def state(self, store: Store, space: Space) -> EngineState:
        """See ``VectorEngine``."""
        loaded = self._current(store, space)
        if loaded is not None:
            return EngineState(loaded.shelf.form.name, loaded.shelf.size_bytes)
        count = store.live_vector_count(space.id)
        if self._form(count, space.capacity.dimension):
            notice = "The vectors are being loaded; until then the file is searched."
        else:
            notice = self._why_on_disk(count, space.capacity.dimension)
        return EngineState(self._disk.name, 0, notice)

    def wait(self) -> None:
        """See ``VectorEngine``."""
        loading = self._loading
        if loading is not None:
            loading.join()

    # -- what is in memory ------------------------------------------------------

    def _current(self, store: Store, space: Space) -> _Loaded | None:
        """Return what is in memory for this snapshot; None where the file is asked."""
        # Ids are unique in one build of the index: a full rebuild starts them anew.
        key, generation = (store.build, space.id), store.generation
        with self._lock:
            loaded = self._loaded
            if loaded is not None and loaded.key == key:
                if generation == loaded.generation:
                    return loaded
                if generation < loaded.generation:
                    return None
                if self._may_advance(loaded, store, space):
                    loaded = _advanced(loaded, store, space)
                    self._loaded = loaded
                    return loaded
            if self._declined == (key, generation):
                return None
            return self._first(store, space, key)

    def _first(
        self, store: Store, space: Space, key: tuple[str, int]
    ) -> _Loaded | None:
        """Load what fits, now or beside the queries, or nothing."""
        if self._loading is not None:
            return None
        self._loaded = None
        count = store.live_vector_count(space.id)
        form = self._form(count, space.capacity.dimension)
        if form is None:
            self._declined = (key, store.generation)
            return None
        if count <= self._inline_vectors:
            self._loaded = _load(store, space, key, form)
            return self._loaded
        self._loading = threading.Thread(
            target=self._load_aside,
            args=(store.path, space, key, form),
            name="docs-rag-vectors",
            daemon=True,
        )
        try:
            self._loading.start()
        except RuntimeError:  # no further thread: asked again at the next query
            self._loading = None
        return None

    def _load_aside(
        self, path: Path, space: Space, key: tuple[str, int], form: type[Form]
    ) -> None:
        loaded = None
        try:
            with Store(path) as store, store.snapshot():
                # Otherwise the index was built anew meanwhile: the next query sees it.
                if store.build == key[0]:
                    loaded = _load(store, space, key, form)
        except DocsRagError:
            # The file is gone or unreadable: whoever asks next meets the same, is told
            # of it, and starts again.
            loaded = None
        finally:
            with self._lock:
                self._loaded, self._loading = loaded, None

    def _form(self, count: int, dimension: int) -> type[Form] | None:
        """Return the form in which ``count`` vectors are kept; None: in none."""
        if Exact.bytes_of(count, dimension) <= self._matrix_bytes:
            return Exact
        if Signs.bytes_of(count, dimension) <= self._limit_bytes:
            return Signs
        return None

    def _may_advance(self, held: _Loaded, store: Store, space: Space) -> bool:
        """Say whether a snapshot fits in the form held and has few new vectors."""
        count = store.live_vector_count(space.id)
        form = self._form(count, space.capacity.dimension)
        fits = form is Exact or form is type(held.shelf.form)
        new = store.live_vector_count(space.id, held.last_id)
        return fits and new <= self._inline_vectors

    def _why_on_disk(self, count: int, dimension: int) -> str:
        needed = -(-Signs.bytes_of(count, dimension) // _MB)
        return (
            f"{count:,} vectors need {needed} MB of memory and RAG_VECTOR_CACHE_MB is "
            f"{self._limit_bytes // _MB}: every question searches the file, which is "
            "slower. Raise it and restart the server."
        )


def _load(
    store: Store, space: Space, key: tuple[str, int], form: type[Form]
) -> _Loaded:
    """Read all live vectors of a space."""
    shelf: Shelf | None = None
    last_id = 0
    for ids, vectors in live_batches(store, space):
        if shelf is None:
            shelf = Shelf(_form_of(form, vectors))
        shelf = shelf.plus(ids, vectors)
        last_id = int(ids[-1])
    if shelf is None:
        shelf = Shelf(Exact())
    spare = _spare_ids(store, space)
    last_id = max(last_id, *spare[-1:].tolist(), 0)
    return _Loaded(key, store.generation, last_id, spare, shelf)


def _form_of(form: type[Form], vectors: Vectors) -> Form:
    """Return a form to begin with; signs are seen from the mean of the first batch."""
    if form is Exact:
        return Exact()
    return Signs(vectors.mean(axis=0, dtype=np.float64).astype(np.float32))


def _advanced(held: _Loaded, store: Store, space: Space) -> _Loaded:
    """Return ``held`` brought to this later snapshot of the same index."""
    spare = _spare_ids(store, space)
    gone = np.setdiff1d(spare, held.spare, assume_unique=True)
    # Used again, or dropped for good: then they are not read.
    back = np.setdiff1d(held.spare, spare, assume_unique=True)
    shelf, last_id = held.shelf.without(gone), held.last_id
    for ids, vectors in live_batches_among(store, space, back.tolist()):
        shelf = shelf.plus(ids, vectors)
    for ids, vectors in live_batches(store, space, after=held.last_id):
        shelf = shelf.plus(ids, vectors)
        last_id = int(ids[-1])
    last_id = max(last_id, *spare[-1:].tolist(), 0)
    return _Loaded(held.key, store.generation, last_id, spare, shelf)


def _spare_ids(store: Store, space: Space) -> Ids:
    return np.array(store.vector_ids_by_use(space.id, spare=True), dtype=np.int64)
