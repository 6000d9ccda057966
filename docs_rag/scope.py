"""
The declared scope against the disk: the files each entry leads to.

Paths come from directory listings, never from the spelling of the configuration. A
file is one file however many entries or links lead to it, and its path is the one
without links where an entry reaches it that way.
"""

import os
from dataclasses import dataclass, field

from docs_rag.corpora import Corpus, printable
from docs_rag.tree import LEFT_OUT_BY_NAME, Found, Tree, composed, join, unreadable


@dataclass(frozen=True, slots=True)
class Listing:
    """
    What a scope names.

    ``entries`` maps the label of each entry to the real paths it leads to, or to
    the directories it excludes; ``remarks`` says why an entry leads to nothing.
    """

    found: tuple[Found, ...]
    entries: dict[str, frozenset[str]]
    remarks: dict[str, str]
    skipped: dict[str, str]


def list_scope(corpus: Corpus) -> Listing:
    """List every file in the scope of ``corpus``, sorted by path."""
    lister = _Lister(
        Tree(os.fspath(corpus.directory), corpus.extensions, corpus.exclude_dirs)
    )
    for name in corpus.top_files:
        lister.add_file(f"top_files: {name}", name)
    for name in corpus.doc_root_files:
        lister.add_file(f"doc_root_files: {name}", f"docs/{name}")
    for name in corpus.roots:
        lister.add_root(f"roots: {name}", "" if name == "." else name)
    return lister.listing()


@dataclass(slots=True)
class _Lister:
    """Resolves one entry after the other."""

    tree: Tree
    found: dict[str, Found] = field(default_factory=dict)
    entries: dict[str, set[str]] = field(default_factory=dict)
    remarks: dict[str, str] = field(default_factory=dict)
    named: set[str] = field(default_factory=set)

    def listing(self) -> Listing:
        """Return what was found; what an entry names is not left out as hidden."""
        entries = {label: frozenset(paths) for label, paths in self.entries.items()}
        for entry, directories in self.tree.excluded.items():
            label = f"exclude_dirs: {entry}"
            entries[label] = frozenset(directories)
            if os.path.isfile(self.tree.absolute(entry)):
                self.remarks[label] = "is a file, not a directory"
        return Listing(
            found=tuple(sorted(self.found.values(), key=lambda one: one.path)),
            entries=entries,
            remarks=self.remarks,
            skipped={
                path: reason
                for path, reason in self.tree.skipped.items()
                if path not in self.named or reason not in LEFT_OUT_BY_NAME
            },
        )

    def add_file(self, label: str, name: str) -> None:
        """Add the file that an entry of top_files or doc_root_files names."""
        file = self._locate(label, name)
        if file is None:
            return
        absolute = self.tree.absolute(file.path)
        if os.path.isdir(absolute):
            self.remarks[label] = "is a directory: list it under roots"
        elif not self.tree.is_wanted(file.path):
            allowed = ", ".join(self.tree.extensions)
            self.remarks[label] = f"only {allowed} is indexed: see extensions"
        elif not os.path.isfile(absolute):
            self.remarks[label] = "not a regular file"
        else:
            self.named.add(file.path)
            self._keep(label, file)

    def add_root(self, label: str, name: str) -> None:
        """Add the files below the directory that an entry of roots names."""
        directory = self._locate(label, name)
        if directory is None:
            return
        if not os.path.isdir(self.tree.absolute(directory.path)):
            self.remarks[label] = "is a file: list it under top_files"
            return
        self.named.add(directory.path)
        for file in self.tree.walk(directory):
            self._keep(label, file)

    def _keep(self, label: str, file: Found) -> None:
        self.entries[label].add(file.real_path)
        known = self.found.setdefault(file.real_path, file)
        if known.path != known.real_path:
            # Reached through a link so far: a way without one is better, and of
            # two links the first in order, so that no order of entries matters.
            direct = file.path == file.real_path
            if direct or file.path < known.path:
                self.found[file.real_path] = file

    def _locate(self, label: str, name: str) -> Found | None:
        """Return where ``name`` is, as the disk spells it; else leave a remark."""
        self.entries[label] = set()
        path = ""
        for part in name.split("/") if name else ():
            try:
                spelling, similar = _spelled(self.tree.absolute(path), part)
            except OSError as error:
                self.remarks[label] = unreadable(error)
                return None
            if spelling is None:
                if similar is not None:
                    self.remarks[label] = f'there is "{printable(join(path, similar))}"'
                return None
            path = join(path, spelling)
        return self._resolved(label, path)

    def _resolved(self, label: str, path: str) -> Found | None:
        real_path, problem = self.tree.resolve(path)
        if real_path is None:
            self.remarks[label] = self.tree.skipped[path] = problem
            return None
        is_directory = os.path.isdir(self.tree.absolute(path))
        ways = (path, real_path)
        directories = ways if is_directory else map(os.path.dirname, ways)
        if any([self.tree.excludes_part_of(directory) for directory in directories]):
            self.remarks[label] = "is inside a directory of exclude_dirs"
            return None
        return Found(path, real_path)


def _spelled(directory: str, name: str) -> tuple[str | None, str | None]:
    """
    Return the name in a listing that ``name`` means, and one that differs in case.

    On a disk that ignores case the second is the first.
    """
    try:
        names = sorted(os.listdir(directory))
    except (FileNotFoundError, NotADirectoryError):
        return None, None
    if name in names:
        return name, None
    wanted = composed(name)
    for other in names:
        if composed(other) == wanted:
            return other, None
    folded = wanted.casefold()
    similar = next((n for n in names if composed(n).casefold() == folded), None)
    if similar is not None and os.path.lexists(os.path.join(directory, name)):
        return similar, None
    return None, similar
