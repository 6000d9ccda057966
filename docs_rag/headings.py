"""
What a heading is called: its title as plain text, and the slug that links to it.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markdown_it.utils import EnvType
from mdit_py_plugins.footnote import footnote_plugin

MAX_TITLE_CHARS = 200
# Inline parsing is for titles: a longer heading is a paragraph with a hash in front.
MAX_PARSED_CHARS = 1000
# Brackets that might open links are what makes inline parsing slow.
MAX_PARSED_BRACKETS = 40

# `{#id}` as mdBook, Docusaurus and Pandoc write it; `{/* #id */}` is its MDX form.
_EXPLICIT_SLUG = re.compile(
    r"(?<=\S)[ \t]+\{(?:/\*\s*#([^\s{}*]+)\s*\*/|\s*#([^\s{}]+)[^{}]*)\}\Z"
)
_NOT_IN_SLUG = re.compile(r"[^\w\- ]")
_MARKUP = re.compile(r"[\\`*_~\[\]<>&!\n^]")
# `Vec<T>` is a type parameter; tags that do something are lower case or have more.
_TYPE_PARAMETER = re.compile(r"<[A-Z]\w*>")
_TEXT_TOKENS = {"text", "text_special", "code_inline", "image"}

_PARSER = MarkdownIt("commonmark").use(footnote_plugin, inline=False, move_to_end=False)


@dataclass(frozen=True, slots=True)
class Heading:
    """A title without markup, and the slug before it is made unique."""

    title: str
    slug: str


def read_heading(source: str, environment: EnvType) -> Heading:
    """Read the inline markdown of a heading; ``environment`` knows the link targets."""
    source = source[:MAX_PARSED_CHARS]
    explicit = _EXPLICIT_SLUG.search(source)
    title = _plain_text(source[: explicit.start()] if explicit else source, environment)
    if len(title) > MAX_TITLE_CHARS:
        title = title[: MAX_TITLE_CHARS - 1] + "…"
    slug = (explicit[1] or explicit[2]) if explicit else slugify(title)
    return Heading(title, slug)


def slugify(title: str) -> str:
    """Return the anchor that GitHub gives a heading with this plain text."""
    return _NOT_IN_SLUG.sub("", title.strip().lower()).replace(" ", "-")


def number_slugs(slugs: Iterable[str]) -> Iterator[str]:
    """Make slugs unique in order: ``setup``, ``setup-1``, ``setup-2``."""
    uses: dict[str, int] = {}
    for slug in slugs:
        base = unique = slug or "section"
        while unique in uses:
            uses[base] += 1
            unique = f"{base}-{uses[base]}"
        uses[unique] = 0
        yield unique


def _plain_text(source: str, environment: EnvType) -> str:
    if not _MARKUP.search(source) or source.count("[") > MAX_PARSED_BRACKETS:
        return " ".join(source.split())
    tokens: list[Token] = []
    _PARSER.inline.parse(source, _PARSER, environment, tokens)
    return " ".join("".join(map(_token_text, tokens)).split())


def _token_text(token: Token) -> str:
    if token.type in _TEXT_TOKENS:
        return token.content
    if token.type in {"softbreak", "hardbreak"}:
        return " "
    if token.type == "html_inline" and _TYPE_PARAMETER.fullmatch(token.content):
        return token.content
    return ""
