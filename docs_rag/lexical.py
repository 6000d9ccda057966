"""
Text as the full-text index sees it: folded, and cut into words.

Documents and queries go through the same two functions, so what folds together in a
page folds together in a question. Pure, and linear in the length of the text.
"""

import functools
import re
import unicodedata
from collections.abc import Iterable, Iterator

# Raise when the same text would fold or cut differently: files are then cut anew.
LEXICAL_VERSION = 1

# Characters a reader cannot see, which must not keep two words apart or together.
_INVISIBLE = dict.fromkeys(
    [
        *(0x00AD, 0x034F, 0x061C, 0x115F, 0x1160, 0x3164, 0xFEFF, 0xFFA0),
        *range(0x180B, 0x1810),
        *range(0x200B, 0x2010),
        *range(0x202A, 0x202F),
        *range(0x2060, 0x2070),
        *range(0xFE00, 0xFE10),
        *range(0xE0000, 0xE1000),
    ]
)
# Put right before NFKC, which would take the acute accent apart; no index can hold
# surrogates.
_BEFORE = {
    **_INVISIBLE,
    **dict.fromkeys(map(ord, "\u2018\u2019\u201b\u02bb\u02bc\u00b4\u0060\uff07"), "'"),
    **dict.fromkeys(range(0xD800, 0xE000), "\ufffd"),
}
# Vowel points and the Arabic stretch mark: written for beginners, left out by others.
# After NFKC, which makes letters of those that are part of one.
_AFTER = dict.fromkeys(
    [
        *(0x0640, 0x0670, 0x05BF, 0x05C1, 0x05C2, 0x05C4, 0x05C5, 0x05C7),
        *range(0x0591, 0x05BE),
        *range(0x064B, 0x0653),
    ]
)
_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")

# Scripts without blanks between words, by how much of them makes a word: pairs of
# these, of which a single one can also be a word,
_CJK = (
    "\u3005-\u3007\u3040-\u30ff\u3100-\u312f\u31a0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\U00020000-\U000323af"
)
# and triples of the alphabetic ones: Thai, Lao, Burmese, Khmer.
_ALPHABETIC = "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ecd\u1000-\u1049\u1780-\u17d3"
_RUN = re.compile(f"[{_CJK}]+|[{_ALPHABETIC}]+")
_ALPHABETIC_START = re.compile(f"[{_ALPHABETIC}]")

_MARKS = "".join(
    chr(code)
    for code in [*range(0x0300, 0x1E00), *range(0xA660, 0xAC00)]
    if unicodedata.category(chr(code)).startswith("M")
)
_WORD = rf"\w[\w{_MARKS}]*"
# A run of word characters, or several held together the way identifiers are:
# snake_case, kebab-case, dotted.name, std::vector, path/to; and C++ or C#.
_COMPOUND = re.compile(
    rf"({_WORD}(?:(?:::|->|[-./:'])(?:{_WORD}))*)(\+\+|#(?!\w))?",
)
_SEGMENT = re.compile(rf"[^\W_][^\W_{_MARKS}]*(?:[{_MARKS}]+[^\W_{_MARKS}]*)*")
# fooBar -> foo Bar, HTTPServer -> HTTP Server; digits stay with their letters (E0502).
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_SIGNED = re.compile(r"[A-Za-z]{1,8}")
_SIGNS = {"++": "plusplus", "#": "sharp"}

# Longer compounds are URLs, digests and paths: their parts say enough.
_MAX_COMPOUND_CHARS = 64
# The compounds that a corpus repeats are cut once: they were a fifth of the work of
# indexing beside the model.
_REMEMBERED_COMPOUNDS, _REMEMBERED_CHARS = 16_384, 32

# So much of a query is looked up. It is more than most models read; a question is
# shorter, and a pasted page says by its ends what it is about.
LOOKED_UP_CHARS = 2_000

_OPENING = "([{<"
_CLOSING = ")]}>"
_LEADING = "\"'“”„«»‹›,;!?。，；！？、：…"
_TRAILING = _LEADING + ".:"


def searchable(path: str, heading: str, text: str) -> str:
    """Return what substrings are looked for in: the folded text of a passage."""
    return fold(f"{path}\n{heading}\n{text}")


def fold(text: str) -> str:
    """
    Return ``text`` in the form in which equal-looking strings are equal.

    NFKC (full width, ligatures, composed accents), invisible characters and vowel
    points removed, markdown's backslash escapes resolved, apostrophes unified, case
    folded.
    """
    return visible(text).casefold()


def visible(text: str) -> str:
    """Fold everything but case, which still separates ``fooBar`` from ``foobar``."""
    plain = unicodedata.normalize("NFKC", text.translate(_BEFORE)).translate(_AFTER)
    return _ESCAPE.sub(r"\1", plain)


def ends(query: str) -> str:
    """Return ``query``, or its two ends where it is longer than is looked up."""
    if len(query) <= LOOKED_UP_CHARS:
        return query
    half = LOOKED_UP_CHARS // 2
    return f"{query[:half]}\n{query[-half:]}"


