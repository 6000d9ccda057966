"""
One query against one snapshot: what each ranker proposes, and how sure it may be.

Three rankers: vectors, words, trigrams. A ranker that knows little of this query
counts for little: the two lexical lists weigh as much as the share of the query's
information that the best lexical passage holds.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from docs_rag.lexical import match_any, query_substrings, query_words, words
from docs_rag.ranking import RankedList
from docs_rag.schema import Space, StoredChunk
from docs_rag.store import Store
from docs_rag.vectors import VectorEngine
from docs_rag.verdict import Evidence

# A question is a sentence; a pasted page is cut to its most telling words.
_MAX_WORDS = 64
_MAX_SUBSTRINGS = 24
# A word in more than half of the chunks tells them apart no better than a coin.
_COMMON_SHARE = 0.5
# The lexical evidence is read off this many of the best chunks for words.
_EVIDENCE_CHUNKS = 5


@dataclass(frozen=True, slots=True)
class Candidates:
    """The ranked lists for one query, over chunk ids, with what they rest on."""

    lists: tuple[RankedList[int], ...]
    chunks: dict[int, StoredChunk]
    similarities: dict[int, float]
    evidence: Evidence
    milliseconds: dict[str, float]
    exhausted: bool


@dataclass(frozen=True, slots=True)
class Searcher:
    """Where to look: a store in a snapshot, its chunk count, the space in force."""

    store: Store
    chunk_count: int
    space: Space | None
    engine: VectorEngine

    def search(
        self, query: str, vector: npt.NDArray[np.float32] | None, count: int
    ) -> Candidates:
        """Return up to ``count`` candidates from each ranker for ``query``."""
        clock = _Clock()
        similarities = self._by_vector(vector, count)
        clock.lap("vector")
        weights = self._word_weights(query)
        by_words = self.store.search_words(match_any(weights), count) if weights else []
        clock.lap("words")
        substrings = self._substrings(query, weights)
        by_trigrams = (
            self.store.search_trigrams(match_any(substrings), count)
            if substrings
            else []
        )
        clock.lap("trigrams")
        ids = {*similarities, *(i for i, _ in by_words), *(i for i, _ in by_trigrams)}
        chunks = self.store.chunks(sorted(ids))
        known, covered = self._coverage(weights, [chunks[i] for i, _ in by_words])
        clock.lap("fetch")
        lists = (
            _ranked("vector", list(similarities.items()), chunks, 1.0),
            _ranked("words", by_words, chunks, covered),
            _ranked("trigrams", by_trigrams, chunks, covered),
        )
        return Candidates(
            lists=lists,
            chunks=chunks,
            similarities=similarities,
            evidence=Evidence(
                similarity=max(similarities.values(), default=None),
                known=known,
                covered=covered,
                word_count=len(weights),
            ),
            milliseconds=clock.laps,
            exhausted=all(len(ranked.keys) < count for ranked in lists),
        )

    def _by_vector(
        self, vector: npt.NDArray[np.float32] | None, count: int
    ) -> dict[int, float]:
        """Return chunk id → cosine of its best window, best first."""
        if vector is None or self.space is None:
            return {}
        found = self.engine.nearest(self.store, self.space, vector, count)
        chunk_ids = self.store.chunks_of_vectors([vector_id for vector_id, _ in found])
        best: dict[int, float] = {}
        for vector_id, similarity in found:
            for chunk_id in chunk_ids.get(vector_id, ()):
                best.setdefault(chunk_id, similarity)
        return best

    def _word_weights(self, query: str) -> dict[str, float]:
        """Return the query's stems with their inverse document frequency."""
        stems = self.store.stems(query_words(query))
        frequencies = self.store.document_frequencies(
            dict.fromkeys(stem for stem in stems.values() if stem)
        )
        weights = {s: self._idf(frequency) for s, frequency in frequencies.items()}
        telling = {
            stem: weight
            for stem, weight in weights.items()
            if frequencies[stem] <= _COMMON_SHARE * self.chunk_count
        }
        chosen = telling or weights
        best = sorted(chosen, key=lambda stem: -chosen[stem])[:_MAX_WORDS]
        return {stem: chosen[stem] for stem in chosen if stem in set(best)}

    def _idf(self, frequency: int) -> float:
        """Robertson and Sparck Jones's IDF, kept positive as in Lucene's BM25."""
        return math.log(1 + (self.chunk_count - frequency + 0.5) / (frequency + 0.5))

    def _substrings(self, query: str, weights: dict[str, float]) -> list[str]:
        """Return what to ask the trigram index for: names, not plain known words."""
        return query_substrings(query)[:_MAX_SUBSTRINGS]

    def _coverage(
        self, weights: dict[str, float], best: Sequence[StoredChunk]
    ) -> tuple[float, float]:
        """Return the IDF shares that the corpus knows and that one chunk covers."""
        total = sum(weights.values())
        if not total:
            return 0.0, 0.0
        unknown = self._idf(0) - 1e-9
        known = sum(weight for weight in weights.values() if weight < unknown)
        covered = 0.0
        for chunk in best[:_EVIDENCE_CHUNKS]:
            tokens = words(f"{chunk.title} {chunk.path} {chunk.heading} {chunk.text}")
            held = set(self.store.stems(set(tokens)).values())
            covered = max(covered, sum(weights[s] for s in weights if s in held))
        return known / total, covered / total


def _ranked(
    name: str,
    scored: Sequence[tuple[int, float]],
    chunks: dict[int, StoredChunk],
    weight: float,
) -> RankedList[int]:
    """Order by score; equal scores by path and position, never by row id."""
    order = sorted(
        scored,
        key=lambda item: (
            -round(item[1], 6),
            chunks[item[0]].path,
            chunks[item[0]].ordinal,
        ),
    )
    return RankedList(name, tuple(chunk_id for chunk_id, _ in order), weight)


class _Clock:
    """Splits the time of a search into named laps, in milliseconds."""

    def __init__(self) -> None:
        self._last = time.perf_counter()
        self.laps: dict[str, float] = {}

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.laps[name] = round((now - self._last) * 1000, 3)
        self._last = now
