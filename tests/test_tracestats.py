"""Rules of adding up: every call counts once, in its day, in bounded memory."""

import json
import tracemalloc
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trace_samples import NOW, make_line, write_lines

from docs_rag.records import Match
from docs_rag.tracereader import parse_record
from docs_rag.tracestats import (
    MAX_DAYS,
    MAX_POINTS,
    MAX_ROWS,
    OTHERS,
    UNDATED,
    Report,
    Summary,
    Timeline,
    summarise,
)


def report_of(lines: Sequence[str], **options: Any) -> Report:
    summary = Summary(**options)
    for line in lines:
        record = parse_record(line.encode())
        assert record is not None
        summary.add(record)
    return summary.report([])


def at(timestamp: str, **changes: Any) -> str:
    record = json.loads(make_line(**changes))
    return json.dumps(record | {"timestamp": timestamp}) + "\n"


def test_calls_errors_and_verdicts_are_counted_per_tool() -> None:
    """Each tool has its calls, errors, verdicts and percentiles; the total has all."""
    lines = [
        *(make_line(duration_ms=n, match="strong") for n in range(1, 101)),
        make_line(duration_ms=200.0, match="none"),
        make_line(duration_ms=300.0, match="weak"),
        make_line(duration_ms=5.0, tool="corpus_status"),
        make_line(**{"error.type": "QueryError"}),
    ]

    report = report_of(lines)

    retrieve = next(tool for tool in report.tools if tool.name == "retrieve")
    assert (retrieve.calls, retrieve.errors) == (103, 1)
    assert (retrieve.strong, retrieve.weak, retrieve.none) == (100, 1, 1)
    assert retrieve.no_match_rate == 1 / 102
    assert (retrieve.p50_ms, retrieve.p95_ms, retrieve.max_ms) == (51.0, 97.0, 300.0)
    assert [tool.name for tool in report.tools] == ["corpus_status", "retrieve"]
    assert report.total.calls == 104 and report.total.error_rate == 1 / 104
    assert report.error_types == {"QueryError": 1}
    assert report.exact


@pytest.mark.parametrize(
    ("zone", "days"),
    [
        (UTC, {"2031-05-20": 2, "2031-05-21": 1}),
        (timezone(timedelta(hours=8)), {"2031-05-20": 1, "2031-05-21": 2}),
        (timezone(timedelta(hours=-7)), {"2031-05-19": 1, "2031-05-20": 2}),
    ],
    ids=str,
)
def test_days_are_those_of_the_zone(zone: tzinfo, days: dict[str, int]) -> None:
    """A call belongs to the day it was in the zone asked for."""
    lines = [
        at("2031-05-20T03:00:00+00:00"),
        at("2031-05-20T23:30:00Z"),
        at("2031-05-21T02:00:00+00:00"),
    ]

    report = report_of(lines, zone=zone)

    assert {day.name: day.calls for day in report.days} == days
    assert report.timezone == str(zone)


def test_times_in_any_form_meet_in_one_day() -> None:
    """Offsets are reckoned with, and what has no time is counted apart."""
    lines = [
        at("2031-05-21T01:00:00+08:00"),
        at("2031-05-20T17:00:00.123456+00:00"),
        at("2031-05-20T17:00:00"),
        at("no time at all"),
        at("2031-13-45T99:00:00Z"),
    ]

    report = report_of(lines)

    assert {day.name: day.calls for day in report.days} == {
        UNDATED: 2,
        "2031-05-20": 3,
    }
    assert report.first == "2031-05-20T17:00:00+00:00"


def test_a_window_leaves_out_what_is_older() -> None:
    """Only records since the given time count; the others are counted as outside."""
    ages = [timedelta(days=n) for n in (0, 6, 8, 300)]
    lines = [make_line(ago=age) for age in ages] + [at("no time")]

    report = report_of(lines, since=NOW - timedelta(days=7))

    assert (report.total.calls, report.outside_window) == (2, 3)


def test_tokens_are_added_where_they_are_counts() -> None:
    """Token counts add up; what is no count is left out."""
    good = {"gen_ai.usage.input_tokens": 100, "gen_ai.usage.output_tokens": 5}
    lines = []
    for tokens in (good, good, {"gen_ai.usage.input_tokens": "many"}, {}):
        record = json.loads(make_line())
        record["attributes"] |= tokens
        lines.append(json.dumps(record))

    report = report_of(lines)

    assert (report.input_tokens, report.output_tokens) == (200, 10)
    assert report.calls_with_tokens == 2


