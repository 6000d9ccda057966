"""
What kind of file system a path is on: of this machine, or shared over a network.

SQLite's log lives in memory that all its users share, and relies on locks that hold.
A network share promises neither.
"""

import os
import re
import subprocess
from pathlib import Path

_MOUNTS = Path("/proc/self/mountinfo")
_MOUNT_TIMEOUT_SECONDS = 5

NETWORK_KINDS = frozenset(
    {
        *("9p", "afpfs", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "gpfs"),
        *("fuse.ceph", "fuse.cephfs", "fuse.davfs", "fuse.davfs2", "fuse.gcsfuse"),
        *("fuse.glusterfs", "fuse.rclone", "fuse.s3fs", "fuse.sshfs", "glusterfs"),
        *("lustre", "ncpfs", "nfs", "nfs4", "smb2", "smb3", "smbfs", "webdav"),
    }
)

# 36 35 98:0 /root /mount\\040point rw,noatime shared:1 - ext4 /dev/root rw
_LINUX_LINE = re.compile(r"(?:\S+ ){4}(?P<place>\S+) .*? - (?P<kind>\S+) ")
# //user@host/share on /Volumes/share (smbfs, nodev, nosuid)
_BSD_LINE = re.compile(r".*? on (?P<place>/.*) \((?P<kind>[^,)]+)[,)]")
_OCTAL = re.compile(r"\\([0-7]{3})")


def network_kind(path: Path) -> str | None:
    """Return the kind of network share that ``path`` is on; None for a local disk."""
    kind = kind_at(os.path.realpath(path), _mounts())
    return kind if kind in NETWORK_KINDS else None


def kind_at(path: str, mounts: str) -> str | None:
    """
    Return the kind of the file system that holds ``path``, which is free of links.

    ``mounts`` is what Linux has in ``mountinfo``, or what ``mount`` prints elsewhere.
    Of two mounts at one place the later hides the earlier.
    """
    best: tuple[int, str | None] = (-1, None)
    for line in mounts.splitlines():
        match = _LINUX_LINE.match(line) or _BSD_LINE.match(line)
        if match is None:
            continue
        place = _OCTAL.sub(lambda octal: chr(int(octal[1], 8)), match["place"])
        inside = f"{path}/".startswith(place.rstrip("/") + "/")
        if inside and len(place) >= best[0]:
            best = (len(place), match["kind"])
    return best[1]


def network_warning(path: Path) -> str | None:
    """Say why an index should not be at ``path``, where it is on a network share."""
    kind = network_kind(path)
    if kind is None:
        return None
    return (
        f"{path} is on a network share ({kind}), where SQLite's locks may not hold: "
        "set data_dir in corpora.json to a folder on a local disk"
    )


def _mounts() -> str:
    """Return the table of mounts, or nothing where it cannot be had."""
    try:
        return _MOUNTS.read_text("utf-8", "surrogateescape")
    except OSError:
        pass
    try:
        done = subprocess.run(
            ["/sbin/mount"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_MOUNT_TIMEOUT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return os.fsdecode(done.stdout)
