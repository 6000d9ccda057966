"""
The index kept in step with a folder that people work in.

Events say only that something may have changed; what did is found by an ordinary
indexing run, with all its guards. So an event too many costs a look at the disk, one
too few is made up for by a look now and then, and no event can lose anything.
"""

import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

import watchfiles

from docs_rag.config import Corpus
from docs_rag.errors import DocsRagError
from docs_rag.indexer import Progress
from docs_rag.records import IndexReport

# A burst is over when nothing came for so long; a branch switch writes without a pause.
_QUIET_MILLISECONDS = 150
_LONGEST_BURST_MILLISECONDS = 5_000
# How often the named files, and whether the folders are still the same, are looked at.
_TICK_MILLISECONDS = 250
# What no event tells of (linked folders, shares, an overflow) is found this late.
_RESCAN_SECONDS = 300.0
_FIRST_RETRY_SECONDS = 1.0
_LAST_RETRY_SECONDS = 60.0

# What editors write beside a file while they save it: a.md~, .a.md.swp, #a.md#, 4913.
_TEMPORARY = re.compile(
    r"^\.|^#.*#$|~$|\.(tmp|temp|bak|swp|swx|part|crdownload)$|^4913$"
)
_LEFT_OUT = "node_modules"

Identity = tuple[int, ...] | None


class StoppedError(Exception):
    """The watch was told to stop in the middle of a run."""


class Index(Protocol):
    """Runs the indexer once, and tells it through ``progress`` when to give up."""

    def __call__(self, progress: Progress) -> IndexReport:
        """Bring the index up to date."""


@dataclass(frozen=True, slots=True)
class Watched:
    """What of a corpus is watched: folders by events, single files by a look."""

    corpus: Corpus

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders below which changes count, none inside another."""
        directory = self.corpus.directory
        roots = sorted({directory / root for root in self.corpus.roots})
        return tuple(
            root for root in roots if not any(other in root.parents for other in roots)
        )

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that the scope names one by one."""
        directory = self.corpus.directory
        docs = (f"docs/{name}" for name in self.corpus.doc_root_files)
        return tuple(directory / name for name in (*self.corpus.top_files, *docs))

    def concerns(self, change: watchfiles.Change, path: str) -> bool:
        """Tell whether a change may be one of a document."""
        for root in self.folders:
            prefix = f"{root}{os.sep}"
            if path.startswith(prefix):
                parts = path[len(prefix) :].split(os.sep)
                break
        else:
            return True
        if any(_TEMPORARY.search(part) or part == _LEFT_OUT for part in parts):
            return False
        if change is watchfiles.Change.deleted:
            # It may have been a folder, whatever its name looks like.
            return True
        return path.lower().endswith(self.corpus.extensions) or os.path.isdir(path)

    def identities(self) -> dict[Path, Identity]:
        """Return what tells each folder from another in its place (a mount)."""
        return {path: _identity(path, inode_only=True) for path in self.folders}

    def file_states(self) -> dict[Path, Identity]:
        """Return what tells each version of a named file from another."""
        return {path: _identity(path, inode_only=False) for path in self.files}


def _identity(path: Path, *, inode_only: bool) -> Identity:
    try:
        status = path.stat()
    except OSError:
        return None
    where = (status.st_dev, status.st_ino)
    return where if inode_only else (*where, status.st_size, status.st_mtime_ns)


@dataclass(slots=True)
class _Retry:
    """When to try again after a failure: later each time, up to a minute."""

    seconds: float = 0.0
    at: float = 0.0

    def postpone(self) -> None:
        self.seconds = min(
            max(2 * self.seconds, _FIRST_RETRY_SECONDS), _LAST_RETRY_SECONDS
        )
        self.at = time.monotonic() + self.seconds

    def clear(self) -> None:
        self.seconds = self.at = 0.0

    @property
    def is_pending(self) -> bool:
        return self.seconds > 0

    @property
    def is_due(self) -> bool:
        return time.monotonic() >= self.at


