"""
What the block of metadata at the top of a page says of it.

Only a block that reads as a mapping is metadata; a page that opens with text between
two rules keeps that text. A slip in the syntax loses a value at most, never the page.
"""

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import yaml

# Longer blocks are read line by line: no writer fills in so much by hand.
MAX_PARSED_CHARS = 20_000

_DESCRIPTION_KEYS = ("description", "summary", "excerpt", "abstract", "subtitle")
_ALIAS_KEYS = (
    "alias",
    "aliases",
    "linktitle",
    "menutitle",
    "navtitle",
    "navlabel",
    "pagetitle",
    "shorttitle",
    "sidebarlabel",
    "sidebartitle",
)
_CAPITALISED_KEYS = {"title", "description", "author", "date", "tags", "category"}
# Starlight writes `sidebar: {label: …}`.
_NESTED_ALIAS = ("sidebar", "label")

_YAML_CLOSING = re.compile(r"(?:---|\.\.\.)[ \t]*")
_TOML_CLOSING = re.compile(r"\+\+\+[ \t]*")
_ENTRY = re.compile(r"([^\W\d][\w.-]*)[ \t]*(?::(?=[ \t]|$)|=)[ \t]*(.*)")
_BLOCK_STYLE = re.compile(r"\A[>|][+-]?(?=\s)")
_LIST_ENTRY = re.compile(r"[ \t]*-[ \t]+(.+)")

# The base loader leaves every scalar as it is written: `404`, `yes`, `2024-02-30`.
_LOADER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)

_Values = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """The page's own names and summary; ``line_count`` lines belong to the block."""

    title: str = ""
    description: str = ""
    aliases: tuple[str, ...] = ()
    line_count: int = 0

    def lead(self, heading: str, limit: int) -> str:
        """Return what ``heading`` does not say already, in ``limit`` characters."""
        parts = (self.title, self.description, ", ".join(self.aliases))
        said = {"", heading.casefold()}
        text = "\n".join(part for part in parts if part.casefold() not in said)
        return text if len(text) <= limit else _shortened(text, limit)


def read_front_matter(lines: Sequence[str]) -> FrontMatter:
    """Read the block that ``lines`` open with, if they do."""
    opening = lines[0].rstrip(" \t")
    closing = {"---": _YAML_CLOSING, "+++": _TOML_CLOSING}.get(opening)
    if closing is None:
        return FrontMatter()
    for number, line in enumerate(lines[1:], 2):
        if closing.fullmatch(line):
            values = _mapping(lines[1 : number - 1], opening)
            return FrontMatter() if values is None else _reading(values, number)
    return FrontMatter()


def _mapping(lines: Sequence[str], opening: str) -> _Values | None:
    """Return the entries of the block, or None where it is text between two rules."""
    text = "\n".join(lines)
    if not text.strip():
        return {}
    if len(text) > MAX_PARSED_CHARS:
        return _line_mapping(lines)
    try:
        value = tomllib.loads(text) if opening == "+++" else yaml.load(text, _LOADER)
    except (yaml.YAMLError, tomllib.TOMLDecodeError, RecursionError):
        return _line_mapping(lines)
    if not isinstance(value, dict) or not any(map(_is_key, value)):
        return None
    return {_plain(str(key)): entry for key, entry in value.items()}


def _is_key(key: object) -> bool:
    """Tell a key from the start of a sentence with a colon in it."""
    text = str(key)
    return _plain(text) in _CAPITALISED_KEYS or (
        text == text.lower() and not any(map(str.isspace, text))
    )


def _line_mapping(lines: Sequence[str]) -> _Values | None:
    """Read the lines one by one; None where most of them are no entries."""
    outer = [line for line in lines if line.strip() and line[0] not in " \t#-]}"]
    entries = [_ENTRY.match(line) for line in outer]
    if not entries or not entries[0] or entries.count(None) * 2 >= len(entries):
        return None
    values: dict[str, list[list[str]]] = {}
    items: list[list[str]] = [[]]
    for line in lines:
        if entry := _ENTRY.match(line.strip()):
            items = [[entry[2]]]
            values.setdefault(_plain(entry[1]), items)
        elif item := _LIST_ENTRY.match(line):
            items.append([item[1]])
        else:
            items[-1].append(line)
    return {key: list(map(_unquoted, items)) for key, items in values.items()}


def _reading(values: _Values, line_count: int) -> FrontMatter:
    title = next(_texts(values, ["title"]), "")
    group = values.get(_NESTED_ALIAS[0])
    nested = _texts(group, _NESTED_ALIAS[1:]) if isinstance(group, dict) else ()
    aliases = dict.fromkeys([*_texts(values, _ALIAS_KEYS), *nested])
    return FrontMatter(
        title=title,
        description=next(_texts(values, _DESCRIPTION_KEYS), ""),
        aliases=tuple(alias for alias in aliases if alias != title),
        line_count=line_count,
    )


def _plain(key: str) -> str:
    """Spell ``linkTitle``, ``link_title`` and ``link-title`` alike."""
    return key.casefold().replace("_", "").replace("-", "")


def _texts(values: _Values, keys: Iterable[str]) -> Iterator[str]:
    for value in filter(None, map(values.get, keys)):
        for item in value if isinstance(value, list) else [value]:
            text = " ".join(str(item).split()) if isinstance(item, str | int) else ""
            if text:
                yield text


def _unquoted(lines: Iterable[str]) -> str:
    return _BLOCK_STYLE.sub("", "\n".join(lines)).strip(" \t\n\"'[]")


def _shortened(text: str, limit: int) -> str:
    kept = text[: limit - 1]
    return (kept.rpartition(" ")[0] or kept).rstrip() + "…"
