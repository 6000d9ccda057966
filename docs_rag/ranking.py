"""
Ranked lists in, one ranked list out.

Pure arithmetic over keys and ranks: knows no database, no vectors, no text. Every
order is total, so the same input gives the same output on any machine.
"""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

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
    and, within a list, to its own order. A key counts once in each list.
    """
    terms: dict[Key, list[float]] = {}
    ranks: dict[Key, dict[str, int]] = {}
    for ranked in lists:
        for rank, key in enumerate(dict.fromkeys(ranked.keys), start=1):
            terms.setdefault(key, []).append(ranked.weight / (k + rank))
            ranks.setdefault(key, {})[ranked.name] = rank
    # Exact, so that the order of the lists cannot show in the last bit.
    scores = {key: math.fsum(parts) for key, parts in terms.items()}
    first_seen = {key: position for position, key in enumerate(ranks)}
    order = sorted(
        scores,
        key=lambda key: (-scores[key], min(ranks[key].values()), first_seen[key]),
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
