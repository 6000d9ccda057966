"""
Which rows of a large index are ranked for a query at all: those of its rare terms.

Ranking costs about a microsecond a row, so a question of common words would take
seconds in a million passages. A rare term says more than common ones together; where
all are common, a row that holds several of them does. Pure: asks nothing but counts.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

# So many times the common terms are asked for in conjunctions, from the rarest on.
_CONJUNCTIONS = 3

Count = Callable[[str, int], int]


@dataclass(frozen=True, slots=True)
class Probe:
    """
    A full-text query whose rows are ranked.

    Where not ``is_bounded`` it has more rows than may be looked at.
    """

    query: str
    is_bounded: bool = True


def any_of(terms: Sequence[str]) -> str:
    """Return the query for any of ``terms``, FTS5 strings all."""
    return " OR ".join(terms)


def probes(
    frequencies: Mapping[str, int], row_count: int, budget: int, count: Count
) -> tuple[Probe, ...]:
    """
    Return the queries whose rows, ``budget`` or a few more in all, are to be ranked.

    ``frequencies`` says in how many of ``row_count`` rows each term is; ``count`` how
    many rows match a query, up to a limit. Where all rows that hold any term fit the
    budget, that is the one query.
    """
    terms = sorted(frequencies, key=lambda term: (frequencies[term], term))
    rare, left = [], budget
    for term in terms:
        if frequencies[term] > left:
            break
        rare.append(term)
        left -= frequencies[term]
    found = [Probe(any_of(rare))] if rare else []
    common = terms[len(rare) :]
    for start in range(min(len(common) - 1, _CONJUNCTIONS)):
        for query, estimate in _conjunctions(common[start:], frequencies, row_count):
            if estimate > left:
                continue
            rows = count(query, left + 1)
            if rows <= left:
                found.append(Probe(query))
                left -= rows
                break
    if not found:
        found = [Probe(query, False) for query in _last_resort(common)]
    return tuple(found)


def _conjunctions(
    terms: Sequence[str], frequencies: Mapping[str, int], row_count: int
) -> Iterator[tuple[str, float]]:
    """Yield ever narrower queries for the first term, with the rows to expect."""
    shares = [min(1.0, frequencies[term] / (row_count or 1)) for term in terms]
    none_of_rest = 1.0
    for share in shares[1:]:
        none_of_rest *= 1 - share
    if len(terms) > 2:
        expected = row_count * shares[0] * (1 - none_of_rest)
        yield f"{terms[0]} AND ({any_of(terms[1:])})", expected
    expected = row_count * shares[0]
    for size in range(2, len(terms) + 1):
        expected *= shares[size - 1]
        yield " AND ".join(terms[:size]), expected


def _last_resort(terms: Sequence[str]) -> Iterator[str]:
    """Yield what is left where even rows that hold every term are too many."""
    every = " AND ".join(terms)
    yield f"{{title heading}} : ({every})"
    yield every
