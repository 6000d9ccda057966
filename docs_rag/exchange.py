"""
One directory put in the place of another, in one step where the system can.

Linux and macOS exchange two directories so that no moment lacks either. Elsewhere, and
on file systems that cannot, it takes renames one after the other: for a moment nothing
is in the place, and a run that dies then leaves the old directory under its other name.
"""

import ctypes
import errno
import os
import sys
from pathlib import Path

_SWAP = 2  # RENAME_EXCHANGE of Linux, and RENAME_SWAP of macOS
_HERE = -2 if sys.platform == "darwin" else -100  # AT_FDCWD
_NAME = "renameatx_np" if sys.platform == "darwin" else "renameat2"
_CANNOT = frozenset({errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP})


def put_in_place(new: Path, place: Path) -> bool:
    """
    Move ``new`` to ``place``; what stood there is then at ``new``.

    Returns whether anything stood there. Both must be on one file system.
    """
    if not os.path.lexists(place):
        os.rename(new, place)
        return False
    if not _exchange(new, place):
        exchange_in_steps(new, place)
    return True


def exchange_in_steps(new: Path, place: Path) -> None:
    """Do the same by renames; ``aside_of(place)`` holds the old one meanwhile."""
    aside = aside_of(place)
    os.rename(place, aside)
    try:
        os.rename(new, place)
    except BaseException:
        os.rename(aside, place)
        raise
    os.rename(aside, new)


def aside_of(place: Path) -> Path:
    """Return where the old directory is while the new one takes its place."""
    return place.with_name(f".{place.name}.aside")


def _exchange(first: Path, second: Path) -> bool:
    """Exchange two paths at once; False where the system or the disk cannot."""
    function = getattr(ctypes.CDLL(None, use_errno=True), _NAME, None)
    if function is None:
        return False
    function.argtypes = (
        *(ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p),
        ctypes.c_uint,
    )
    names = os.fsencode(first), os.fsencode(second)
    if function(_HERE, names[0], _HERE, names[1], _SWAP) == 0:
        return True
    number = ctypes.get_errno()
    if number in _CANNOT:
        return False
    raise OSError(number, os.strerror(number), os.fspath(second))
