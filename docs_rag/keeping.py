"""
Cut documents kept from one pass over a corpus for the next, packed, up to a limit.

What does not fit is cut again: memory does not grow with the corpus.
"""

import pickle
import zlib

from docs_rag.preparing import Prepared

# Some 30,000 passages; unpacked they would take ten times as much.
_LIMIT_BYTES = 16_000_000
# Fast, and half of what the text takes.
_LEVEL = 1


class Kept:
    """Prepared documents by path, each given back once."""

    def __init__(self, limit_bytes: int = _LIMIT_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._packed: dict[str, bytes] = {}
        self._size_bytes = 0

    def put(self, path: str, prepared: Prepared) -> None:
        """Keep a document, if there is room."""
        if self._size_bytes >= self._limit_bytes:
            return
        packed = zlib.compress(pickle.dumps(prepared), _LEVEL)
        self._packed[path] = packed
        self._size_bytes += len(packed)

    def take(self, path: str) -> Prepared | None:
        """Return a document and forget it; None where it was not kept."""
        packed = self._packed.pop(path, None)
        if packed is None:
            return None
        prepared: Prepared = pickle.loads(zlib.decompress(packed))
        return prepared
