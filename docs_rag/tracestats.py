"""
What a stream of trace records adds up to.

Memory does not grow with the input: percentiles are sketched, and every table is
bounded; what no longer fits goes to the row ``OTHERS``.
"""

import heapq
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path

from docs_rag.records import Match
from docs_rag.tracereader import (
    FileTally,
    Record,
    parse_moment,
    read_records,
    utc_second,
)
from docs_rag.tracesketch import Sketch

OTHERS = "(others)"
UNDATED = "(undated)"
MAX_ROWS = 64
MAX_DAYS = 1_100
MAX_POINTS = 240
_MAX_SLOTS = 50_000
# Minutes that one point of the timeline spans; beyond the last, doubled.
_WIDTHS = (1, 5, 15, 60, 180, 360, 1_440, 10_080)
_EPOCH = datetime(1970, 1, 1)
_MINUTE = timedelta(minutes=1)
_MATCHES = {str(match): match for match in Match}


@dataclass(frozen=True, slots=True)
class GroupStats:
    """The calls of one tool, day or span of time. Latencies are in milliseconds."""

    name: str
    calls: int
    errors: int
    strong: int
    weak: int
    none: int
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    max_ms: float | None
    mean_ms: float | None

    @property
    def error_rate(self) -> float:
        """Failed calls per call."""
        return self.errors / self.calls if self.calls else 0.0

    @property
    def no_match_rate(self) -> float:
        """Answers with the verdict ``none`` per answer with a verdict."""
        judged = self.strong + self.weak + self.none
        return self.none / judged if judged else 0.0


@dataclass(frozen=True, slots=True)
class SlowCall:
    """One of the slowest calls."""

    duration_ms: float
    timestamp: str
    tool: str
    caller: str
    match: str
    error_type: str
    trace_id: str
    query: str
    query_sha256: str


@dataclass(frozen=True, slots=True)
class Report:
    """All that is said of the records of some files."""

    files: tuple[FileTally, ...]
    total: GroupStats
    tools: tuple[GroupStats, ...]
    days: tuple[GroupStats, ...]
    timeline: tuple[GroupStats, ...]
    timeline_minutes: int
    callers: dict[str, int]
    error_types: dict[str, int]
    input_tokens: int
    output_tokens: int
    calls_with_tokens: int
    slowest: tuple[SlowCall, ...]
    first: str | None
    last: str | None
    timezone: str
    outside_window: int
    exact: bool


class Group:
    """Counts of the calls that share a key."""

    __slots__ = ("calls", "errors", "sketch", "verdicts")

    def __init__(self) -> None:
        self.calls = 0
        self.errors = 0
        self.verdicts = dict.fromkeys(Match, 0)
        self.sketch = Sketch()

    def add(self, duration_ms: float, failed: bool, match: Match | None) -> None:
        """Count one call."""
        self.calls += 1
        if failed:
            self.errors += 1
        if match is not None:
            self.verdicts[match] += 1
        self.sketch.add(duration_ms)

    def merge(self, other: "Group") -> None:
        """Count the calls of another group."""
        self.calls += other.calls
        self.errors += other.errors
        for match, count in other.verdicts.items():
            self.verdicts[match] += count
        self.sketch.merge(other.sketch)

    def stats(self, name: str) -> GroupStats:
        """Return the counts as they stand."""
        sketch = self.sketch
        return GroupStats(
            name,
            self.calls,
            self.errors,
            self.verdicts[Match.STRONG],
            self.verdicts[Match.WEAK],
            self.verdicts[Match.NONE],
            sketch.percentile(0.50),
            sketch.percentile(0.95),
            sketch.percentile(0.99),
            sketch.highest if self.calls else None,
            sketch.total / self.calls if self.calls else None,
        )


