"""
Queries that the corpus did not answer well, most frequent first.

They are the raw material of new evaluation cases. Memory is bounded: where more
distinct queries come than fit, the rarest are let go and counted.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from docs_rag.records import Match
from docs_rag.tracereader import FileTally, Record, parse_moment, read_records

MAX_QUERIES = 100_000
_MISSED = (Match.NONE.value, Match.WEAK.value)


@dataclass(slots=True)
class Miss:
    """One query and how often it was answered ``none`` or ``weak``."""

    query_sha256: str
    query: str | None = None
    corpus: str = ""
    none: int = 0
    weak: int = 0
    last: str = ""

    @property
    def count(self) -> int:
        """How often the query missed."""
        return self.none + self.weak


@dataclass(frozen=True, slots=True)
class Misses:
    """The most frequent misses of some files; ``omitted`` counts what did not fit."""

    files: tuple[FileTally, ...]
    misses: tuple[Miss, ...]
    distinct: int
    calls: int
    omitted: int


class MissCounter:
    """Counts misses by corpus and query."""

    def __init__(self, max_queries: int = MAX_QUERIES) -> None:
        self._max_queries = max_queries
        self._misses: dict[tuple[str, str], Miss] = {}
        self.calls = 0
        self.omitted = 0

    def add(self, record: Record) -> None:
        """Count a record if it is a miss."""
        attributes = record.attributes
        match = attributes.get("docs_rag.match")
        if match not in _MISSED:
            return
        digest = str(attributes.get("docs_rag.query.sha256", ""))
        text = attributes.get("gen_ai.retrieval.query.text")
        key = str(attributes.get("docs_rag.corpus", "")), digest or str(text)
        miss = self._misses.get(key)
        if miss is None:
            miss = self._misses[key] = Miss(digest, corpus=key[0])
        if match == Match.NONE:
            miss.none += 1
        else:
            miss.weak += 1
        if isinstance(text, str):
            miss.query = text
        miss.last = max(miss.last, record.timestamp)
        self.calls += 1
        if len(self._misses) > self._max_queries:
            self._let_go()

    def top(self, limit: int) -> tuple[Miss, ...]:
        """Return the most frequent misses; of equals, the latest first."""
        ranked = sorted(self._misses.values(), key=lambda miss: miss.last, reverse=True)
        ranked.sort(key=lambda miss: (-miss.count, -miss.none))
        return tuple(ranked[:limit])

    def __len__(self) -> int:
        return len(self._misses)

    def _let_go(self) -> None:
        """Drop the rarest half, so that this is seldom done."""
        ranked = sorted(self._misses, key=lambda key: self._misses[key].count)
        for key in ranked[: len(ranked) // 2]:
            self.omitted += self._misses.pop(key).count


def collect_misses(
    paths: Iterable[Path], limit: int, since: datetime | None = None
) -> Misses:
    """Read files one after the other and return their most frequent misses."""
    counter = MissCounter()
    tallies = []
    for path in paths:
        tally = FileTally(str(path))
        tallies.append(tally)
        for record in read_records(path, tally):
            if since is None or _is_after(record, since):
                counter.add(record)
    return Misses(
        files=tuple(tallies),
        misses=counter.top(limit),
        distinct=len(counter),
        calls=counter.calls,
        omitted=counter.omitted,
    )


def _is_after(record: Record, since: datetime) -> bool:
    moment = parse_moment(record.timestamp)
    return moment is not None and moment >= since
