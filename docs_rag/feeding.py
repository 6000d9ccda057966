"""
The texts of one run on their way through the model: embedded while more are cut.

One batch is with the model, in a thread of its own; the caller looks up, cuts and
commits beside it. Nothing is embedded twice, and what is embedded is committed before
the batch after the next begins.
"""

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice

from docs_rag.backend import drop_texts_of
from docs_rag.errors import TextRefusedError
from docs_rag.preparing import Prepared
from docs_rag.records import Embedder, Purpose
from docs_rag.schema import Space
from docs_rag.store import Store
from docs_rag.vectors import to_bytes

# Texts that are embedded, and then committed, together: a killed run loses what is
# with the model and what was not committed yet, two batches at most.
BATCH_TEXTS = 32
# How long a run that fails or is interrupted waits for the batch with the model: a
# local one is done by then, and native code is not surprised by the end of Python.
_GRACE_SECONDS = 2.0


@dataclass(slots=True)
class Tally:
    """What became of the texts of a run; ``refused`` says why, by digest."""

    embedded: int = 0
    reused: int = 0
    refused: dict[bytes, str] = field(default_factory=dict)


class Feed:
    """Brings the missing vectors of prepared documents into a store."""

    def __init__(
        self, embedder: Embedder, store: Store, space: Space, tally: Tally
    ) -> None:
        self._embedder, self._store, self._space = embedder, store, space
        self._tally = tally
        self._waiting: dict[bytes, str] = {}
        self._batch: _Batch | None = None

    def __enter__(self) -> "Feed":
        return self

    def __exit__(self, *error: object) -> None:
        if self._batch is not None:
            self._batch.leave()

    def add(self, prepared: Iterable[Prepared]) -> int:
        """
        Take the texts of documents; return how many have a vector, or soon will.

        Raises what the model raised on an earlier batch, or ``StorageError``.
        """
        texts = {digest: text for one in prepared for digest, text in one.texts.items()}
        under_way = self._waiting.keys() | (self._batch.texts if self._batch else {})
        known = under_way | self._store.vector_ids(self._space.id, texts).keys()
        for digest, text in texts.items():
            if digest not in known and digest not in self._tally.refused:
                self._waiting[digest] = text
        while len(self._waiting) >= BATCH_TEXTS:
            self._start_next()
        return len(known & texts.keys())

    def drain(self) -> None:
        """Return when every text is embedded and committed; raises as ``add`` does."""
        while self._waiting:
            self._start_next()
        self._commit(self._batch)
        self._batch = None

    def _start_next(self) -> None:
        """Hand the next batch to the model; commit the one before it meanwhile."""
        done = self._batch
        if done:
            done.wait()
        texts = dict(islice(self._waiting.items(), BATCH_TEXTS))
        self._batch = _Batch(self._embedder, texts)
        for digest in texts:
            del self._waiting[digest]
        self._commit(done)

    def _commit(self, batch: "_Batch | None") -> None:
        if batch is None:
            return
        batch.wait()
        with self._store.transaction():
            self._store.add_vectors(self._space.id, batch.vectors)
        self._tally.embedded += len(batch.vectors)
        self._tally.refused |= batch.refused


class _Batch:
    """Texts with the model. Its thread ends with the process, whatever it waits for."""

    def __init__(self, embedder: Embedder, texts: Mapping[bytes, str]) -> None:
        self.texts = texts
        self.vectors: dict[bytes, bytes] = {}
        self.refused: dict[bytes, str] = {}
        self._embedder = embedder
        self._error: BaseException | None = None
        # A daemon: an interrupted run does not wait for an endpoint to answer.
        self._thread = threading.Thread(target=self._run, name="feed", daemon=True)
        self._thread.start()

    def leave(self) -> None:
        """Let the model come to an end, but not for long, and hear nothing of it."""
        drop_texts_of(self._thread)
        self._thread.join(_GRACE_SECONDS)

    def wait(self) -> None:
        """Return when the model is done; raise what it raised."""
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            self.vectors = self._embed(dict(self.texts))
        except BaseException as error:  # raised again where somebody waits for it
            self._error = error

    def _embed(self, left: dict[bytes, str]) -> dict[bytes, bytes]:
        """Embed without the texts that the model refuses: those are noted."""
        while left:
            digests = list(left)
            try:
                answer = self._embedder.embed(list(left.values()), Purpose.PASSAGE)
            except TextRefusedError as error:
                refused = digests[error.position]
                self.refused[refused] = str(error)
                del left[refused]
                continue
            return dict(zip(digests, map(to_bytes, answer.vectors), strict=True))
        return {}
