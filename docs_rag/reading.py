"""
A document, or a section of one, read by the address that a hit carries.

An address is looked up in the tables of the index and nowhere else: it never becomes
a path, so one that leads out of the corpus is unknown like any other.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from docs_rag.assembly import document_id, short_slug
from docs_rag.errors import QueryError
from docs_rag.freshness import Freshness, FreshnessCheck
from docs_rag.records import OVERLAP_CHARS
from docs_rag.schema import StoredChunk, StoredFile, StoredSection
from docs_rag.store import Store

# What one reading returns at most; the rest is named for the next. Fits, with room
# for the frame, what agents' clients take.
MAX_PAGE_LINES = 400
MAX_PAGE_CHARS = 20_000
DOCUMENTS_PER_LISTING = 100

_ADDRESS_MAX_CHARS = 4_096
_LINES = re.compile(r"lines=([1-9][0-9]{0,8})-([1-9][0-9]{0,8})")
_CUT = "… (the line goes on)"


class UnknownAddressError(QueryError):
    """No document or section of this corpus has that address."""


@dataclass(frozen=True, slots=True)
class Page:
    """
    Some lines of a document, as they were indexed.

    Lines that the index does not keep, such as front matter, are blank, so that line
    numbers hold. ``following`` is the address of what comes next, if the document or
    the section goes on.
    """

    address: str
    path: str
    heading: str
    first_line: int
    last_line: int
    line_count: int
    text: str
    generation: int
    is_stale: bool
    following: str | None


@dataclass(frozen=True, slots=True)
class _Range:
    """The lines that an address names, and what they are called."""

    first_line: int
    last_line: int
    heading: str
    slug: str


def read_page(store: Store, corpus: str, directory: Path, address: str) -> Page:
    """
    Return the lines at ``address``, as many as one page takes.

    Raises ``UnknownAddressError`` for any address that is not of this corpus,
    whatever the reason.
    """
    path, query, slug = _parts(corpus, address)
    file = store.file(path)
    if file is None:
        raise UnknownAddressError("no such document in this corpus")
    span = _asked_lines(query, _named_range(store, file, slug))
    last = min(span.last_line, span.first_line + MAX_PAGE_LINES - 1)
    chunks = store.chunks_between(path, span.first_line, last)
    is_stale = _is_stale(chunks, directory)
    lines = _bounded(_lines_of(chunks, span.first_line, last))
    last = span.first_line + len(lines) - 1
    following = None
    if last < span.last_line:
        base, _, fragment = document_id(corpus, path, span.slug).partition("#")
        following = f"{base}?lines={last + 1}-{span.last_line}"
        following += f"#{fragment}" if fragment else ""
    return Page(
        address=address,
        path=path,
        heading=span.heading or file.title,
        first_line=span.first_line,
        last_line=last,
        line_count=file.line_count,
        text="\n".join(lines),
        generation=store.generation,
        is_stale=is_stale,
        following=following,
    )


def _parts(corpus: str, address: str) -> tuple[str, str, str]:
    """Split an address into path, query and slug, decoded once."""
    prefix = document_id(corpus, "")
    if not address.startswith(prefix) or len(address) > _ADDRESS_MAX_CHARS:
        raise UnknownAddressError("no such address in this corpus")
    rest, _, fragment = address.removeprefix(prefix).partition("#")
    path, _, query = rest.partition("?")
    return _decoded(path), query, _decoded(fragment)


def _decoded(text: str) -> str:
    return unquote(text, errors="replace").encode("utf-8", "replace").decode()


def _named_range(store: Store, file: StoredFile, slug: str) -> _Range:
    """Return the lines of the document, or of a section with all below it."""
    if not slug:
        return _Range(1, max(file.line_count, 1), "", "")
    sections = store.sections(file.id)
    for position, section in enumerate(sections):
        if short_slug(section.slug) == slug:
            last = _end_of(section, sections[position + 1 :])
            heading = " > ".join(section.path)
            return _Range(section.first_line, last, heading, slug)
    raise UnknownAddressError("no such section in this document")


def _end_of(section: StoredSection, later: Sequence[StoredSection]) -> int:
    last = section.last_line
    for other in later:
        if other.level <= section.level:
            break
        last = other.last_line
    return last


def _asked_lines(query: str, whole: _Range) -> _Range:
    """Narrow ``whole`` to the lines asked for; any others are unknown."""
    if not query:
        return whole
    match = _LINES.fullmatch(query)
    first, last = (int(match[1]), int(match[2])) if match else (0, 0)
    if not whole.first_line <= first <= min(last, whole.last_line):
        raise UnknownAddressError("no such lines: write ?lines=first-last")
    return _Range(first, min(last, whole.last_line), whole.heading, whole.slug)


def _is_stale(chunks: Sequence[StoredChunk], directory: Path) -> bool:
    if not chunks:
        return False
    freshness = FreshnessCheck(directory).of(chunks[0])
    if freshness is Freshness.GONE:
        raise UnknownAddressError("no such document in this corpus any more")
    return freshness is Freshness.STALE


def _lines_of(chunks: Sequence[StoredChunk], first: int, last: int) -> list[str]:
    """Put the lines together from the chunks that overlap them."""
    found: dict[int, str] = {}
    for chunk in chunks:
        lines = chunk.body.split("\n")
        if len(lines) == 1 and chunk.first_line in found:
            # The next piece of a line that is longer than a chunk.
            found[chunk.first_line] = _joined(found[chunk.first_line], lines[0])
            continue
        found.update(enumerate(lines, start=chunk.first_line))
    return [found.get(number, "") for number in range(first, last + 1)]


def _joined(text: str, piece: str) -> str:
    """Append a piece that may begin with what ``text`` ends with."""
    if len(text) > MAX_PAGE_CHARS:
        return text
    for overlap in range(min(len(text), len(piece), OVERLAP_CHARS), 0, -1):
        if text.endswith(piece[:overlap]):
            return text + piece[overlap:]
    # Lines are cut at a blank, which is in neither piece, unless there is none.
    return text + (" " if " " in text[-OVERLAP_CHARS:] else "") + piece


def _bounded(lines: list[str]) -> list[str]:
    """Return as many lines as fit a page; at least one, if need be cut."""
    used = 0
    for count, line in enumerate(lines):
        used += len(line) + 1
        if used > MAX_PAGE_CHARS:
            if count:
                return lines[:count]
            return [line[: MAX_PAGE_CHARS - len(_CUT)] + _CUT]
    return lines