def words(text: str) -> list[str]:
    """
    Cut ``text`` into the tokens of the word index, in order, repeats kept.

    A compound yields its parts, and itself with the joints taken out, so that
    ``max_crate_weight``, ``max crate weight`` and ``MaxCrateWeight`` all meet. A run
    without blanks yields every character and every pair: a two-character word is a
    pair; or every pair and triple where the script is alphabetic.
    """
    return [
        token
        for compound, sign in _compounds(text)
        for token in _indexed(compound, sign)
    ]


def query_words(text: str) -> list[str]:
    """
    Return the distinct tokens a query asks the word index for, in order.

    A run without blanks asks for its longer pieces only where it has any: single
    characters are in nearly every page and say nothing.
    """
    tokens = (
        token
        for compound, sign in _compounds(ends(text))
        for token in _tokens(compound, sign, is_query=True)
    )
    return list(dict.fromkeys(tokens))


def _compounds(text: str) -> Iterator[tuple[str, str]]:
    for match in _COMPOUND.finditer(visible(text)):
        yield match[1], match[2] or ""


def _indexed(compound: str, sign: str) -> Iterable[str]:
    """Return the tokens of a compound; those of usual length are remembered."""
    if len(compound) <= _REMEMBERED_CHARS:
        return _remembered(compound, sign)
    return _tokens(compound, sign, is_query=False)


@functools.lru_cache(_REMEMBERED_COMPOUNDS)
def _remembered(compound: str, sign: str) -> tuple[str, ...]:
    return tuple(_tokens(compound, sign, is_query=False))


def _tokens(compound: str, sign: str, *, is_query: bool) -> Iterator[str]:
    position = 0
    for run in _RUN.finditer(compound):
        yield from _plain(compound[position : run.start()])
        yield from _pieces(run.group(), is_query=is_query)
        position = run.end()
    yield from _plain(compound[position:])
    if sign and _SIGNED.fullmatch(compound):
        yield compound.casefold() + _SIGNS[sign]


def _plain(text: str) -> Iterator[str]:
    segments = _SEGMENT.findall(text)
    for segment in segments:
        parts = _CAMEL.split(segment)
        if len(parts) > 1:
            yield from (part.casefold() for part in parts)
        yield segment.casefold()
    if len(segments) > 1 and len(text) <= _MAX_COMPOUND_CHARS:
        yield "".join(segments).casefold()


def _pieces(run: str, *, is_query: bool) -> Iterator[str]:
    """Yield the overlapping pieces of a run without blanks."""
    size = 3 if _ALPHABETIC_START.match(run) else 2
    if len(run) < size or not is_query:
        yield from _windows(run, size - 1)
    yield from _windows(run, size)


def _windows(run: str, size: int) -> Iterator[str]:
    yield from (run[i : i + size] for i in range(len(run) - size + 1))


def query_substrings(text: str) -> list[str]:
    """
    Return the distinct strings a query asks the trigram index for, in order.

    These are its blank-separated pieces of at least three characters, stripped of
    the punctuation around a sentence but not of the punctuation inside a name:
    ``--flag``, ``#[derive]`` and ``std::vector<T>`` stay whole. A run without blanks
    asks for every three characters of it.
    """
    pieces = (piece for raw in fold(ends(text)).split() for piece in _substrings(raw))
    return list(dict.fromkeys(piece for piece in pieces if len(piece) >= 3))


def _substrings(raw: str) -> Iterator[str]:
    position = 0
    for run in _RUN.finditer(raw):
        yield _bare(raw[position : run.start()])
        yield from _windows(run.group(), 3)
        position = run.end()
    yield _bare(raw[position:])


def _bare(piece: str) -> str:
    """Take off stops, quotes and brackets, but for those that close what is inside."""
    brackets = _OPENING + _CLOSING
    started = piece.lstrip(_LEADING + brackets)
    bare = started.rstrip(_TRAILING + brackets)
    unclosed = sum(map(bare.count, _OPENING)) - sum(map(bare.count, _CLOSING))
    end = len(bare)
    while end < len(started) and started[end] in _CLOSING and unclosed > 0:
        end, unclosed = end + 1, unclosed - 1
    return started[:end]


def match_any(terms: Iterable[str]) -> str:
    """
    Return the FTS5 query that matches any of ``terms``, or '' for none.

    Each term becomes an FTS5 string, so nothing in it can act as an operator.
    """
    return " OR ".join(_strings(terms))


def match_all(terms: Iterable[str]) -> str:
    """Return the FTS5 query that matches all of ``terms``; see ``match_any``."""
    return " AND ".join(_strings(terms))


def _strings(terms: Iterable[str]) -> Iterator[str]:
    quoted = (term.translate(_UNQUERYABLE) for term in terms)
    return (f'"{term}"' for term in quoted if term.strip())


# A string ends at NUL, has no place for surrogates, and doubles its quotation marks.
_UNQUERYABLE = {0: " ", ord('"'): '""', **dict.fromkeys(range(0xD800, 0xE000), " ")}