class Timeline:
    """Groups by time, as fine as a bounded number of steps over all of it allows."""

    def __init__(self) -> None:
        self.minutes = _WIDTHS[0]
        self.points: dict[int, Group] = {}
        self._first = self._last = 0

    def group(self, minute: int) -> tuple[Group, bool]:
        """Return the group of a minute, and whether older groups were replaced."""
        if not self.points:
            self._first = self._last = minute
        self._first = min(self._first, minute)
        self._last = max(self._last, minute)
        coarsened = False
        while self._last // self.minutes - self._first // self.minutes >= MAX_POINTS:
            self._coarsen()
            coarsened = True
        return self.points.setdefault(minute // self.minutes, Group()), coarsened

    def _coarsen(self) -> None:
        wider = [width for width in _WIDTHS if width > self.minutes]
        width = wider[0] if wider else self.minutes * 2
        merged: dict[int, Group] = {}
        for key, group in self.points.items():
            merged.setdefault(key * self.minutes // width, Group()).merge(group)
        self.minutes, self.points = width, merged


class Summary:
    """
    Takes records in and answers with a ``Report``.

    Without ``by_time`` it has no days and no timeline, and is quicker.
    """

    def __init__(
        self,
        zone: tzinfo = UTC,
        since: datetime | None = None,
        slow_calls: int = 10,
        *,
        by_time: bool = True,
    ) -> None:
        self._zone = zone
        self._since = since.astimezone(UTC).isoformat()[:19] if since else ""
        self._slow_calls = slow_calls
        self._by_time = by_time
        self._tools: dict[str, Group] = {}
        self._days: dict[str, Group] = {}
        self._timeline = Timeline()
        self._slots: dict[str, tuple[Group, ...]] = {}
        self._callers: dict[str, int] = {}
        self._error_types: dict[str, int] = {}
        self._input_tokens = self._output_tokens = self._calls_with_tokens = 0
        self._slowest: list[tuple[float, int, Record]] = []
        self._first = self._last = ""
        self._counted = self._outside_window = 0

    def add(self, record: Record) -> None:
        """Count one record."""
        timestamp, _, duration_ms, failed, attributes, _ = record
        utc = utc_second(timestamp)
        if utc < self._since:
            self._outside_window += 1
            return
        match = _MATCHES.get(str(attributes.get("docs_rag.match")))
        if self._by_time:
            minute = utc[:16]
            for group in self._slots.get(minute) or self._open_slot(minute):
                group.add(duration_ms, failed, match)
        _row(self._tools, record.tool, MAX_ROWS).add(duration_ms, failed, match)
        if utc > self._last:
            self._last = utc
        if utc and (not self._first or utc < self._first):
            self._first = utc
        self._counted += 1
        self._count_attributes(record)
        self._keep_if_slow(record)

    def report(self, files: Iterable[FileTally]) -> Report:
        """Return what the records so far add up to."""
        total = Group()
        for group in self._tools.values():
            total.merge(group)
        width = timedelta(minutes=self._timeline.minutes)
        return Report(
            files=tuple(files),
            total=total.stats("all"),
            tools=_sorted_stats(self._tools),
            days=_sorted_stats(self._days),
            timeline=tuple(
                group.stats((_EPOCH + key * width).isoformat(timespec="minutes"))
                for key, group in sorted(self._timeline.points.items())
            ),
            timeline_minutes=self._timeline.minutes,
            callers=dict(sorted(self._callers.items())),
            error_types=dict(sorted(self._error_types.items())),
            input_tokens=self._input_tokens,
            output_tokens=self._output_tokens,
            calls_with_tokens=self._calls_with_tokens,
            slowest=tuple(
                _slow_call(record) for _, _, record in sorted(self._slowest)[::-1]
            ),
            first=f"{self._first}+00:00" if self._first else None,
            last=f"{self._last}+00:00" if self._last else None,
            timezone=str(self._zone),
            outside_window=self._outside_window,
            exact=total.sketch.exact,
        )

    def _open_slot(self, minute: str) -> tuple[Group, ...]:
        """Return the day and the point that the calls of a minute belong to."""
        local = _local_time(minute, self._zone)
        if local is None:
            return (_row(self._days, UNDATED, MAX_DAYS),)
        day = _row(self._days, local.date().isoformat(), MAX_DAYS)
        point, coarsened = self._timeline.group((local - _EPOCH) // _MINUTE)
        if coarsened or len(self._slots) >= _MAX_SLOTS:
            self._slots.clear()
        self._slots[minute] = day, point
        return day, point

    def _count_attributes(self, record: Record) -> None:
        attributes = record.attributes
        _tally(self._callers, str(attributes.get("docs_rag.caller", "unknown")))
        if record.failed:
            _tally(self._error_types, record.error_type)
        tokens_in = _count(attributes.get("gen_ai.usage.input_tokens"))
        tokens_out = _count(attributes.get("gen_ai.usage.output_tokens"))
        self._input_tokens += tokens_in or 0
        self._output_tokens += tokens_out or 0
        if tokens_in is not None or tokens_out is not None:
            self._calls_with_tokens += 1

    def _keep_if_slow(self, record: Record) -> None:
        slowest, duration_ms = self._slowest, record.duration_ms
        if len(slowest) < self._slow_calls:
            heapq.heappush(slowest, (duration_ms, -self._counted, record))
        elif slowest and duration_ms > slowest[0][0]:
            heapq.heapreplace(slowest, (duration_ms, -self._counted, record))


def summarise(paths: Iterable[Path], summary: Summary) -> Report:
    """Read files one after the other, in the order given, into one report."""
    tallies = []
    for path in paths:
        tally = FileTally(str(path))
        tallies.append(tally)
        for record in read_records(path, tally):
            summary.add(record)
    return summary.report(tallies)


def _local_time(minute: str, zone: tzinfo) -> datetime | None:
    moment = parse_moment(minute)
    try:
        return moment and moment.astimezone(zone).replace(tzinfo=None)
    except OverflowError:
        return None


def _row(table: dict[str, Group], key: str, limit: int) -> Group:
    """Return the group of a key; the one for all others where the table is full."""
    group = table.get(key)
    if group is None:
        key = key if len(table) < limit else OTHERS
        group = table.setdefault(key, Group())
    return group


def _tally(table: dict[str, int], key: str) -> None:
    if key not in table and len(table) >= MAX_ROWS:
        key = OTHERS
    table[key] = table.get(key, 0) + 1


def _count(value: object) -> int | None:
    """Return a token count; what is no such number was not counted."""
    return value if type(value) is int and value >= 0 else None


def _sorted_stats(table: dict[str, Group]) -> tuple[GroupStats, ...]:
    return tuple(group.stats(name) for name, group in sorted(table.items()))


def _slow_call(record: Record) -> SlowCall:
    attributes = record.attributes
    return SlowCall(
        duration_ms=record.duration_ms,
        timestamp=record.timestamp,
        tool=record.tool,
        caller=str(attributes.get("docs_rag.caller", "unknown")),
        match=str(attributes.get("docs_rag.match", "")),
        error_type=record.error_type if record.failed else "",
        trace_id=str(record.fields.get("trace_id", "")),
        query=str(attributes.get("gen_ai.retrieval.query.text", "")),
        query_sha256=str(attributes.get("docs_rag.query.sha256", "")),
    )
