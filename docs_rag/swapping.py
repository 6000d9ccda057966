"""
An index built beside the live one, and put in its place in one step.

Readers see the old index until the new one is whole; a file that is no index is put
aside rather than destroyed.
"""

import os
from pathlib import Path

from docs_rag.errors import (
    IndexCorruptError,
    IndexMismatchError,
    IndexMissingError,
    StorageError,
)
from docs_rag.schema import IndexedFile
from docs_rag.store import Store


def swap_in(fresh: Store, live_path: Path) -> None:
    """
    Put ``fresh`` in the place of the live index, which its readers see in one step.

    The caller holds the lock. A live file that is no index is set aside.
    """
    try:
        with Store(live_path, writable=True) as live:
            live.replace_with(fresh)
            return
    except (IndexCorruptError, IndexMismatchError):
        # Not an index any more, or not ours: out of the way, but not destroyed.
        damaged = live_path.with_name("index.sqlite.damaged")
        discard(damaged)
        live_path.replace(damaged)
        discard(live_path)
    with Store(live_path, writable=True) as live:
        live.replace_with(fresh)


def what_is_live(path: Path) -> tuple[int, dict[str, IndexedFile]]:
    """Return generation and files of the live index; nothing where it is damaged."""
    try:
        with Store(path) as live, live.snapshot():
            return live.generation, live.files()
    except (IndexMissingError, IndexMismatchError, IndexCorruptError):
        return 0, {}


def discard(path: Path) -> None:
    """
    Remove an index file and what SQLite keeps beside it.

    Raises ``StorageError`` where something that is there cannot be removed.
    """
    for suffix in ("", "-wal", "-shm", "-journal"):
        beside = path.with_name(path.name + suffix)
        if not os.path.lexists(beside):
            # A read-only file system would refuse to remove even what is not there.
            continue
        try:
            beside.unlink(missing_ok=True)
        except OSError as error:
            raise StorageError(
                f"cannot remove {beside} ({error.strerror}); remove it by hand, and "
                "check that its folder is writable"
            ) from error
