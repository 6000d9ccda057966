"""
Where a corpus comes from: the commit it shows, and whether it was changed since.

A mirror says so in ``.corpus_source.json``; a checkout is asked through git. What
neither can tell stays unknown: provenance is shown beside answers and decides none.
"""

import json
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from docs_rag.config import current_environment
from docs_rag.records import Source

MARKER_NAME = ".corpus_source.json"

_GIT_TIMEOUT_SECONDS = 10
_COMMIT = re.compile(r"[0-9A-Za-z][0-9A-Za-z._/+-]{0,99}")
_TIME = re.compile(r"[0-9][0-9TZtz:.+ -]{0,39}")


def read_source(directory: Path) -> Source:
    """Return what the marker in ``directory`` says, else what git says."""
    try:
        marker = json.loads((directory / MARKER_NAME).read_text("utf-8-sig"))
    except (OSError, ValueError, RecursionError):
        marker = None
    if isinstance(marker, dict):
        return _from_marker(marker)
    return _from_git(directory)


def _from_marker(marker: Mapping[str, object]) -> Source:
    commit = marker.get("source_commit", marker.get("commit"))
    synced_at, dirty = marker.get("synced_at"), marker.get("dirty")
    return Source(
        commit=_matching(_COMMIT, commit) if commit != "unknown" else None,
        synced_at=_matching(_TIME, synced_at),
        dirty=dirty if isinstance(dirty, bool) else None,
    )


def _matching(pattern: re.Pattern[str], value: object) -> str | None:
    """Return a string that looks as it should: it is shown to agents as it stands."""
    return value if isinstance(value, str) and pattern.fullmatch(value) else None


def _from_git(directory: Path) -> Source:
    commit = _git(directory, "rev-parse", "--verify", "HEAD")
    # A folder that a repository around it does not track is not of that commit.
    if not commit or not _git(directory, "ls-tree", "HEAD", "--", "."):
        return Source()
    changes = _git(directory, "status", "--porcelain", "--", ".")
    dirty = None if changes is None else bool(changes)
    return Source(commit=_matching(_COMMIT, commit), dirty=dirty)


def _git(directory: Path, *arguments: str) -> str | None:
    """Return what git prints; None where it fails, is absent or takes too long."""
    # Hooks run with GIT_DIR set, which would answer for another repository; a
    # configured file system monitor would be a program of that repository's choice.
    environ = {
        name: value
        for name, value in current_environment().items()
        if not name.startswith("GIT_")
    }
    command = ["git", "--no-optional-locks", "-c", "core.fsmonitor=false"]
    try:
        done = subprocess.run(
            [*command, "-C", str(directory), *arguments],
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_GIT_TIMEOUT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode != 0:
        return None
    return done.stdout.decode("utf-8", "replace").strip()
