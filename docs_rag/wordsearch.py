"""
What the full-text index finds for the words of a query: passages, and their pages.

In a small index, or for rare words, every row that holds a word is ranked. Else only
some are, see ``pruning``; but what these score is the BM25 of all words of the query.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from docs_rag.fulltext import WordTable
from docs_rag.lexical import match_any
from docs_rag.pruning import Probe, probes
from docs_rag.store import Store
from docs_rag.terms import Terms

# Scores by words are asked for so many passages and pages: one beyond them has a share
# too small to matter.
_SCORED_CHUNKS = 500
_SCORED_PAGES = 200
# So many rows that hold a word are ranked, beyond which the rest is pruned; and so many
# of the best of each probe are then scored by all words.
_RANKED_CHUNKS = 20_000
_RANKED_PAGES = 5_000
_RESCORED_CHUNKS = 250
_RESCORED_PAGES = 60
# So many of those that meaning names are scored by words too, and their pages. Without
# it, ranking loses a tenth of its recall@1 where rows are pruned: eval/README.md.
_BESIDE = 120
# Plain coverage is read off this many of the best passages for words.
_COVERAGE_CHUNKS = 5


@dataclass(frozen=True, slots=True)
class Lexical:
    """What the full-text index finds for the words of a query, in shares of it."""

    words: dict[int, float]
    pages: dict[str, float]
    covered: float


def by_words(store: Store, terms: Terms, near: Sequence[int] = ()) -> Lexical:
    """
    Return the best chunks and pages for words, and what the best chunk covers.

    The chunks ``near`` by meaning, nearest first, and the pages of these and of the
    best are scored too: a passage that meaning names has its words all the same.
    """
    if not terms.match:
        return Lexical({}, {}, 0.0)
    chunks = _Table(
        *(store, "words", terms.match, terms.chunk_frequencies),
        *(terms.chunk_count, _RANKED_CHUNKS, _RESCORED_CHUNKS),
    )
    pages = _Table(
        *(store, "pages", terms.match, terms.page_frequencies),
        *(terms.page_count, _RANKED_PAGES, _RESCORED_PAGES),
    )
    found = chunks.best(_SCORED_CHUNKS, near[:_BESIDE])
    named = [*near[:_BESIDE], *list(found)[:_BESIDE]]
    beside = store.files_of(named)
    files = pages.best(_SCORED_PAGES, beside)
    paths = store.paths(list(files))
    best = list(found)[:_COVERAGE_CHUNKS]
    return Lexical(
        words={i: _share(score, terms.ceiling) for i, score in found.items()},
        pages={
            paths[i]: _share(score, terms.page_ceiling)
            for i, score in files.items()
            if i in paths
        },
        covered=_covered(store, terms, best),
    )


def _share(score: float, ceiling: float) -> float:
    """Return a share of 1 at most: the ceiling rests on counts that may be old."""
    return min(1.0, score / ceiling) if ceiling else 1.0


def _covered(store: Store, terms: Terms, ids: Sequence[int]) -> float:
    """Return the largest share of the query's worth that one chunk holds."""
    held = dict.fromkeys(ids, 0.0)
    for token, weight in terms.weights.items():
        if token not in terms.unknown:
            for chunk_id in store.holders(match_any([token]), ids):
                held[chunk_id] += weight
    return max(held.values(), default=0.0) / (terms.total or 1.0)


@dataclass(frozen=True, slots=True)
class _Table:
    """One of the two word indexes, and the terms that are asked of it."""

    store: Store
    name: WordTable
    match: str
    frequencies: Mapping[str, int]
    row_count: int
    budget: int
    rescored: int

    @property
    def is_whole(self) -> bool:
        """Whether every row that holds a term is ranked."""
        return sum(self.frequencies.values()) <= self.budget

    def best(self, count: int, also: Sequence[int]) -> dict[int, float]:
        """Return row id → BM25 of the best rows and those of ``also``, best first."""
        scores = self._whole(count) if self.is_whole else self._pruned()
        if not self.is_whole or len(scores) == count:
            scores |= self._scores([i for i in also if i not in scores])
        order = sorted(scores, key=lambda i: (-scores[i], i))
        wanted = {*order[:count], *also}
        return {i: scores[i] for i in order if i in wanted}

    def _whole(self, count: int) -> dict[int, float]:
        return dict(self.store.ranked(self.name, self.match, count))

    def _pruned(self) -> dict[int, float]:
        scores: dict[int, float] = {}
        count = partial(self.store.count_matches, self.name)
        for probe in probes(self.frequencies, self.row_count, self.budget, count):
            found = self.store.ranked(
                *(self.name, probe.query, self.rescored, self.budget)
            )
            new = {i: score for i, score in found if i not in scores}
            scores |= self._completed(new, probe)
        return scores

    def _completed(self, ranked: dict[int, float], probe: Probe) -> dict[int, float]:
        """Add the terms that a probe did not ask for to the scores that it gave."""
        if not probe.is_bounded:
            return self._scores(list(ranked))
        rest = {t: n for t, n in self.frequencies.items() if t not in probe.terms}
        more = self.store.rescored(self.name, rest, list(ranked), probe.query)
        return {i: score + more.get(i, 0.0) for i, score in ranked.items()}

    def _scores(self, ids: Sequence[int]) -> dict[int, float]:
        return self.store.rescored(self.name, self.frequencies, ids)