def test_without_times_the_totals_are_the_same() -> None:
    """A check, which needs no days, counts what a report counts."""
    lines = [make_line(match="none", duration_ms=n, ago=timedelta(n)) for n in (3, 5)]

    full, quick = report_of(lines), report_of(lines, by_time=False)

    assert (full.total, full.tools) == (quick.total, quick.tools)
    assert len(full.days) == 2 and quick.days == quick.timeline == ()


def test_the_slowest_calls_are_listed_slowest_first() -> None:
    """As many as asked for, and with none asked for, none."""
    lines = [make_line(duration_ms=n, match="weak") for n in (5, 90, 7, 80, 70, 6)]

    listed = report_of(lines, slow_calls=3).slowest

    assert [call.duration_ms for call in listed] == [90, 80, 70]
    assert (listed[0].tool, listed[0].match) == ("retrieve", "weak")
    assert report_of(lines, slow_calls=0).slowest == ()


@pytest.mark.parametrize("verdict", ["superb", 5, ["none"], {"a": 1}, None])
def test_an_odd_verdict_is_no_verdict(verdict: object) -> None:
    """A verdict that is none of the three is not counted as any."""
    total = report_of([make_line(match=verdict)]).total

    assert (total.calls, total.strong + total.weak + total.none) == (1, 0)


def test_tables_are_bounded() -> None:
    """Rows beyond the bound are gathered in one, and no call is lost."""
    lines = [
        at(
            (datetime(2000, 1, 1) + timedelta(days=n)).isoformat(),
            tool=f"tool{n}",
            caller=f"caller{n}",
        )
        for n in range(MAX_DAYS + 50)
    ]

    report = report_of(lines)

    assert len(report.days) == MAX_DAYS + 1
    assert len(report.tools) == len(report.callers) == MAX_ROWS + 1
    assert OTHERS in report.callers
    for groups in (report.days, report.tools, report.timeline):
        assert sum(group.calls for group in groups) == len(lines)
    assert len(report.timeline) <= MAX_POINTS


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 50_000_000), min_size=1, max_size=400))
def test_the_timeline_stays_bounded_and_complete(minutes: list[int]) -> None:
    """However calls are spread, there are few points and every call is in one."""
    timeline = Timeline()
    for minute in minutes:
        timeline.group(minute)[0].add(1.0, False, Match.STRONG)

    assert len(timeline.points) <= MAX_POINTS
    assert sum(group.calls for group in timeline.points.values()) == len(minutes)
    steps = {minute // timeline.minutes for minute in minutes}
    assert steps == set(timeline.points)
    assert max(steps) - min(steps) < MAX_POINTS


def test_points_after_a_coarsening_are_not_lost() -> None:
    """A call whose point was merged away while cached still reaches the report."""
    lines = [
        at((datetime(2031, 1, 1) + timedelta(minutes=n * 7)).isoformat())
        for n in range(MAX_POINTS * 3)
    ]

    report = report_of(lines + lines)

    assert sum(point.calls for point in report.timeline) == len(lines) * 2
    assert report.timeline_minutes > 1


def test_files_are_added_in_the_order_given(tmp_path: Path) -> None:
    """Several files make one report, with a tally for each."""
    first = write_lines(tmp_path / "b.jsonl", [make_line(), "half a li"])
    second = write_lines(tmp_path / "a.jsonl", [make_line(), make_line()])

    report = summarise([first, second, tmp_path / "none"], Summary())

    assert report.total.calls == 3
    assert [tally.records for tally in report.files] == [1, 2, 0]
    assert report.files[0].partial == 1 and report.files[2].missing


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    """Eight times the records take about the same memory."""
    peaks = []
    for count in (1_500, 12_000):
        step = timedelta(days=14) / count
        path = write_lines(
            tmp_path / "traces-a.jsonl",
            (make_line(ago=step * n, duration_ms=n % 97) for n in range(count)),
        )
        tracemalloc.start()
        summarise([path], Summary())
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()

    assert peaks[1] < peaks[0] * 2 + 5_000_000
