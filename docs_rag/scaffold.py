"""
A first entry of ``corpora.json`` for a folder, proposed from what is in it.

The proposal says why each part is there and what was left out. Writing it keeps
everything else in the file, and never leaves a file that does not load.
"""

import contextlib
import json
import os
import re
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from docs_rag.corpora import (
    MARKDOWN_EXTENSIONS,
    check_corpora,
    corpus_name_problem,
    excerpt,
    resolve_corpora,
    scope_entry,
)
from docs_rag.errors import ConfigError, StorageError
from docs_rag.jsonfile import JsonObject, read_object
from docs_rag.tree import Found, Tree

# Directories that by their name hold what is no longer, or not one's own.
_ARCHIVES = re.compile(
    r"_?archives?|archived|attic|deprecated|node_modules|obsolete|old|third_party|vendor"
    r"|versioned_docs|fixtures?|testdata",
    re.IGNORECASE,
)
# Directories whose markdown is seldom documentation.
_ASIDE_DIRECTORIES = re.compile(
    r"build|coverage|dist|fixtures?|out|target|tests?|testdata|venv", re.IGNORECASE
)
# Directories that are taken whole, because pages are added to them.
_DOCUMENTATION = re.compile(
    r"adr|content|docs?|documentation|guides?|handbook|manual|notes|wiki", re.IGNORECASE
)
# Files about the repository or its past rather than about its subject.
_ASIDE_FILES = re.compile(
    r"(changelog|changes|code_of_conduct|copying|history|issue_template|licen[cs]e|news"
    r"|pull_request_template|release_notes|releases)\..*",
    re.IGNORECASE,
)
# With more pages than this at its top, a folder is a folder of pages.
_MOST_TOP_FILES = 12


@dataclass(frozen=True, slots=True)
class Proposal:
    """An entry for ``corpora.json``, and why it looks as it does."""

    name: str
    config: dict[str, object]
    reasons: tuple[str, ...]

    def as_json(self) -> str:
        """Return the entry as it would stand in the file."""
        return _to_json({self.name: self.config})


@dataclass(slots=True)
class _Draft:
    """A scope while it is put together, with the reasons."""

    top_files: list[str] = field(default_factory=list)
    roots: list[str] = field(default_factory=list)
    exclude_dirs: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)

    def covers(self, path: str) -> bool:
        """Tell whether ``path`` is a top file or inside a root."""
        inside = any(root == "." or path.startswith(f"{root}/") for root in self.roots)
        return inside or path in self.top_files


def propose(directory: Path, name: str | None = None) -> Proposal:
    """
    Propose a scope for ``directory``; ``name`` defaults to the folder's own.

    Raises ConfigError where the folder holds no markdown.
    """
    top = Path(os.path.realpath(directory))
    if not os.path.isdir(top):
        state = "is not a directory" if os.path.lexists(top) else "does not exist"
        raise ConfigError(f"{directory}: {state}: name a folder with markdown in it")
    name = _name_from(top) if name is None else _checked(name)
    tree = Tree(os.fspath(top), MARKDOWN_EXTENSIONS, ())
    files = sorted({file.real_path for file in tree.walk(Found("", ""))})
    if not files:
        nothing = f"holds no markdown ({', '.join(MARKDOWN_EXTENSIONS)})"
        state = tree.skipped.get("", nothing)
        raise ConfigError(f"{directory}: {state}: name a folder with markdown in it")
    current = [path for path in files if _archive_in(path) is None] or files
    draft = _draft(current)
    if current is not files:
        _exclude_archives(draft, [path for path in files if _archive_in(path)])
    modules = [path for path, why in tree.skipped.items() if why == "node_modules"]
    if any(draft.covers(path) for path in modules):
        draft.exclude_dirs.append("node_modules")
    return Proposal(name, _config(top, name, draft, current), tuple(draft.reasons))


def write(config_path: Path, proposal: Proposal, replace: bool = False) -> None:
    """
    Put the proposal into ``config_path``, keeping the corpora and comments there.

    Refuses to touch a corpus of the same name unless ``replace``.
    """
    there = read_object(config_path) if os.path.lexists(config_path) else JsonObject([])
    if proposal.name in there and not replace:
        raise ConfigError(
            f'{config_path}: already has a corpus "{proposal.name}": '
            "choose another name with --name, or replace it with --replace"
        )
    others = JsonObject([(k, v) for k, v in there.items() if k != proposal.name])
    others.repeated = [name for name in there.repeated if name != proposal.name]
    configs = check_corpora(others, config_path)
    entry = JsonObject([(proposal.name, JsonObject(list(proposal.config.items())))])
    configs.update(check_corpora(entry, config_path))
    resolve_corpora(configs, config_path, Path(os.path.expanduser("~")))
    _replace_file(config_path, _to_json({**there, proposal.name: proposal.config}))


