"""
The retention window: old records leave, new ones stay, appends go on meanwhile.

A file is copied beside itself without its old lines and swapped in under the lock
that every append takes; what was appended during the copy is carried over under that
lock. A run that dies leaves the old file as it was.
"""

import contextlib
import errno
import gzip
import os
import tempfile
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO, BinaryIO, Protocol

from docs_rag.tracefile import is_current, lock_exclusive
from docs_rag.tracereader import (
    MAX_LINE_BYTES,
    log_files,
    open_lines,
    parse_moment,
    parse_record,
)

_LOCK_WAIT_SECONDS = 10.0
_MAX_ATTEMPTS = 5
_TEMPORARY_PREFIX = ".prune-"
_ABANDONED_SECONDS = 86_400


@dataclass(frozen=True, slots=True)
class Pruned:
    """What became of one file; ``problem`` says why it was left as it was."""

    path: str
    kept: int = 0
    removed: int = 0
    deleted: bool = False
    problem: str | None = None


def prune_directory(directory: Path, cutoff: datetime) -> list[Pruned]:
    """Remove all records older than ``cutoff`` from the logs in ``directory``."""
    _sweep(directory)
    return [prune_file(path, cutoff) for path in log_files(directory)]


def prune_file(path: Path, cutoff: datetime) -> Pruned:
    """
    Remove the records older than ``cutoff`` from one file, or the file with the last.

    A line without a date shares the fate of the record in front of it; a file without
    any date is as old as its last change.
    """
    try:
        # The file behind a link is replaced, not the link.
        target = path.resolve(strict=True)
        if not target.is_file():
            return Pruned(str(path), problem="it is not a regular file")
        for _ in range(_MAX_ATTEMPTS):
            sieve = _Sieve(cutoff)
            with open_lines(target) as (source, _):
                last_change = target.stat().st_mtime
                if not sieve.survey(source, last_change):
                    return Pruned(str(path), kept=sieve.kept)
            if _rewrite(target, sieve):
                return Pruned(str(path), sieve.kept, sieve.removed, not sieve.kept)
        problem = "it is replaced over and over; run the prune again"
    except BlockingIOError:
        problem = "another program holds its lock; run the prune again"
    except (EOFError, gzip.BadGzipFile, zlib.error):
        problem = "its gzip data is damaged; remove it by hand"
    except OSError as error:
        problem = (error.strerror or type(error).__name__).lower()
    return Pruned(str(path), problem=problem)


class _Target(Protocol):
    def write(self, line: bytes, /) -> int: ...


class _Sieve:
    """Lets the lines through that are to stay, and counts."""

    def __init__(self, cutoff: datetime) -> None:
        self.kept = 0
        self.removed = 0
        self._cutoff = cutoff
        self._first_fate: bool | None = None
        self._fate = True

    def survey(self, source: BinaryIO, last_change: float) -> bool:
        """Look for a line that has to go, and for the fate of undated first lines."""
        for line in _pieces(source):
            self.kept += 1
            keep = self._judge(line)
            if self._first_fate is None:
                self._first_fate = keep
            if keep is False:
                return True
        if self._first_fate is None:
            self._first_fate = last_change >= self._cutoff.timestamp()
        return not self._first_fate

    def begin(self) -> None:
        """Forget the counts and start at the first line."""
        self.kept = self.removed = 0
        self._fate = bool(self._first_fate)

    def copy(self, source: BinaryIO, target: _Target, *, to_the_end: bool) -> None:
        """
        Copy what stays.

        Unless ``to_the_end``, a last line without its end is left for the next call:
        it may be in the middle of being written.
        """
        for line in _pieces(source):
            complete = line.endswith(b"\n") or len(line) == MAX_LINE_BYTES
            if not complete and not to_the_end:
                source.seek(-len(line), os.SEEK_CUR)
                return
            keep = self._judge(line)
            self._fate = self._fate if keep is None else keep
            if self._fate:
                self.kept += 1
                target.write(line)
            else:
                self.removed += 1

    def _judge(self, line: bytes) -> bool | None:
        """Whether the date of a line lets it stay; None where it has no date."""
        moment = _moment(line)
        return None if moment is None else moment >= self._cutoff


def _rewrite(path: Path, sieve: _Sieve) -> bool:
    """Swap in a copy without the old lines; False if the file was swapped meanwhile."""
    with (
        path.open("rb") as original,
        open_lines(path) as (source, compressed),
        _temporary(path.parent) as temporary,
    ):
        sieve.begin()
        if compressed:
            # Nobody appends to a compressed file.
            with gzip.open(temporary, "wb") as packed:
                sieve.copy(source, packed, to_the_end=True)
        else:
            sieve.copy(source, temporary, to_the_end=False)
        temporary.flush()
        os.fsync(temporary.fileno())
        if not lock_exclusive(original.fileno(), _LOCK_WAIT_SECONDS):
            raise OSError(errno.ENOLCK, "its file system has no locks to prune under")
        if not is_current(original.fileno(), path):
            return False
        if not compressed:
            sieve.copy(source, temporary, to_the_end=True)
            temporary.flush()
        if not sieve.kept:
            path.unlink()
            return True
        _inherit(original.fileno(), temporary.fileno())
        Path(temporary.name).replace(path)
        return True


@contextlib.contextmanager
def _temporary(directory: Path) -> Iterator[IO[bytes]]:
    """Open a new file that is gone afterwards, unless it was given another name."""
    with tempfile.NamedTemporaryFile(
        dir=directory, prefix=_TEMPORARY_PREFIX, delete=False
    ) as stream:
        try:
            yield stream
        finally:
            Path(stream.name).unlink(missing_ok=True)


def _inherit(original: int, copy: int) -> None:
    """Give the copy the original's owner: root may prune what a service writes."""
    before, now = os.fstat(original), os.fstat(copy)
    if (before.st_uid, before.st_gid) != (now.st_uid, now.st_gid):
        os.fchown(copy, before.st_uid, before.st_gid)
    os.fchmod(copy, before.st_mode & 0o777)


def _pieces(stream: BinaryIO) -> Iterator[bytes]:
    """Yield lines as they are, overlong ones in pieces."""
    while piece := stream.readline(MAX_LINE_BYTES):
        yield piece


def _moment(line: bytes) -> datetime | None:
    """Return the date of a metering line or of a trace record."""
    if line.startswith(b"ts="):
        cell = line[3:].split(b"\t", 1)[0]
        return parse_moment(cell.decode("utf-8", "replace"))
    record = parse_record(line)
    return record and parse_moment(record.timestamp)


def _sweep(directory: Path) -> None:
    """Remove what a killed run left behind."""
    deadline = time.time() - _ABANDONED_SECONDS
    for path in directory.glob(f"{_TEMPORARY_PREFIX}*"):
        with contextlib.suppress(OSError):
            if path.stat().st_mtime < deadline:
                path.unlink()
