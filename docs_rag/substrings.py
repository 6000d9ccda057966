"""
Passages that hold a string, anywhere in a word and with the signs inside it.

The trigram index says which passages may hold one; the passages themselves say which
do, and how often.
"""

import math
from collections.abc import Mapping, Sequence

from docs_rag.lexical import searchable
from docs_rag.schema import BM25_B, BM25_FLOOR, BM25_K1
from docs_rag.store import Store

# So many of a string's rarest trigrams are asked for: those beyond hardly tell more.
_ASKED_TRIGRAMS = 8
# So many passages are taken from the index for a string, and read for a query.
_NAMED_CHUNKS = 2_000
_READ_CHUNKS = 400


def by_substrings(
    store: Store, substrings: Sequence[str], chunk_count: int, count: int
) -> dict[int, float]:
    """
    Return the best ``count`` chunks that hold any of ``substrings``, best first.

    The score is BM25 over substrings in place of words.
    """
    named, holders = _named(store, substrings)
    weights = {text: _idf(holders[text], chunk_count) for text in named}
    expected: dict[int, float] = {}
    for text, ids in named.items():
        for i in ids:
            expected[i] = expected.get(i, 0.0) + weights[text]
    likely = sorted(expected, key=lambda i: (-expected[i], i))[:_READ_CHUNKS]
    texts = {
        i: searchable(chunk.path, chunk.heading, chunk.text)
        for i, chunk in store.chunks(likely).items()
    }
    scores = _scores(texts, weights)
    best = sorted(scores, key=lambda i: (-scores[i], i))[:count]
    return {i: scores[i] for i in best}


def _named(
    store: Store, substrings: Sequence[str]
) -> tuple[dict[str, list[int]], dict[str, int]]:
    """Return for each string the chunks that may hold it, and about how many do."""
    trigrams = {text: store.trigrams(text) for text in substrings}
    wanted = dict.fromkeys(one for found in trigrams.values() for one in found)
    frequencies = store.trigram_frequencies(wanted)
    named: dict[str, list[int]] = {}
    holders: dict[str, int] = {}
    for text, parts in trigrams.items():
        rarest = sorted(parts, key=lambda part: (frequencies[part], part))
        if not rarest or not frequencies[rarest[0]]:
            continue
        ids = store.search_trigrams(rarest[:_ASKED_TRIGRAMS], _NAMED_CHUNKS)
        named[text] = ids
        is_cut = len(ids) == _NAMED_CHUNKS
        holders[text] = max(frequencies[rarest[0]] if is_cut else 0, len(ids))
    return named, holders


def _scores(texts: Mapping[int, str], weights: Mapping[str, float]) -> dict[int, float]:
    average = sum(map(len, texts.values())) / (len(texts) or 1)
    found: dict[int, float] = {}
    for i, text in texts.items():
        length = 1 - BM25_B + BM25_B * len(text) / (average or 1)
        hits = {part: n for part in weights if (n := text.count(part))}
        if hits:
            found[i] = sum(
                weights[part] * n * (BM25_K1 + 1) / (n + BM25_K1 * length)
                for part, n in hits.items()
            )
    return found


def _idf(frequency: int, count: int) -> float:
    odds = (count - frequency + 0.5) / (frequency + 0.5)
    return max(math.log(odds), BM25_FLOOR) if odds > 0 else BM25_FLOOR