def _to_json(content: dict[str, object]) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def _checked(name: str) -> str:
    problem = corpus_name_problem(name)
    if problem is not None:
        raise ConfigError(f'"{excerpt(name)}" {problem}')
    return name


def _name_from(directory: Path) -> str:
    plain = re.sub(r"[^a-z0-9_-]+", "-", directory.name.lower()).strip("-_")[:64]
    return plain or "docs"


def _archive_in(path: str) -> str | None:
    """Return the outermost directory of ``path`` that is an archive by its name."""
    directories = path.split("/")[:-1]
    return next((name for name in directories if _ARCHIVES.fullmatch(name)), None)


def _is_entry(path: str) -> bool:
    """Tell whether ``corpora.json`` accepts ``path``: a pattern sign may be in it."""
    with contextlib.suppress(ValueError):
        return scope_entry(path) == path
    return False


def _draft(files: list[str]) -> _Draft:
    pages = [path for path in files if "/" not in path and _is_entry(path)]
    aside = [path for path in pages if _ASIDE_FILES.fullmatch(path)]
    top_files = [path for path in pages if path not in aside]
    groups: dict[str, list[str]] = {}
    for path in files:
        if "/" in path:
            groups.setdefault(path.partition("/")[0], []).append(path)
    if len(top_files) > _MOST_TOP_FILES:
        return _whole_folder(len(top_files), groups)
    draft = _Draft(top_files=top_files)
    draft.reasons += [f"top_files: {path} is at the top" for path in top_files]
    draft.reasons += [
        f"left out: {path} is about the past or the terms; "
        "add it to top_files if questions go there"
        for path in aside
    ]
    for name, paths in groups.items():
        _add_root(draft, name, paths)
    if not draft.top_files and not draft.roots:
        return _Draft(roots=["."], reasons=['roots: "." is all the markdown there is'])
    return draft


def _whole_folder(page_count: int, groups: dict[str, list[str]]) -> _Draft:
    draft = _Draft(roots=["."], reasons=[f'roots: ".", {page_count} pages at the top'])
    for name in groups:
        if _ASIDE_DIRECTORIES.fullmatch(name):
            draft.exclude_dirs.append(name)
            draft.reasons.append(f"exclude_dirs: {name} is seldom documentation")
    return draft


def _add_root(draft: _Draft, name: str, paths: list[str]) -> None:
    pages = f"{len(paths)} page" + ("s" if len(paths) > 1 else "")
    root = name
    if not _DOCUMENTATION.fullmatch(name):
        root = os.path.commonpath([os.path.dirname(path) for path in paths])
    if _ASIDE_DIRECTORIES.fullmatch(name):
        draft.reasons.append(
            f"left out: {name}, {pages}, is seldom documentation; "
            "add it to roots if this is"
        )
    elif _is_entry(root):
        draft.roots.append(root)
        draft.reasons.append(f"roots: {root}, {pages}")
    else:
        draft.reasons.append(f"left out: {root}, {pages}, no name for an entry")


def _exclude_archives(draft: _Draft, archived: list[str]) -> None:
    inside = [path for path in archived if draft.covers(path)]
    for name in dict.fromkeys(_archive_in(path) for path in inside):
        if name is not None and _is_entry(name):
            count = sum(_archive_in(path) == name for path in inside)
            draft.exclude_dirs.append(name)
            draft.reasons.append(
                f"exclude_dirs: {name}, {count} of the past or of others"
            )


def _config(top: Path, name: str, draft: _Draft, files: list[str]) -> dict[str, object]:
    config: dict[str, object] = {"corpus_dir": str(top), "data_dir": f"data-{name}"}
    for key in ("top_files", "roots", "exclude_dirs"):
        if getattr(draft, key):
            config[key] = getattr(draft, key)
    used = {os.path.splitext(path)[1].lower() for path in files if draft.covers(path)}
    if used != {".md"}:
        config["extensions"] = [e for e in MARKDOWN_EXTENSIONS if e in used | {".md"}]
        draft.reasons.append(f"extensions: {', '.join(sorted(used))} found here")
    return config


def _replace_file(path: Path, text: str) -> None:
    """Write ``text`` beside ``path`` and move it there, so no reader sees a part."""
    # A link keeps pointing where it does: what it leads to is replaced.
    target = Path(os.path.realpath(path))
    beside = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        mode = target.stat().st_mode & 0o777 if target.exists() else 0o644
        descriptor, beside = tempfile.mkstemp(
            prefix=f".{target.name}.", dir=target.parent
        )
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        os.replace(beside, target)
    except OSError as error:
        if beside is not None:
            with contextlib.suppress(OSError):
                os.unlink(beside)
        raise StorageError(
            f"{path}: cannot be written ({error.strerror}): check the folder and "
            "the space on its disk"
        ) from error
