"""
Reports, checks, misses and prunes as text for a terminal and as JSON for a program.

What a record holds is shown with control characters escaped: a trace file is input,
and anyone may have written it.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict

from docs_rag.tracecheck import Finding, Limits, Prices, cost_usd, findings, violations
from docs_rag.tracemisses import Misses
from docs_rag.traceprune import Pruned
from docs_rag.tracereader import FileTally
from docs_rag.tracesketch import EXACT_VALUES, RELATIVE_ERROR
from docs_rag.tracestats import GroupStats, Report, SlowCall
from docs_rag.tracing import printable

_MAX_CHARS = 71  # a digest with its name in front


def report_text(report: Report, prices: Prices) -> str:
    """Return a report to be read."""
    blocks = [
        _overview(report, prices),
        _table(
            ("latency in ms", "calls", "errors", "p50", "p95", "p99", "max"),
            [_latency_row(group) for group in report.tools],
        ),
        _table(
            (f"by day, {report.timezone}", "calls", "errors", "none", "p50", "p95"),
            [_day_row(day) for day in report.days],
        ),
        _table(
            ("slowest, ms", "started", "tool", "caller", "outcome", "query"),
            [_slow_row(call) for call in report.slowest],
        ),
        _files_table(report.files),
        f"percentiles: {percentile_method(report)}\n",
    ]
    return "\n".join(block for block in blocks if block)


def report_json(report: Report, prices: Prices) -> str:
    """Return a report to be parsed."""
    return _json(
        {
            **asdict(report),
            "error_rate": report.total.error_rate,
            "no_match_rate": report.total.no_match_rate,
            "cost_usd": cost_usd(report, prices),
            "percentiles": percentile_method(report),
        }
    )


def check_text(report: Report, limits: Limits, prices: Prices) -> str:
    """Return the violations, or what was measured where there are none."""
    found = violations(report, limits, prices)
    lines = [f"VIOLATION: {printable(sentence)}" for sentence in found]
    measured = [_measured(finding) for finding in findings(report, limits, prices)]
    lines.append(
        f"{_count(len(found), 'violation')} in {_count(report.total.calls, 'call')}: "
        + "; ".join(measured)
    )
    return "\n".join(lines) + "\n"


def check_json(report: Report, limits: Limits, prices: Prices) -> str:
    """Return the violations and every measured value to be parsed."""
    return _json(
        {
            "violations": violations(report, limits, prices),
            "calls": report.total.calls,
            "findings": [
                {**asdict(finding), "violated": finding.violated}
                for finding in findings(report, limits, prices)
            ],
            "files": [asdict(tally) for tally in report.files],
            "percentiles": percentile_method(report),
        }
    )


def misses_text(misses: Misses) -> str:
    """Return the most frequent misses to be read."""
    table = _table(
        ("misses", "none", "weak", "last", "corpus", "query"),
        [
            (
                str(miss.count),
                str(miss.none),
                str(miss.weak),
                miss.last[:19],
                miss.corpus,
                _shorten(miss.query or f"sha256:{miss.query_sha256}"),
            )
            for miss in misses.misses
        ],
    )
    summary = (
        f"{_count(misses.calls, 'miss', 'misses')}, {misses.distinct:,} distinct"
        + (f", {misses.omitted:,} rare ones let go" if misses.omitted else "")
    )
    return f"{table}{summary}\n"


def misses_json(misses: Misses) -> str:
    """Return the most frequent misses to be parsed."""
    rows = [{**asdict(miss), "count": miss.count} for miss in misses.misses]
    return _json({**asdict(misses), "misses": rows})


def prune_text(pruned: Iterable[Pruned]) -> str:
    """Return what became of each file."""
    return "".join(f"{printable(one.path)}: {_pruned(one)}\n" for one in pruned)


def percentile_method(report: Report) -> str:
    """Say how the percentiles of a report were found."""
    if report.exact:
        return "nearest rank, exact"
    return (
        f"nearest rank, within {RELATIVE_ERROR:.0%} "
        f"(exact for rows of up to {EXACT_VALUES:,} calls)"
    )


def _json(value: object) -> str:
    return json.dumps(value, indent=2) + "\n"


def _overview(report: Report, prices: Prices) -> str:
    total = report.total
    judged = total.strong + total.weak + total.none
    facts = {
        "calls": f"{total.calls:,}" + _span(report),
        "errors": _share(total.errors, total.calls) + _breakdown(report.error_types),
        "verdicts": (
            f"strong {_share(total.strong, judged)}, "
            f"weak {_share(total.weak, judged)}, none {_share(total.none, judged)}"
        ),
        "callers": ", ".join(
            f"{printable(name)} {count:,}" for name, count in report.callers.items()
        ),
        "tokens": (
            f"{report.input_tokens:,} in, {report.output_tokens:,} out, counted in "
            f"{_count(report.calls_with_tokens, 'call')}"
        ),
        "cost": _cost(report, prices),
    }
    return "".join(f"{name:<9} {fact}\n" for name, fact in facts.items() if fact)


def _span(report: Report) -> str:
    outside = (
        f" ({report.outside_window:,} more outside the window)"
        if report.outside_window
        else ""
    )
    return f", {report.first} to {report.last}{outside}" if report.first else outside


def _cost(report: Report, prices: Prices) -> str:
    usd = cost_usd(report, prices)
    if usd is None:
        return "unknown without RAG_PRICE_INPUT_PER_MTOK or RAG_PRICE_OUTPUT_PER_MTOK"
    return f"{usd:.6f} USD"


def _share(part: int, whole: int) -> str:
    return f"{part:,} ({part / whole:.1%})" if whole else f"{part:,}"


def _breakdown(counts: dict[str, int]) -> str:
    ranked = sorted(counts.items(), key=lambda item: -item[1])
    shown = ", ".join(f"{printable(name)} {count:,}" for name, count in ranked[:8])
    return f": {shown}" if shown else ""


def _latency_row(group: GroupStats) -> tuple[str, ...]:
    latencies = (group.p50_ms, group.p95_ms, group.p99_ms, group.max_ms)
    counts = (f"{group.calls:,}", f"{group.errors:,}")
    return (group.name, *counts, *map(_ms, latencies))


def _day_row(day: GroupStats) -> tuple[str, ...]:
    counts = (f"{day.calls:,}", f"{day.errors:,}", f"{day.none:,}")
    return (day.name, *counts, _ms(day.p50_ms), _ms(day.p95_ms))


def _slow_row(call: SlowCall) -> tuple[str, ...]:
    return (
        _ms(call.duration_ms),
        call.timestamp[:23],
        call.tool,
        call.caller,
        call.error_type or call.match,
        _shorten(call.query or call.query_sha256[:16]),
    )


def _files_table(files: Sequence[FileTally]) -> str:
    return _table(
        ("files read", "records", "unreadable", "partial", "note"),
        [
            (
                tally.path,
                f"{tally.records:,}",
                f"{tally.unreadable:,}",
                f"{tally.partial:,}",
                tally.problem or ("gzip" if tally.compressed else ""),
            )
            for tally in files
        ],
    )


def _measured(finding: Finding) -> str:
    value = "unknown" if finding.measured is None else f"{finding.measured:.6g}"
    limit = "none" if finding.limit is None else f"{finding.limit:.6g}"
    return f"{printable(finding.subject)} {value}{finding.unit} (limit {limit})"


def _pruned(pruned: Pruned) -> str:
    if pruned.problem:
        return f"left as it was: {pruned.problem}"
    if pruned.deleted:
        return f"removed with its {_count(pruned.removed, 'old line')}"
    return f"{_count(pruned.removed, 'line')} removed, {pruned.kept:,} kept"


def _count(number: int, noun: str, plural: str | None = None) -> str:
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f}"


def _shorten(text: str) -> str:
    return text if len(text) <= _MAX_CHARS else f"{text[: _MAX_CHARS - 1]}…"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Align columns: the first to the left, numbers to the right."""
    if not rows:
        return ""
    cells = [[printable(cell) for cell in row] for row in rows]
    columns = list(zip(head, *cells, strict=True))
    widths = [max(map(len, column)) for column in columns]
    numeric = [
        all(cell[:1] in "0123456789-" for cell in column[1:]) and index > 0
        for index, column in enumerate(columns)
    ]
    lines = [
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        ).rstrip()
        for row in (list(head), *cells)
    ]
    return "\n".join(lines) + "\n"
