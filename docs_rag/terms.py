"""
The words of one query, and what each of them is worth in this corpus.

A word's worth is its inverse document frequency: what many passages hold tells none of
them apart. Words that only hold a sentence together count for nothing.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from docs_rag.fulltext import FullText
from docs_rag.functionwords import (
    ENGLISH,
    is_latin,
    is_other_language,
    is_rather_other_language,
)
from docs_rag.lexical import match_any, query_substrings, query_words

# A question is a sentence; a pasted page is cut to its most telling words.
_MAX_WORDS = 64
_MAX_SUBSTRINGS = 24
# A word in more than half of the chunks tells them apart no better than a coin.
_COMMON_SHARE = 0.5
# The query is in the language of the corpus where that holds a third of all its words;
# two thirds, where its function words speak another language than English.
_READABLE_SHARE, _READABLE_OTHER_SHARE = 1 / 3, 2 / 3
# What FTS5's BM25 (k1 = 1.2) gives a word at most, in units of its IDF; and its IDF
# where a word is in more than half of the rows.
_SATURATION = 2.2
_FLOOR = 1e-6


@dataclass(frozen=True, slots=True)
class Terms:
    """
    What a query asks the full-text index for.

    ``weights`` maps the tokens to their worth; ``unknown`` are those the corpus does
    not hold at all. The ceilings are the BM25 of a passage, or page, that would hold
    every token without end: a score divided by it is the share of the query held.
    They leave out what the corpus cannot hold: see ``_could_be_held``.
    ``stems`` has every word of the query, pruned or not, and ``frequencies`` the number
    of passages that hold a stem; ``chunk_frequencies`` and ``page_frequencies`` those
    of what is asked for, by FTS5 string, in so many chunks and pages.
    """

    weights: dict[str, float]
    unknown: frozenset[str]
    ceiling: float
    page_ceiling: float
    substrings: tuple[str, ...]
    stems: dict[str, str]
    frequencies: dict[str, int]
    chunk_frequencies: dict[str, int]
    page_frequencies: dict[str, int]
    chunk_count: int
    page_count: int
    is_readable: bool
    has_content: bool
    is_noise: bool

    @property
    def total(self) -> float:
        """The worth of the whole query."""
        return sum(self.weights.values())

    @property
    def known(self) -> float:
        """The share of the query's worth in words that the corpus holds."""
        worth = sum(w for token, w in self.weights.items() if token not in self.unknown)
        return worth / self.total if self.total else 0.0

    def pruned(self, token: str) -> str:
        """Say why a word of the query is asked for nothing; '' where it is asked."""
        if token in self.weights:
            return ""
        stem = self.stems[token]
        if any(self.stems[other] == stem for other in self.weights):
            return "the same stem as another word"
        if token in ENGLISH:
            return "only holds a sentence together"
        if self.frequencies[stem] > _COMMON_SHARE * self.chunk_count:
            return "in more than half of the passages"
        return "one word too many"

    @property
    def match(self) -> str:
        """The full-text query for any of the words; '' where the corpus has none."""
        return " OR ".join(self.chunk_frequencies)


def terms_of(store: FullText, query: str, chunk_count: int, page_count: int) -> Terms:
    """Choose and weigh the words of ``query`` for a corpus of that size."""
    tokens = query_words(query)
    stems = {token: stem for token, stem in store.stems(tokens).items() if stem}
    # Counts of common words may be older than the corpus, which may have shrunk.
    frequencies = _at_most(
        chunk_count, store.document_frequencies(dict.fromkeys(stems.values()))
    )
    content = [token for token in stems if token not in ENGLISH]
    chosen = _telling(content or list(stems), stems, frequencies, chunk_count)
    known = sum(frequencies[stem] > 0 for stem in stems.values())
    is_other = is_rather_other_language(tokens)
    share = _READABLE_OTHER_SHARE if is_other else _READABLE_SHARE
    is_readable = bool(stems) and known >= share * len(stems)
    unknown = frozenset(t for t in chosen if not frequencies[stems[t]])
    holdable = [t for t in chosen if is_readable or _could_be_held(t, unknown)]
    in_pages = _at_most(
        page_count, store.page_frequencies(stems[token] for token in chosen)
    )
    asked = {match_any([t]): stems[t] for t in chosen if t not in unknown}
    return Terms(
        weights={t: _idf(frequencies[stems[t]], chunk_count) for t in chosen},
        unknown=unknown,
        ceiling=_ceiling((frequencies[stems[t]] for t in holdable), chunk_count),
        page_ceiling=_ceiling((in_pages[stems[t]] for t in holdable), page_count),
        substrings=_substrings(query, frozenset() if is_other else unknown),
        stems=stems,
        frequencies=frequencies,
        chunk_frequencies={term: frequencies[stem] for term, stem in asked.items()},
        page_frequencies={term: in_pages[stem] for term, stem in asked.items()},
        chunk_count=chunk_count,
        page_count=page_count,
        is_readable=is_readable,
        has_content=bool(content) or _is_heading(store, query),
        is_noise=not is_readable and not known and not is_other_language(tokens),
    )


def _at_most(limit: int, frequencies: dict[str, int]) -> dict[str, int]:
    return {stem: min(count, limit) for stem, count in frequencies.items()}


def _could_be_held(token: str, unknown: frozenset[str]) -> bool:
    """
    Say whether a corpus could hold a word of a query that is in another language.

    Ideographs in English documentation could not, so that nothing is missing where
    they are: what is held of ``HashMap`` in a Chinese question is held of all of it. A
    Latin word could; between languages of one script words meet by accident.
    """
    return token not in unknown or is_latin(token)


def _is_heading(store: FullText, query: str) -> bool:
    """Say whether a query of function words alone is a heading: ``while`` is code."""
    phrase = match_any([" ".join(query_words(query))])
    if not phrase:
        return False
    return store.count_matches("words", "{title heading} : " + phrase, 1) > 0


def _telling(
    tokens: list[str],
    stems: dict[str, str],
    frequencies: dict[str, int],
    chunk_count: int,
) -> list[str]:
    """Return one token for each stem, those in every other chunk left out."""
    distinct = list({stems[token]: token for token in reversed(tokens)}.values())
    rare = [
        token
        for token in distinct
        if frequencies[stems[token]] <= _COMMON_SHARE * chunk_count
    ]
    chosen = rare or distinct
    best = sorted(chosen, key=lambda token: (frequencies[stems[token]], token))
    kept = set(best[:_MAX_WORDS])
    return [token for token in tokens if token in kept]


def _substrings(query: str, parts: frozenset[str]) -> tuple[str, ...]:
    """
    Return what to ask the trigram index for.

    A plain word that the word index knows is found there, cheaper and stemmed; this
    index is for names with signs in them, for scripts without blanks, and for words
    that may be part of a longer one: ``parts``, none where they are of another
    language.
    """
    asked = (
        piece
        for piece in query_substrings(query)
        if piece in parts or not (piece.isascii() and piece.isalnum())
    )
    return tuple(asked)[:_MAX_SUBSTRINGS]


def _idf(frequency: int, count: int) -> float:
    """Robertson and Sparck Jones's IDF, kept positive as in Lucene's BM25."""
    return math.log(1 + (count - frequency + 0.5) / (frequency + 0.5))


def _ceiling(frequencies: Iterable[int], count: int) -> float:
    """Add up the most that FTS5's BM25 can give each word."""
    odds = ((count - frequency + 0.5) / (frequency + 0.5) for frequency in frequencies)
    return _SATURATION * sum(max(math.log(odd), _FLOOR) for odd in odds if odd > 0)
