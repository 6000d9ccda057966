"""Rules of the gate: over a limit is a violation, at the limit is not."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from trace_samples import NOW, make_line, write_lines

from docs_rag.tracecheck import Limits, Prices, cost_usd, violations
from docs_rag.tracestats import Report, Summary, summarise


def report_of(tmp_path: Path, *lines: str) -> Report:
    path = write_lines(tmp_path / "traces-a.jsonl", lines)
    return summarise([path], Summary())


def mixed(errors: int, none: int, answered: int) -> list[str]:
    return [
        *(make_line(**{"error.type": "QueryError"}) for _ in range(errors)),
        *(make_line(match="none") for _ in range(none)),
        *(make_line(match="strong", duration_ms=1000.0) for _ in range(answered)),
    ]


@pytest.mark.parametrize(
    ("limits", "broken"),
    [
        (Limits(), None),
        (Limits(max_error_rate=0.1), None),
        (Limits(max_error_rate=0.09), "error rate is 0.1, over the limit of 0.09"),
        (Limits(max_p95_ms=1000), None),
        (Limits(max_p95_ms=999), "p95 of retrieve is 1000 ms"),
        (Limits(max_no_match_rate=0.5), None),
        (Limits(max_no_match_rate=0.1), "no-match rate is 0.111111"),
        (Limits(max_total_tokens=0), None),
        (Limits(max_error_rate=0.0), "error rate"),
    ],
    ids=str,
)
def test_only_what_is_over_its_limit_is_violated(
    limits: Limits, broken: str | None, tmp_path: Path
) -> None:
    """Reaching a limit is allowed; going over it is one sentence with both numbers."""
    report = report_of(tmp_path, *mixed(errors=1, none=1, answered=8))

    found = violations(report, limits, Prices())

    assert [broken in sentence for sentence in found] == [True] * bool(broken)


def test_tokens_and_cost_have_limits(tmp_path: Path) -> None:
    """Tokens cost what the prices say, by side, and both can be limited."""
    line = make_line().replace(
        '"attributes": {',
        '"attributes": {"gen_ai.usage.input_tokens": 1000000,'
        '"gen_ai.usage.output_tokens": 500000,',
    )
    report = report_of(tmp_path, line, line)
    prices = Prices(input_per_mtok=2.0, output_per_mtok=10.0)

    assert cost_usd(report, prices) == 2 * (2.0 + 5.0)
    assert cost_usd(report, Prices(output_per_mtok=10.0)) == 10.0
    assert cost_usd(report, Prices()) is None
    limits = Limits(max_total_tokens=2_999_999, cost_alert_usd=13.99)
    found = violations(report, limits, prices)
    assert ["tokens" in found[0], "cost is 14 USD" in found[1]] == [True, True]
    at_limit = Limits(max_total_tokens=3_000_000, cost_alert_usd=14.0)
    assert violations(report, at_limit, prices) == []


def test_a_cost_limit_without_prices_is_a_violation(tmp_path: Path) -> None:
    """What cannot be reckoned is not taken to be within its limit."""
    report = report_of(tmp_path, make_line())

    (sentence,) = violations(report, Limits(cost_alert_usd=1.0), Prices())

    assert "no price" in sentence


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "no such file"),
        ("", "is empty"),
        ("\n\n", "is empty"),
        ("garbage\n{}\nhalf", "none of its 3 lines is a record"),
    ],
    ids=["missing", "empty", "blank", "garbage"],
)
def test_reading_nothing_is_a_violation(
    content: str | None, words: str, tmp_path: Path
) -> None:
    """A file without a record is named, unless empty ones were allowed."""
    path = tmp_path / "traces-a.jsonl"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    other = write_lines(tmp_path / "traces-b.jsonl", [make_line()])
    report = summarise([path, other], Summary())

    (sentence,) = violations(report, Limits(), Prices())

    assert str(path) in sentence and words in sentence
    assert violations(report, Limits(allow_empty=True), Prices()) == []


def test_a_damaged_file_is_a_violation_even_where_empty_ones_are_not(
    tmp_path: Path,
) -> None:
    """Allowing empty files does not allow unreadable ones."""
    path = tmp_path / "traces-a.jsonl.gz"
    path.write_bytes(b"\x1f\x8b\x08damaged")

    found = violations(summarise([path], Summary()), Limits(allow_empty=True), Prices())

    assert len(found) == 1 and str(path) in found[0]


@pytest.mark.parametrize("options", [{}, {"allow_empty": True}], ids=str)
def test_a_window_without_records_is_a_violation(
    options: dict[str, Any], tmp_path: Path
) -> None:
    """Records that are all outside the window are as good as none."""
    path = write_lines(tmp_path / "traces-a.jsonl", [make_line(ago=timedelta(days=30))])
    report = summarise([path], Summary(since=NOW - timedelta(days=7)))

    found = violations(report, Limits(**options), Prices())

    assert bool(found) == (not options)
