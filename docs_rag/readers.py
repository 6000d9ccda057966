"""
Read-only stores, opened as needed and used again: one for each call under way.

A store that no longer is the file of its path (the index was deleted and made anew)
is closed rather than used.
"""

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path

from docs_rag.store import Store


class ReaderPool:
    """Lends read-only stores of one index file to any number of threads."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._idle: list[tuple[Store, tuple[int, int]]] = []
        self._is_closed = False

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[Store]:
        """Lend a store inside a snapshot: all reads see the same generation."""
        store, identity = self._take()
        try:
            with store.snapshot():
                yield store
        except BaseException:
            store.close()
            raise
        with self._lock:
            # An immutable store would not notice a writer that comes after it.
            keep = not (self._is_closed or store.is_immutable)
            if keep:
                self._idle.append((store, identity))
        if not keep:
            store.close()

    def close(self) -> None:
        """Close every store, those lent out as soon as they come back."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for store, _ in idle:
            store.close()

    def _take(self) -> tuple[Store, tuple[int, int]]:
        identity = self._identity()
        while True:
            with self._lock:
                if not self._idle:
                    break
                store, opened_as = self._idle.pop()
            if opened_as == identity:
                return store, identity
            store.close()
        return Store(self._path), identity

    def _identity(self) -> tuple[int, int]:
        try:
            status = os.stat(self._path)
        except OSError:
            return (0, 0)
        return (status.st_dev, status.st_ino)