@dataclass(slots=True)
class Watch:
    """
    Indexes at once, and then after each burst of changes, until it is stopped.

    A failure is said once and tried again, later each time: a folder that is not
    mounted, an endpoint that is down, a disk that is full and another indexer all end
    some day. ``on_report`` is told of every run that changed something, and the first.
    """

    corpus: Corpus
    index: Index
    on_report: Callable[[IndexReport], None]
    say: Callable[[str], None]
    rescan_seconds: float = _RESCAN_SECONDS
    _stop: threading.Event = field(default_factory=threading.Event)
    _retry: _Retry = field(default_factory=_Retry)
    _last_failure: str = ""
    _last_run: float = 0.0
    _owes_a_run: bool = True
    _has_reported: bool = False
    _thread: threading.Thread | None = None
    _fault: Exception | None = None

    def start(self) -> None:
        """Run in a thread of its own."""
        self._thread = threading.Thread(target=self.run, name="watch", daemon=True)
        self._thread.start()

    def request_stop(self) -> None:
        """End the watch soon; a run under way ends at the next file."""
        self._stop.set()

    def wait(self, grace_seconds: float = 5.0) -> None:
        """
        Wait for the end, and raise what ended it if nobody asked for it.

        Once a stop was requested, a request to a slow model is not waited for longer
        than ``grace_seconds``: what is committed stays, and the next run resumes.
        """
        if self._thread is not None:
            while self._thread.is_alive() and not self._stop.is_set():
                self._thread.join(_TICK_MILLISECONDS / 1000)
            self._thread.join(grace_seconds)
        if self._fault is not None:
            raise self._fault

    def run(self) -> None:
        """Watch until stopped."""
        try:
            while not self._stop.is_set():
                self._watch_once()
        except StoppedError:
            return
        except Exception as error:
            self._fault = error
            self.say(f"the watch has ended: {type(error).__name__}: {error}")

    def _watch_once(self) -> None:
        """Watch the folders that there are, until they are no longer those."""
        watched = Watched(self.corpus)
        identities, states = watched.identities(), watched.file_states()
        there = [path for path, identity in identities.items() if identity]
        # The events come first: what changes from here on is not missed.
        for changes in self._events(there):
            if self._owes_a_run or self._is_due(watched, changes, states):
                states = watched.file_states()
                self._run_once()
            if watched.identities() != identities:
                # A mount came or went, or the folder was made anew.
                self._owes_a_run = True
                return

    def _is_due(
        self,
        watched: Watched,
        changes: Iterable[tuple[watchfiles.Change, str]],
        states: dict[Path, Identity],
    ) -> bool:
        if self._retry.is_pending and not self._retry.is_due:
            return False
        return (
            self._retry.is_pending
            or any(watched.concerns(*change) for change in changes)
            or watched.file_states() != states
            or time.monotonic() - self._last_run >= self.rescan_seconds
        )

    def _events(
        self, folders: list[Path]
    ) -> Iterator[set[tuple[watchfiles.Change, str]]]:
        """Yield sets of changes, and an empty one at every tick without any."""
        if not folders:
            while not self._stop.wait(_TICK_MILLISECONDS / 1000):
                yield set()
            return
        try:
            yield from self._notified(folders, force_polling=None)
        except (OSError, RuntimeError) as error:
            # The folder went away just now, or the system allows no more watches.
            self._say_once(f"watching by looking at every file: {error}")
            if all(folder.is_dir() for folder in folders):
                yield from self._notified(folders, force_polling=True)

    def _notified(
        self, folders: list[Path], force_polling: Literal[True] | None
    ) -> Iterator[set[tuple[watchfiles.Change, str]]]:
        return watchfiles.watch(
            *folders,
            watch_filter=None,
            debounce=_LONGEST_BURST_MILLISECONDS,
            step=_QUIET_MILLISECONDS,
            stop_event=self._stop,
            rust_timeout=_TICK_MILLISECONDS,
            yield_on_timeout=True,
            force_polling=force_polling,
            ignore_permission_denied=True,
        )

    def _run_once(self) -> None:
        self._owes_a_run = False
        try:
            report = self.index(self._progress)
        except DocsRagError as error:
            self._retry.postpone()
            self._say_once(f"waiting: {error}")
        else:
            self._retry.clear()
            self._last_failure = ""
            if _has_changed(report) or not self._has_reported:
                self._has_reported = True
                self.on_report(report)
        self._last_run = time.monotonic()

    def _progress(self, stage: str, done: int, total: int) -> None:
        if self._stop.is_set():
            raise StoppedError

    def _say_once(self, line: str) -> None:
        if line != self._last_failure:
            self._last_failure = line
            self.say(line)


def _has_changed(report: IndexReport) -> bool:
    changes = (report.added, report.changed, report.renamed, report.purged)
    return any(changes) or report.rebuilt > 0
