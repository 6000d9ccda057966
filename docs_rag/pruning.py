"""
Which rows of a large index are ranked for a query at all: those of its rare terms.

Ranking costs about a microsecond a row, so a question of common words would take
seconds in a million passages. A rare term says more than common ones together; where
all are common, a row that holds several of them does. Pure: asks nothing but counts.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

# So many of the common terms are asked for together, the rarest of them.
_TOGETHER = 8

Count = Callable[[str, int], int]


@dataclass(frozen=True, slots=True)
class Probe:
    """
    A full-text query whose rows are ranked, by the terms that are in it.

    Where not ``is_bounded`` it has more rows than may be looked at.
    """

    query: str
    terms: tuple[str, ...]
    is_bounded: bool = True


def probes(
    frequencies: Mapping[str, int], row_count: int, budget: int, count: Count
) -> tuple[Probe, ...]:
    """
    Return the queries whose rows are to be ranked, ``budget`` in all where they can be.

    One asks for any of the rare terms, one for the first of the common terms together
    with others. ``frequencies`` says in how many of ``row_count`` rows each term, an
    FTS5 string, is; ``count`` how many rows match a query, up to a limit.
    """
    terms = sorted(frequencies, key=lambda term: (frequencies[term], term))
    rare, left = [], budget
    for term in terms:
        if frequencies[term] > left:
            break
        rare.append(term)
        left -= frequencies[term]
    found = [Probe(" OR ".join(rare), tuple(rare))] if rare else []
    common = terms[len(rare) :][:_TOGETHER]
    for probe, expected in _conjunctions(common, frequencies, row_count):
        if expected <= left and count(probe.query, left + 1) <= left:
            found.append(probe)
            break
    return tuple(found or _last_resort(common))


def _conjunctions(
    terms: Sequence[str], frequencies: Mapping[str, int], row_count: int
) -> Iterator[tuple[Probe, float]]:
    """Yield ever narrower queries for the first term, with the rows to expect."""
    shares = [min(1.0, frequencies[term] / (row_count or 1)) for term in terms]
    if len(terms) > 2:
        none_of_rest = math.prod(1 - share for share in shares[1:])
        query = f"{terms[0]} AND ({' OR '.join(terms[1:])})"
        expected = row_count * shares[0] * (1 - none_of_rest)
        yield Probe(query, tuple(terms)), expected
    for size in range(2, len(terms) + 1):
        together = tuple(terms[:size])
        expected = row_count * math.prod(shares[:size])
        yield Probe(" AND ".join(together), together), expected


def _last_resort(terms: Sequence[str]) -> Iterator[Probe]:
    """Yield what is left where even the rows that hold every term are too many."""
    every = " AND ".join(terms)
    yield Probe(f"{{title heading}} : ({every})", (), False)
    yield Probe(every, (), False)
