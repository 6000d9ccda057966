"""
The files below a corpus root, walked under the rules of the corpus.

Links are followed only inside the corpus, and a walk enters no directory twice, so
it ends whatever the links do. What is left out is noted with its reason, once for
a whole directory.
"""

import errno
import os
import re
import unicodedata
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from docs_rag.corpora import printable

# Reasons that an entry which names the very path overrules.
LEFT_OUT_BY_NAME = frozenset({"hidden directory", "hidden file", "node_modules"})

_NOT_UTF8 = re.compile(r"[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Found:
    """A file or directory: its path, and the path it has without any links."""

    path: str
    real_path: str

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]

    def child(self, name: str) -> "Found":
        """Return what is called ``name`` inside this directory."""
        return Found(join(self.path, name), join(self.real_path, name))


class Tree:
    """
    One corpus root; ``skipped`` and ``excluded`` fill while it is walked.

    Paths are relative to the root and use slashes; the root itself is "".
    ``skipped`` maps a printable path to a reason, ``excluded`` an entry of
    exclude_dirs to the directories it left out.
    """

    def __init__(
        self, top: str, extensions: tuple[str, ...], exclude_dirs: tuple[str, ...]
    ) -> None:
        self.top = top
        self.extensions = extensions
        self.skipped: dict[str, str] = {}
        self.excluded: dict[str, set[str]] = {entry: set() for entry in exclude_dirs}
        self._entry_of = {composed(entry): entry for entry in exclude_dirs}

    def absolute(self, path: str) -> str:
        """Return the absolute form of ``path``."""
        return os.path.join(self.top, path)

    def is_wanted(self, name: str) -> bool:
        """Tell whether a file of this name is documentation."""
        return name.lower().endswith(self.extensions)

    def excludes(self, directory: str) -> bool:
        """Tell whether an entry of exclude_dirs names this directory, and note it."""
        whole = composed(directory)
        entry = self._entry_of.get(whole, self._entry_of.get(whole.rpartition("/")[2]))
        if entry is None:
            return False
        self.excluded[entry].add(directory)
        return True

    def excludes_part_of(self, directory: str) -> bool:
        """Tell whether this directory, or one that it is in, is excluded."""
        parts = directory.split("/")
        return any(
            self.excludes("/".join(parts[: end + 1])) for end in range(len(parts))
        )

    def resolve(self, path: str) -> tuple[str | None, str]:
        """Return the path without links, or None and what is wrong with it."""
        try:
            real = os.path.realpath(self.absolute(path), strict=True)
        except OSError as error:
            return None, _why_broken(error)
        if real == self.top:
            return "", ""
        prefix = self.top.rstrip("/") + "/"
        if not real.startswith(prefix):
            return None, "link that leaves the corpus"
        return real[len(prefix) :], ""

    def walk(self, start: Found) -> Iterator[Found]:
        """
        Yield the files below ``start``, those behind linked directories last.

        So a file that can be reached without a link is reached that way.
        """
        entered: set[str] = set()
        plain, linked = deque([start]), deque[Found]()
        while plain or linked:
            directory = plain.popleft() if plain else linked.popleft()
            if directory.real_path in entered:
                continue
            entered.add(directory.real_path)
            for entry in self._listed(directory.path):
                below = directory.child(entry.name)
                try:
                    if entry.is_dir(follow_symlinks=False):
                        if not self._leaves_out(below):
                            plain.append(below)
                    elif entry.is_symlink():
                        linked.extend(self._linked_directory(below))
                        yield from self._linked_file(below)
                    elif self.is_wanted(entry.name):
                        reason = _against_file(entry)
                        if reason is None:
                            yield below
                        else:
                            self.skipped[printable(below.path)] = reason
                except OSError as error:
                    self.skipped[printable(below.path)] = unreadable(error)

    def _listed(self, directory: str) -> list["os.DirEntry[str]"]:
        try:
            with os.scandir(self.absolute(directory)) as entries:
                return sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            self.skipped[printable(directory)] = unreadable(error)
            return []

    def _leaves_out(self, directory: Found) -> bool:
        if self.excludes(directory.path) or self.excludes(directory.real_path):
            return True
        reason = _against_directory(directory.name)
        if reason is not None:
            self.skipped[printable(directory.path)] = reason
        return reason is not None

    def _linked_directory(self, link: Found) -> Iterator[Found]:
        """Yield the directory behind a link, where it may be entered."""
        if not os.path.isdir(self.absolute(link.path)):
            return
        if self._leaves_out(link):
            return
        real_path, problem = self._target(link)
        if real_path is not None and f"{link.real_path}/".startswith(
            f"{real_path}/" if real_path else ""
        ):
            real_path, problem = None, "link to a directory it is in"
        if real_path is not None:
            yield Found(link.path, real_path)
        elif problem:
            self.skipped[printable(link.path)] = problem

    def _linked_file(self, link: Found) -> Iterator[Found]:
        """Yield the file behind a link, where it may be read."""
        is_directory = os.path.isdir(self.absolute(link.path))
        if is_directory or not self._may_be_wanted(link.path):
            return
        problem = _against_name(link.name, "file")
        real_path = None
        if problem is None:
            real_path, problem = self._target(link)
        if real_path is not None:
            yield Found(link.path, real_path)
        elif problem:
            self.skipped[printable(link.path)] = problem

    def _may_be_wanted(self, path: str) -> bool:
        """Tell whether a link that leads to no directory is worth a word."""
        broken_directory = not os.path.exists(self.absolute(path))
        return self.is_wanted(path) or (
            broken_directory and not os.path.splitext(path)[1]
        )

    def _target(self, link: Found) -> tuple[str | None, str]:
        """Resolve a link; None with no problem where exclude_dirs covers its target."""
        real_path, problem = self.resolve(link.path)
        if real_path is None:
            return None, problem
        is_directory = os.path.isdir(self.absolute(real_path))
        directory = real_path if is_directory else os.path.dirname(real_path)
        if self.excludes_part_of(directory):
            return None, ""
        for name in directory.split("/"):
            reason = _against_directory(name)
            if reason is not None:
                return None, f"link into {reason}"
        return real_path, ""


def join(directory: str, name: str) -> str:
    """Return the path of ``name`` in ``directory``, where "" is the root."""
    return f"{directory}/{name}" if directory else name


def composed(text: str) -> str:
    """Return ``text`` with accents composed: disks differ in how they keep them."""
    return unicodedata.normalize("NFC", text)


def unreadable(error: OSError) -> str:
    """Say that something cannot be read, and why."""
    return f"cannot be read ({error.strerror})"


def _why_broken(error: OSError) -> str:
    if error.errno == errno.ENOENT:
        return "broken link"
    return "link to itself" if error.errno == errno.ELOOP else unreadable(error)


def _against_directory(name: str) -> str | None:
    if name == "node_modules":
        return "node_modules"
    return _against_name(name, "directory")


def _against_file(entry: "os.DirEntry[str]") -> str | None:
    """Say why what is no link and has a wanted name is left out all the same."""
    reason = _against_name(entry.name, "file")
    if reason is None and not entry.is_file(follow_symlinks=False):
        return "not a regular file"
    return reason


def _against_name(name: str, kind: str) -> str | None:
    """Say why a file or directory of this name is left out."""
    if name.startswith("."):
        return f"hidden {kind}"
    if name.isascii() and name.isprintable():
        return None
    if _NOT_UTF8.search(name):
        return "name is not UTF-8"
    if printable(name) != name:
        return "control character in the name"
    return None
