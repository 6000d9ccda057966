"""
One query against one snapshot: what each ranker proposes, and how sure it may be.

Three rankers name the candidates: vectors, words, trigrams. A fourth list, by the sum
of all evidence, orders them: it keeps by how much one passage is better than the next,
which ranks lose, and it knows the page around the passage.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from docs_rag.background import DEFAULT_SPREAD, Background
from docs_rag.ranking import RankedList
from docs_rag.relevance import Signals, Worth, worths
from docs_rag.schema import Space, StoredChunk
from docs_rag.store import Store
from docs_rag.substrings import by_substrings
from docs_rag.terms import Terms, terms_of
from docs_rag.vectors import VectorEngine
from docs_rag.verdict import Evidence
from docs_rag.wordsearch import Lexical, by_words

Vector = npt.NDArray[np.float32]

# The sum of evidence leads; the rankers' own lists decide where it hardly does.
_EVIDENCE_WEIGHT = 20.0


@dataclass(frozen=True, slots=True)
class Candidates:
    """The ranked lists for one query, over chunk ids, with what they rest on."""

    lists: tuple[RankedList[int], ...]
    chunks: dict[int, StoredChunk]
    similarities: dict[int, float]
    signals: dict[int, Signals]
    worths: dict[int, Worth]
    evidence: Evidence
    terms: Terms
    milliseconds: dict[str, float]
    exhausted: bool


@dataclass(frozen=True, slots=True)
class Searcher:
    """Where to look: a store in a snapshot, its size, the space in force."""

    store: Store
    chunk_count: int
    page_count: int
    space: Space | None
    engine: VectorEngine
    background: Background | None

    def search(self, query: str, vector: Vector | None, count: int) -> Candidates:
        """Return up to ``count`` candidates from each ranker for ``query``."""
        clock = _Clock()
        near = self._nearest(vector, count)
        clock.lap("vector")
        terms = self.terms(query)
        lexical = self.by_words(terms, near)
        clock.lap("words")
        substrings = self._by_substrings(terms, count)
        clock.lap("trigrams")
        named = [*near, *list(lexical.words)[:count], *substrings]
        chunks = _in_order(self.store.chunks(sorted(set(named))))
        leads = self.store.first_chunks({chunk.path for chunk in chunks.values()})
        cosines, about = self._similarities(vector, {*chunks, *leads.values()})
        bodies = {i: cosines[i] for i in chunks if i in cosines}
        headings = {i: about[i] for i in chunks if i in about}
        clock.lap("fetch")
        signals = {
            i: Signals(
                path=chunk.path,
                body=bodies.get(i),
                heading=headings.get(i),
                lead=cosines.get(leads[chunk.path]),
                words=lexical.words.get(i, 0.0),
                page=lexical.pages.get(chunk.path, 0.0),
                substrings=substrings.get(i, 0.0),
            )
            for i, chunk in chunks.items()
        }
        found = self._worths(signals)
        lists = self._lists(signals, found, chunks, lexical, substrings, count)
        evidence = self.evidence(terms, lexical, vector, _best(bodies), _best(headings))
        clock.lap("fuse")
        return Candidates(
            lists=lists,
            chunks=chunks,
            similarities=bodies,
            signals=signals,
            worths=found,
            evidence=evidence,
            terms=terms,
            milliseconds=clock.laps,
            exhausted=len(near) < count and len(lexical.words) < count,
        )

    def terms(self, query: str) -> Terms:
        """Return the words of ``query``, weighed."""
        return terms_of(self.store, query, self.chunk_count, self.page_count)

    def by_words(self, terms: Terms, near: Sequence[int] = ()) -> Lexical:
        """Return the best chunks and pages for words; see ``wordsearch``."""
        return by_words(self.store, terms, near)

    def evidence(
        self,
        terms: Terms,
        lexical: Lexical,
        vector: Vector | None,
        body: float | None,
        heading: float | None,
    ) -> Evidence:
        """Gather what the verdict rests on; ``body``, ``heading``: the best cosines."""
        body_out = heading_out = 0.0
        if self.background and vector is not None and body is not None:
            body_out = self.background.body_stands_out(vector, body)
            if heading is not None:
                heading_out = self.background.heading_stands_out(vector, heading)
        return Evidence(
            similarity=body,
            body=body_out,
            heading=heading_out,
            known=terms.known,
            words=max(lexical.words.values(), default=0.0),
            page=max(lexical.pages.values(), default=0.0),
            covered=lexical.covered,
            word_count=len(terms.weights),
            chunk_count=self.chunk_count,
            is_readable=terms.is_readable,
            has_content=terms.has_content,
            is_noise=terms.is_noise,
        )

    @property
    def _trust(self) -> float:
        """How far similarity goes by meaning: what does not, proposes nothing."""
        return self.background.trust if self.background else 1.0

    def _nearest(self, vector: Vector | None, count: int) -> list[int]:
        """Return the chunks whose text or heading is nearest, about ``count`` each."""
        if vector is None or self.space is None or not self._trust:
            return []
        found = self.engine.nearest(self.store, self.space, vector, 2 * count)
        chunk_ids = self.store.chunks_of_vectors([vector_id for vector_id, _ in found])
        ids = (i for vector_id, _ in found for i in chunk_ids.get(vector_id, ()))
        return list(dict.fromkeys(ids))[: 2 * count]

    def _similarities(
        self, vector: Vector | None, ids: Iterable[int]
    ) -> tuple[dict[int, float], dict[int, float]]:
        """Return the cosines of chunks' best windows, and of their headings."""
        bodies: dict[int, float] = {}
        headings: dict[int, float] = {}
        if vector is None or self.space is None:
            return bodies, headings
        rows = self.store.vectors_of_chunks(sorted(ids))
        vector_ids = sorted({vector_id for _, _, vector_id in rows})
        cosines = self.engine.similarities(self.store, self.space, vector, vector_ids)
        # Rounded: the last bits depend on how a processor adds up.
        by_id = {i: round(c, 5) for i, c in zip(vector_ids, cosines, strict=True)}
        for chunk_id, is_heading, vector_id in rows:
            kind = headings if is_heading else bodies
            kind[chunk_id] = max(by_id[vector_id], kind.get(chunk_id, -1.0))
        return bodies, headings

    def _by_substrings(self, terms: Terms, count: int) -> dict[int, float]:
        """Return chunks that hold what only the trigram index finds, with its share."""
        found = by_substrings(self.store, terms.substrings, self.chunk_count, count)
        if not found or not terms.total:
            return {}
        worth = sum(terms.weights[token] for token in terms.unknown) / terms.total
        # Where the word index has all the parts, the exact form still breaks ties.
        share = max(worth, 0.1)
        best = max(found.values()) or 1.0
        return {i: share * score / best for i, score in found.items()}

    def _worths(self, signals: Mapping[int, Signals]) -> dict[int, Worth]:
        unit = self.background.unit if self.background else DEFAULT_SPREAD
        found = worths(list(signals.values()), unit)
        return dict(zip(signals, found, strict=True))

    def _lists(
        self,
        signals: Mapping[int, Signals],
        worth: Mapping[int, Worth],
        chunks: Mapping[int, StoredChunk],
        lexical: Lexical,
        substrings: Mapping[int, float],
        count: int,
    ) -> tuple[RankedList[int], ...]:
        meanings = {i: one.meaning() for i, one in signals.items()}
        near = {i: meaning for i, meaning in meanings.items() if meaning is not None}
        words = {i: lexical.words[i] for i in list(lexical.words)[:count]}
        evidence = {i: one.total for i, one in worth.items()}
        return (
            _ranked("evidence", evidence, chunks, _EVIDENCE_WEIGHT),
            _ranked("vector", near, chunks, self._trust, count),
            _ranked("words", words, chunks, lexical.covered),
            _ranked("trigrams", substrings, chunks, lexical.covered),
        )


def _in_order(chunks: Mapping[int, StoredChunk]) -> dict[int, StoredChunk]:
    """Order chunks by path and position, never by row id."""
    order = sorted(chunks, key=lambda i: (chunks[i].path, chunks[i].ordinal))
    return {i: chunks[i] for i in order}


def _best(similarities: Mapping[int, float]) -> float | None:
    return max(similarities.values(), default=None)


def _ranked(
    name: str,
    scores: Mapping[int, float],
    chunks: Mapping[int, StoredChunk],
    weight: float,
    count: int | None = None,
) -> RankedList[int]:
    """Order by score; equal scores by path and position, never by row id."""
    order = sorted(
        scores,
        key=lambda i: (-round(scores[i], 9), chunks[i].path, chunks[i].ordinal),
    )
    return RankedList(name, tuple(order[:count]), weight)


class _Clock:
    """Splits the time of a search into named laps, in milliseconds."""

    def __init__(self) -> None:
        self._last = time.perf_counter()
        self.laps: dict[str, float] = {}

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.laps[name] = round((now - self._last) * 1000, 3)
        self._last = now
