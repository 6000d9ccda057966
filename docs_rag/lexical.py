"""
Text as the full-text index sees it: folded, and cut into words.

Documents and queries go through the same two functions, so what folds together in a
page folds together in a question. Pure.
"""

import itertools
import re
import unicodedata
from collections.abc import Iterable, Iterator

# Raise when the same text would fold or cut differently: files are then cut anew.
LEXICAL_VERSION = 1

# Characters a reader cannot see, which must not keep two words apart or together.
_INVISIBLE = dict.fromkeys(
    [
        *(0x00AD, 0x034F, 0x061C, 0x180E, 0xFEFF),
        *range(0x200B, 0x2010),
        *range(0x202A, 0x202F),
        *range(0x2060, 0x2070),
    ]
)
_APOSTROPHES = dict.fromkeys(map(ord, "\u2018\u2019\u201b\u02bc\u00b4`"), "'")
_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")

_CJK = (
    "\u3005-\u3007\u3040-\u30ff\u3100-\u312f\u31a0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003134f"
)
_CJK_RUN = re.compile(f"[{_CJK}]+")
# A run of word characters, or several held together the way identifiers are:
# snake_case, kebab-case, dotted.name, std::vector, path/to.
_COMPOUND = re.compile(r"\w+(?:(?:::|->|[-./:'])\w+)*")
_SEGMENT = re.compile(r"[^\W_]+")
# fooBar -> foo Bar, HTTPServer -> HTTP Server; digits stay with their letters (E0502).
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")

# Longer compounds are URLs, digests and paths: their parts say enough.
_MAX_COMPOUND_CHARS = 64


def fold(text: str) -> str:
    """
    Return ``text`` in the form in which equal-looking strings are equal.

    NFKC (full width, ligatures, composed accents), invisible characters removed,
    markdown's backslash escapes resolved, apostrophes unified, case folded.
    """
    return visible(text).casefold()


def visible(text: str) -> str:
    """Fold everything but case, which still separates ``fooBar`` from ``foobar``."""
    plain = unicodedata.normalize("NFKC", text).translate(_INVISIBLE)
    return _ESCAPE.sub(r"\1", plain).translate(_APOSTROPHES)


def words(text: str) -> list[str]:
    """
    Cut ``text`` into the tokens of the word index, in order, repeats kept.

    A compound yields its parts, and itself with the joints taken out, so that
    ``max_crate_weight``, ``max crate weight`` and ``MaxCrateWeight`` all meet. CJK
    runs yield every character and every pair: a two-character word is a pair.
    """
    return [token for match in _compounds(text) for token in _tokens(match)]


def _compounds(text: str) -> Iterator[str]:
    for match in _COMPOUND.finditer(visible(text)):
        yield match.group()


def _tokens(compound: str) -> Iterator[str]:
    if _CJK_RUN.search(compound):
        yield from _cjk_tokens(compound)
        return
    segments = _SEGMENT.findall(compound)
    for segment in segments:
        yield from _segment_tokens(segment)
    if len(segments) > 1 and len(compound) <= _MAX_COMPOUND_CHARS:
        yield "".join(segments).casefold()


def _segment_tokens(segment: str) -> Iterator[str]:
    parts = _CAMEL.split(segment)
    if len(parts) > 1:
        yield from (part.casefold() for part in parts)
    yield segment.casefold()


def _cjk_tokens(compound: str) -> Iterator[str]:
    position = 0
    for run in _CJK_RUN.finditer(compound):
        yield from _plain(compound[position : run.start()])
        characters = run.group()
        yield from characters
        yield from map("".join, itertools.pairwise(characters))
        position = run.end()
    yield from _plain(compound[position:])


def _plain(text: str) -> Iterator[str]:
    for segment in _SEGMENT.findall(text):
        yield from _segment_tokens(segment)


def query_words(text: str) -> list[str]:
    """
    Return the distinct tokens a query asks the word index for, in order.

    A CJK run of two or more characters asks for its pairs only: single characters
    are in nearly every page and say nothing.
    """
    tokens: dict[str, None] = {}
    for compound in _compounds(text):
        run = _CJK_RUN.search(compound)
        longest = max(map(len, _CJK_RUN.findall(compound)), default=0) if run else 0
        for token in _tokens(compound):
            if longest > 1 and len(token) == 1 and _CJK_RUN.fullmatch(token):
                continue
            tokens[token] = None
    return list(tokens)


def query_substrings(text: str) -> list[str]:
    """
    Return the distinct strings a query asks the trigram index for, in order.

    These are its blank-separated pieces of at least three characters, stripped of
    the punctuation around a sentence but not of the punctuation inside a name:
    ``--flag``, ``#[derive]`` and ``std::vector<T>`` stay whole.
    """
    pieces: dict[str, None] = {}
    for raw in fold(text).split():
        piece = raw.strip("\"'“”„«»‹›()[]{}<>,;!?。，；！？、：…")
        piece = piece.rstrip(".:")
        for candidate in _substrings(piece, raw):
            if len(candidate) >= 3:
                pieces[candidate] = None
    return list(pieces)


def _substrings(piece: str, raw: str) -> Iterator[str]:
    runs = _CJK_RUN.findall(piece)
    if runs:
        # A CJK sentence has no blanks: ask for every three characters of it.
        for run in runs:
            yield from (run[i : i + 3] for i in range(max(len(run) - 2, 1)))
        return
    yield piece
    if raw != piece and raw.startswith(("#[", "<", "--", "[")):
        yield raw


def match_any(terms: Iterable[str]) -> str:
    """
    Return the FTS5 query that matches any of ``terms``, or '' for none.

    Each term becomes an FTS5 string, so nothing in it can act as an operator.
    """
    quoted = [term.replace("\x00", " ").replace('"', '""') for term in terms]
    return " OR ".join(f'"{term}"' for term in quoted if term.strip())
