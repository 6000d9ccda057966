"""
``corpora.json``: which files make up each corpus, and where its index lives.

Every problem of the file is found in one reading and named with file, corpus, key
and remedy. Nothing here looks at the documents themselves.
"""

import difflib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path, PurePosixPath
from typing import Any

from docs_rag.errors import ConfigError
from docs_rag.jsonfile import JsonObject, kind_of, parse_object, read_object
from docs_rag.variables import expand_home

CONFIG_FILE_NAME = "corpora.json"
MARKDOWN_EXTENSIONS = (".md", ".markdown", ".mdx")
SCOPE_KEYS = ("top_files", "doc_root_files", "roots")
SERVER_NAME_MAX_CHARS = 100
SYSTEM_NOTE_MAX_CHARS = 500

_CORPUS_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
# So much of a value is shown by an error that refuses it.
_EXCERPT_CHARS = 120
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def printable(text: str) -> str:
    """Return ``text`` with control characters and undecodable bytes as escapes."""
    return _UNPRINTABLE.sub(_escape, text)


def excerpt(text: str) -> str:
    """Return ``text`` printable, and its beginning alone where it would fill a page."""
    if len(text) <= _EXCERPT_CHARS:
        return printable(text)
    return f"{printable(text[:_EXCERPT_CHARS])}... ({len(text):,} characters)"


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is not UTF-8, as Python carries it
        return f"\\x{code - 0xDC00:02x}"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def one_line(text: str, max_chars: int) -> str:
    """Collapse white space and control characters, and cut to ``max_chars``."""
    return " ".join(_UNPRINTABLE.sub(" ", text).split())[:max_chars].rstrip()


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ``did you mean "x"? `` for a slip of the fingers, else nothing."""
    by_folded = {name.casefold(): name for name in known}
    close = difflib.get_close_matches(word.casefold(), by_folded, n=1, cutoff=0.6)
    return f'did you mean "{by_folded[close[0]]}"? ' if close else ""


def corpus_name_problem(name: str) -> str | None:
    """Say what is wrong with ``name`` as the name of a corpus."""
    if _CORPUS_NAME.fullmatch(name):
        return None
    return (
        "is not a corpus name: use 1 to 64 letters, digits, - and _, "
        "beginning with a letter or digit"
    )


def scope_entry(value: str) -> str:
    """Return the relative path ``value`` in its plain form, or raise ValueError."""
    if not value.strip():
        raise ValueError("is blank: remove the entry or name a path")
    if _UNPRINTABLE.search(value):
        raise ValueError("holds a character that cannot be printed: remove it")
    if "\\" in value:
        raise ValueError("holds a backslash: separate directories with /")
    if "*" in value or "?" in value:
        raise ValueError(
            "is a pattern: name each file, or list its directory under roots"
        )
    path = PurePosixPath(value)
    from_home = value == "~" or (value.startswith("~") and "/" in value)
    if path.is_absolute() or from_home or re.match(r"[A-Za-z]:/", value):
        raise ValueError("is not relative: give a path below corpus_dir")
    if ".." in path.parts:
        raise ValueError("leaves the corpus: give a path below corpus_dir, without ..")
    return path.as_posix()


def _below_the_top(value: str) -> str:
    path = scope_entry(value)
    if path == ".":
        raise ValueError("names corpus_dir itself: name something inside it")
    return path


def _extension(value: str) -> str:
    if value.lower() not in MARKDOWN_EXTENSIONS:
        allowed = ", ".join(f'"{extension}"' for extension in MARKDOWN_EXTENSIONS)
        raise ValueError(f"is not a markdown extension: use {allowed}")
    return value.lower()


def _location(value: str) -> str:
    if _UNPRINTABLE.search(value):
        raise ValueError("holds a character that cannot be printed: remove it")
    return value.strip()


def _plain(value: str) -> str:
    return value


@dataclass(frozen=True, slots=True)
class CorpusConfig:
    """One entry of ``corpora.json``, as written; ``written`` names the keys it has."""

    corpus_dir: str | None = None
    data_dir: str | None = None
    top_files: tuple[str, ...] = ()
    doc_root_files: tuple[str, ...] = ()
    roots: tuple[str, ...] = ()
    exclude_dirs: tuple[str, ...] = ()
    extensions: tuple[str, ...] = (".md",)
    server_name: str | None = None
    system_note: str | None = None
    git_origin_repo: str | None = None
    embed_model: str | None = None
    trigram: bool = True
    written: frozenset[str] = frozenset()


CORPUS_KEYS = tuple(f.name for f in fields(CorpusConfig) if f.name != "written")

# How text is read, or each entry of a list: returns it plain, or raises ValueError.
_Reading = Callable[[str], str]
_TEXTS: dict[str, _Reading] = {
    "corpus_dir": _location,
    "data_dir": _location,
    "server_name": _plain,
    "system_note": _plain,
    "git_origin_repo": _location,
    "embed_model": _location,
}
_LISTS: dict[str, _Reading] = {
    "top_files": _below_the_top,
    "doc_root_files": _below_the_top,
    "roots": scope_entry,
    "exclude_dirs": _below_the_top,
    "extensions": _extension,
}


@dataclass(frozen=True, slots=True)
class Corpus:
    """A corpus with its places resolved and its defaults filled in."""

    name: str
    directory: Path
    data_dir: Path
    top_files: tuple[str, ...]
    doc_root_files: tuple[str, ...]
    roots: tuple[str, ...]
    exclude_dirs: tuple[str, ...]
    extensions: tuple[str, ...]
    server_name: str
    system_note: str
    git_origin_repo: Path | None
    embed_model: str | None
    trigram: bool

    @property
    def index_path(self) -> Path:
        """The SQLite file."""
        return self.data_dir / "index.sqlite"

    @property
    def lock_path(self) -> Path:
        """The file an indexer holds locked while it writes."""
        return self.data_dir / ".index.lock"


def read_corpora(path: Path) -> dict[str, CorpusConfig]:
    """Return the corpora configured in ``path``; raise with all that is wrong."""
    return check_corpora(read_object(path), path)


def parse_corpora(text: str, path: Path) -> dict[str, CorpusConfig]:
    """Return the corpora in ``text``; ``path`` is only named in messages."""
    return check_corpora(parse_object(text, path), path)


def check_corpora(content: JsonObject, path: Path) -> dict[str, CorpusConfig]:
    """Validate a parsed ``corpora.json``; keys that begin with ``_`` are comments."""
    problems = [
        f'corpus "{excerpt(name)}" is configured twice: keep one'
        for name in content.repeated
        if not name.startswith("_")
    ]
    configs: dict[str, CorpusConfig] = {}
    named = {k: v for k, v in content.items() if not k.startswith("_")}
    if named and set(named) <= set(CORPUS_KEYS):
        problems.append(
            "has the keys of a corpus where names of corpora are expected: "
            'wrap them, {"my-docs": {...}}'
        )
        named = {}
    for name, value in named.items():
        found, wrong = _entry(name, value)
        problems += [f'corpus "{excerpt(name)}"{problem}' for problem in wrong]
        if found:
            configs[name] = found
    raise_problems(problems, path)
    return configs


def resolve_corpora(
    configs: Mapping[str, CorpusConfig], path: Path, home: Path
) -> dict[str, Corpus]:
    """Place each corpus relative to the folder of ``path``; refuse shared indexes."""
    corpora = {
        name: _resolve(name, config, path.parent, home)
        for name, config in configs.items()
    }
    raise_problems(list(_shared_places(corpora)), path)
    return corpora


def place(text: str, base: Path, home: Path) -> Path:
    """Return the resolved path that ``text``, relative to ``base``, means."""
    return Path(os.path.realpath(base / expand_home(text, home)))


def raise_problems(problems: list[str], path: Path) -> None:
    """Raise one ConfigError for all of ``problems``, on one line if it is one."""
    if len(problems) == 1:
        raise ConfigError(f"{path}: {problems[0]}")
    if problems:
        lines = "".join(f"\n  {problem}" for problem in problems)
        raise ConfigError(f"{path}: {len(problems)} problems:{lines}")


def _entry(name: str, value: object) -> tuple[CorpusConfig | None, list[str]]:
    """Return an entry as a value, or None and all that is wrong with it."""
    name_problem = corpus_name_problem(name)
    if name_problem is not None:
        return None, [f" {name_problem}"]
    if not isinstance(value, JsonObject):
        return None, [f' is {kind_of(value)}: write {{"roots": ["docs"], ...}}']
    problems = [f', key "{key}": is given twice: keep one' for key in value.repeated]
    values: dict[str, Any] = {}
    for key in filter(value.__contains__, CORPUS_KEYS):
        values[key], wrong = _reader(key)(key, value[key])
        problems += [f', key "{key}":{problem}' for problem in wrong]
    for key in [key for key in value if key not in CORPUS_KEYS]:
        known = f"known keys are {', '.join(CORPUS_KEYS)}"
        hint = did_you_mean(key, CORPUS_KEYS) or known
        label = f', key "{excerpt(key)}":'
        problems.append(f"{label} is not a known key: {hint}".rstrip())
    if problems:
        return None, problems
    config = CorpusConfig(**values, written=frozenset(values))
    if config.top_files or config.doc_root_files or config.roots:
        return config, []
    return None, [
        " declares no files: give at least one of top_files, doc_root_files, roots, "
        'for example "roots": ["docs"]'
    ]


def _reader(key: str) -> Callable[[str, object], tuple[Any, list[str]]]:
    if key in _LISTS:
        return _list
    return _text if key in _TEXTS else _switch


def _switch(key: str, given: object) -> tuple[bool, list[str]]:
    if isinstance(given, bool):
        return given, []
    problem = f" is {kind_of(given)}, not true or false, which have no quotes"
    return False, [problem]


def _text(key: str, given: object) -> tuple[str | None, list[str]]:
    if given is None:
        return None, []
    if not isinstance(given, str):
        return None, [f" is {kind_of(given)}, not text: put it in double quotes"]
    try:
        return _TEXTS[key](given), []
    except ValueError as error:
        return None, [f' "{excerpt(given)}" {error}']


def _list(key: str, given: object) -> tuple[tuple[str, ...], list[str]]:
    if not isinstance(given, list):
        first = f'["{excerpt(given)}"]' if isinstance(given, str) else '["name", ...]'
        return (), [f' is {kind_of(given)}, not a list: write "{key}": {first}']
    read, problems = [], []
    for number, one in enumerate(given, start=1):
        if not isinstance(one, str):
            problems.append(f" entry {number} is {kind_of(one)}, not text")
            continue
        try:
            read.append(_LISTS[key](one))
        except ValueError as error:
            problems.append(f' "{excerpt(one)}" {error}')
    if key == "extensions" and not given:
        problems.append(' is empty: write "extensions": [".md"]')
    return tuple(read), problems


def _resolve(name: str, config: CorpusConfig, base: Path, home: Path) -> Corpus:
    server_name = one_line(config.server_name or "", SERVER_NAME_MAX_CHARS)
    origin = config.git_origin_repo
    return Corpus(
        name=name,
        directory=place(config.corpus_dir or f"corpus/{name}", base, home),
        data_dir=place(config.data_dir or f"data-{name}", base, home),
        top_files=_unique(config.top_files),
        doc_root_files=_unique(config.doc_root_files),
        roots=_unique(config.roots),
        exclude_dirs=_unique(config.exclude_dirs),
        extensions=_unique(config.extensions),
        server_name=server_name or f"{name}-docs-rag",
        system_note=one_line(config.system_note or "", SYSTEM_NOTE_MAX_CHARS),
        git_origin_repo=place(origin, base, home) if origin else None,
        embed_model=config.embed_model or None,
        trigram=config.trigram,
    )


def _unique(entries: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(entries))


def _shared_places(corpora: Mapping[str, Corpus]) -> Iterator[str]:
    owners: dict[Path, str] = {}
    for name, corpus in corpora.items():
        owner = owners.setdefault(corpus.data_dir, name)
        if owner != name:
            yield (
                f'corpus "{name}", key "data_dir": {corpus.data_dir} is also the '
                f'data_dir of corpus "{owner}": give each corpus its own'
            )
    for name, corpus in corpora.items():
        if corpus.data_dir == corpus.directory:
            yield (
                f'corpus "{name}", key "data_dir": {corpus.data_dir} is also its '
                "corpus_dir, where a mirror would delete the index: name another"
            )
