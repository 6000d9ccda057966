"""
A line-based log that several processes append to while another may replace it.

A line enters whole or not at all: one ``os.write`` under a lock that is waited for
only briefly. Whoever got the lock checks that the path still names the file it
opened, so that no line goes to a file that was replaced meanwhile.
"""

import contextlib
import errno
import fcntl
import os
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

# Errors by which a file system says that it knows no locks.
_LOCKLESS = {errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}
_MAX_REOPENS = 8
_FIRST_PAUSE_SECONDS = 0.0002
_MAX_PAUSE_SECONDS = 0.005


def append_line(path: Path, line: bytes, *, wait_seconds: float) -> None:
    """
    Append ``line`` whole, or raise ``OSError`` and leave the file as it was.

    Raises ``BlockingIOError`` where the lock was not to be had in ``wait_seconds``.
    The file is made readable by its owner only; its folder must exist.
    """
    # Non-blocking, because a pipe in the file's place must not stop the caller.
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK
    for _ in range(_MAX_REOPENS):
        descriptor = os.open(path, flags, 0o600)
        try:
            lock_exclusive(descriptor, wait_seconds)
            if is_current(descriptor, path):
                _write_whole(descriptor, line)
                return
        finally:
            os.close(descriptor)
    raise BlockingIOError(errno.EAGAIN, "the file is replaced over and over")


def lock_exclusive(descriptor: int, wait_seconds: float) -> bool:
    """
    Lock an open file until it is closed, or raise ``BlockingIOError``.

    False where the file system knows no locks.
    """
    deadline = time.monotonic() + wait_seconds
    pause = _FIRST_PAUSE_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if time.monotonic() > deadline:
                message = "another process holds the lock"
                raise BlockingIOError(error.errno, message) from error
        except OSError as error:
            if error.errno in _LOCKLESS:
                return False
            raise
        else:
            return True
        time.sleep(pause)
        pause = min(pause * 2, _MAX_PAUSE_SECONDS)


def is_current(descriptor: int, path: Path) -> bool:
    """Whether ``path`` still names the file that is open as ``descriptor``."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def replacing(target: Path) -> Iterator[IO[bytes]]:
    """
    Open a file that takes the place of ``target`` if all goes well.

    It is readable by its owner only. A device or a pipe is written to as it is.
    """
    if target.exists() and not target.is_file():
        with target.open("wb") as device:
            yield device
        return
    with tempfile.NamedTemporaryFile(
        dir=target.parent, prefix=f".{target.name}.", delete=False
    ) as stream:
        try:
            yield stream
            stream.flush()
            Path(stream.name).replace(target)
        finally:
            Path(stream.name).unlink(missing_ok=True)


def _write_whole(descriptor: int, line: bytes) -> None:
    status = os.fstat(descriptor)
    size = status.st_size if stat.S_ISREG(status.st_mode) else 0
    # A crash may have left half a line: end it, so that it spoils only itself.
    torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
    data = b"\n" + line if torn else line
    written = os.write(descriptor, data)
    if written < len(data):
        os.ftruncate(descriptor, size)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
