"""
Is what the index says of a file still what is on the disk?

Asked at answer time, of the few files that an answer cites.
"""

import enum
import hashlib
import stat
from pathlib import Path

from docs_rag.schema import StoredChunk


class Freshness(enum.StrEnum):
    """How a file on disk compares with what was indexed."""

    CURRENT = "current"
    STALE = "stale"
    GONE = "gone"
    UNKNOWN = "unknown"


class FreshnessCheck:
    """Compares files with the index, each once; make one for each answer."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._known: dict[str, Freshness] = {}

    def of(self, chunk: StoredChunk) -> Freshness:
        """Return the freshness of the file that ``chunk`` was cut from."""
        if chunk.path not in self._known:
            self._known[chunk.path] = self._look(chunk)
        return self._known[chunk.path]

    def _look(self, chunk: StoredChunk) -> Freshness:
        path = self._directory / chunk.path
        try:
            status = path.stat()
            if not stat.S_ISREG(status.st_mode):
                # A folder or a pipe of that name; reading one might never end.
                return Freshness.GONE
            same = (chunk.size_bytes, chunk.mtime_ns)
            if (status.st_size, status.st_mtime_ns) == same:
                return Freshness.CURRENT
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
        except (FileNotFoundError, NotADirectoryError):
            return self._absent(chunk.path)
        except OSError:
            return Freshness.UNKNOWN
        return Freshness.CURRENT if digest == chunk.sha256 else Freshness.STALE

    def _absent(self, path: str) -> Freshness:
        """Tell a file that was removed from a tree that is not mounted."""
        root = self._directory / path.split("/", 1)[0]
        there = root.is_dir() if "/" in path else self._directory.is_dir()
        return Freshness.GONE if there else Freshness.UNKNOWN
