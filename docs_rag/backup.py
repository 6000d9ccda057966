"""
Snapshots of a live index, and their way back.

Both are whole or not there: a snapshot gets its name once it is complete and checked,
and a restored index takes the place of the live one in a step that readers see whole.
"""

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from docs_rag.config import Corpus
from docs_rag.errors import (
    ConfigError,
    IndexCorruptError,
    IndexMismatchError,
    IndexMissingError,
    StorageError,
)
from docs_rag.locking import corpus_lock
from docs_rag.store import Store
from docs_rag.swapping import discard, swap_in


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a copy of an index holds."""

    path: Path
    corpus: str
    generation: int
    files: int
    chunks: int
    commit: str | None


def take_snapshot(corpus: Corpus, path: Path, *, replace: bool = False) -> Snapshot:
    """
    Copy the index of ``corpus`` to ``path`` as of one moment, whoever writes meanwhile.

    Raises ``ConfigError`` where something is there already, unless ``replace``.
    """
    beside = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.part")
    with _disk_failures(path):
        if path.resolve() == corpus.index_path.resolve():
            raise ConfigError(f"{path} is the index itself: name another file")
        _require_free(path, replace)
        try:
            with Store(corpus.index_path) as live:
                live.copy_to(beside)
            snapshot = _inspect(beside, path)
            _sync(beside)
            _require_free(path, replace)
            beside.replace(path)
            _sync(path.parent)
        finally:
            discard(beside)
    return snapshot


def restore_snapshot(corpus: Corpus, path: Path) -> Snapshot:
    """
    Put the snapshot at ``path`` in the place of the index of ``corpus``.

    It is checked first, under the lock of the corpus; a snapshot of another corpus is
    refused. A server that is running takes it up as a new generation.
    """
    if not path.is_file():
        raise IndexMissingError(f"no snapshot at {path}: make one with `snapshot`")
    beside = corpus.index_path.with_name("index.sqlite.restore")
    with _disk_failures(corpus.data_dir), corpus_lock(corpus.lock_path, corpus.name):
        discard(beside)
        try:
            _copy_of_snapshot(path, beside)
            snapshot = _inspect(beside, path)
            _require_same(corpus, snapshot)
            with Store(beside, writable=True) as fresh:
                _make_new(fresh, _live_generation(corpus.index_path))
                swap_in(fresh, corpus.index_path)
        finally:
            discard(beside)
    return snapshot


def _copy_of_snapshot(path: Path, beside: Path) -> None:
    try:
        with Store(path) as given:
            given.copy_to(beside)
    except (IndexCorruptError, IndexMissingError) as error:
        raise IndexCorruptError(
            f"{path} is no snapshot of an index; nothing was restored, and the index "
            "is as it was"
        ) from error


def _make_new(fresh: Store, live_generation: int) -> None:
    """Give it a name of its own: readers keep what they know of a build."""
    with fresh.transaction():
        generation = max(fresh.generation, live_generation) + 1
        fresh.set_meta(build=uuid.uuid4().hex, generation=generation)


def _live_generation(path: Path) -> int:
    try:
        with Store(path) as live:
            return live.generation
    except (IndexMissingError, IndexMismatchError, IndexCorruptError):
        return 0


def _inspect(copy: Path, origin: Path) -> Snapshot:
    """Check a copy and say what it holds; ``origin`` is named in messages."""
    with Store(copy) as store, store.snapshot():
        problems = store.integrity_problems()
        if problems:
            raise IndexCorruptError(
                f"the copy for {origin} is damaged ({problems[0]}"
                f"{f' and {len(problems) - 1} more' if problems[1:] else ''}); "
                "`docs-rag doctor` looks at the index it comes from"
            )
        if store.meta("active_space") is None:
            raise IndexMissingError(
                f"{origin}: the first indexing run of this index has not finished; "
                "run `docs-rag index` to the end first"
            )
        return Snapshot(
            path=origin,
            corpus=store.meta("corpus", ""),
            generation=store.generation,
            files=store.meta("files", 0),
            chunks=store.meta("chunks", 0),
            commit=store.meta("commit"),
        )


def _require_same(corpus: Corpus, snapshot: Snapshot) -> None:
    if snapshot.corpus != corpus.name:
        raise ConfigError(
            f"{snapshot.path} is a snapshot of corpus {snapshot.corpus!r}, not of "
            f"{corpus.name!r}: choose that corpus with --corpus"
        )


def _require_free(path: Path, replace: bool) -> None:
    if path.is_dir():
        raise ConfigError(f"{path} is a folder: name a file in it")
    if os.path.lexists(path) and not replace:
        raise ConfigError(f"{path} exists: name another file, or add --replace")


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _disk_failures(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"cannot write {path} ({error.strerror}); check that its folder exists "
            "and is writable and that the disk has space"
        ) from error
