"""
Ranked lists in, one ranked list out; and the verdict on what came out.

Pure arithmetic over keys and ranks: knows no database, no vectors, no text. Every
order is total, so the same input gives the same output on any machine.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from docs_rag.records import Match

Key = TypeVar("Key", bound=Hashable)

# Cormack, Clarke and Buettcher, "Reciprocal rank fusion outperforms Condorcet and
# individual rank learning methods", SIGIR 2009: k = 60.
RRF_K = 60


@dataclass(frozen=True, slots=True)
class RankedList(Generic[Key]):
    """One ranker's order, best first, and how much its opinion counts."""

    name: str
    keys: tuple[Key, ...]
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Fused(Generic[Key]):
    """A key with its fused score and its 1-based rank in each list that held it."""

    key: Key
    score: float
    ranks: Mapping[str, int]


def fuse(lists: Sequence[RankedList[Key]], k: int = RRF_K) -> list[Fused[Key]]:
    """
    Fuse ranked lists by weighted reciprocal rank: ``sum(weight / (k + rank))``.

    Ties go to the better best rank, then to the order in which the lists are given
    and, within a list, to its own order.
    """
    scores: dict[Key, float] = {}
    ranks: dict[Key, dict[str, int]] = {}
    for ranked in lists:
        for rank, key in enumerate(ranked.keys, start=1):
            scores[key] = scores.get(key, 0.0) + ranked.weight / (k + rank)
            ranks.setdefault(key, {}).setdefault(ranked.name, rank)
    first_seen = {key: position for position, key in enumerate(ranks)}
    # Sums of the same terms in another order differ in the last bits: round them off.
    order = sorted(
        scores,
        key=lambda key: (
            -round(scores[key], 12),
            min(ranks[key].values()),
            first_seen[key],
        ),
    )
    return [Fused(key, scores[key], ranks[key]) for key in order]


def pool(passes: Sequence[Sequence[Fused[Key]]]) -> dict[Key, Fused[Key]]:
    """Keep each key's best pass: its score and ranks there. Ties: the earlier pass."""
    best: dict[Key, Fused[Key]] = {}
    for one_pass in passes:
        for fused in one_pass:
            known = best.get(fused.key)
            if known is None or fused.score > known.score:
                best[fused.key] = fused
    return best


def take_turns(passes: Sequence[Sequence[Fused[Key]]]) -> list[Fused[Key]]:
    """
    Merge several queries' results: pooled numbers, alternating order.

    The first pass (the caller's own words) takes the first turn and then every Nth,
    whatever the other N - 1 passes rank; a pass whose next key is taken offers the
    one behind it.
    """
    best = pool(passes)
    taken: dict[Key, None] = {}
    cursors = [iter(one_pass) for one_pass in passes]
    while len(taken) < len(best):
        for cursor in cursors:
            key = next((f.key for f in cursor if f.key not in taken), None)
            if key is not None:
                taken[key] = None
    return [best[key] for key in taken]


@dataclass(frozen=True, slots=True)
class Evidence:
    """
    What is known about how well the corpus answers one query.

    ``similarity`` is the best passage's cosine, None where vectors were not used;
    ``known`` is the share of the query's IDF mass whose words the corpus holds at
    all, ``covered`` the share that the best lexical passage holds, both in [0, 1].
    ``word_count`` counts the query's words that carry weight.
    """

    similarity: float | None
    known: float
    covered: float
    word_count: int


@dataclass(frozen=True, slots=True)
class Background:
    """
    How similar this corpus is to text it has nothing to do with, under this model.

    ``mean`` and ``deviation`` describe the best cosine that unrelated questions
    reach; measured when the index is built.
    """

    mean: float
    deviation: float

    def stands_out(self, similarity: float) -> float:
        """Return how many deviations ``similarity`` lies above the background."""
        return (similarity - self.mean) / max(self.deviation, 1e-6)


def verdict(evidence: Evidence, background: Background | None) -> Match:
    """Say whether the corpus answers at all, from two independent signs."""
    if not evidence.word_count and evidence.similarity is None:
        return Match.NONE
    if evidence.similarity is None or background is None:
        return Match.WEAK if evidence.covered >= 0.5 else Match.NONE
    stands_out = background.stands_out(evidence.similarity)
    score = stands_out + 4 * evidence.covered
    if score >= 4:
        return Match.STRONG
    return Match.WEAK if score >= 2 else Match.NONE
