"""
The lock of one corpus: at most one indexer writes at a time.

The kernel holds it, so it ends with its process, however that ends; the file's
content only says who it was.
"""

import contextlib
import datetime
import fcntl
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path

from docs_rag.errors import IndexLockedError, StorageError


@contextlib.contextmanager
def corpus_lock(path: Path, corpus: str) -> Iterator[None]:
    """
    Hold the lock file at ``path`` for the duration of the block.

    Raises ``IndexLockedError`` at once, naming the holder, where another process has
    it, and ``StorageError`` where the file cannot be made or locked.
    """
    descriptor = _open(path)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise IndexLockedError(
                f"corpus {corpus!r} is locked: {_holder(path)} is indexing it; try "
                f"again when it has finished ({path})"
            ) from error
        except OSError as error:
            raise StorageError(
                f"cannot lock {path} ({error.strerror}); keep the index on a file "
                "system that knows locks"
            ) from error
        _write_holder(descriptor)
        try:
            yield
        finally:
            # Closing alone would leave it to a child that was just forked.
            fcntl.flock(descriptor, fcntl.LOCK_UN)
    finally:
        os.close(descriptor)


def _open(path: Path) -> int:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            # An older kind of lock was a folder; an empty one is nobody's now.
            path.rmdir()
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise StorageError(
            f"cannot make the lock {path} ({error.strerror}); check that the folder "
            "exists and is writable"
        ) from error


def _write_holder(descriptor: int) -> None:
    holder = {
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "since": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }
    # Best effort: the lock is held whether or not a full disk lets us say by whom.
    with contextlib.suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(holder).encode(), 0)


def _holder(path: Path) -> str:
    try:
        holder = json.loads(path.read_text())
        return f"process {holder['pid']} on {holder['host']} (since {holder['since']})"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
