"""
A report as one page to look at: no scripts, and nothing is loaded from anywhere.

Everything that comes out of a record is escaped; a content policy forbids the page
what it does not need, in case something was missed.
"""

from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta

from docs_rag.tracecharts import (
    MAX_BARS,
    escape,
    latency_chart,
    verdict_chart,
    volume_chart,
)
from docs_rag.tracecheck import Prices, cost_usd
from docs_rag.tracestats import OTHERS, UNDATED, Group, GroupStats, Report
from docs_rag.tracetext import percentile_method

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_NO_CALLS = "No calls."
_STYLE = """
:root { color-scheme: light dark; --page: #fff; --card: #f6f8fa; --text: #1f2328;
  --muted: #59636e; --line: #d1d9e0; --p50: #0969da; --p95: #bc4c00;
  --calls: #54aeff; --errors: #cf222e; --strong: #2da44e; --weak: #d4a72c;
  --none: #8c959f; }
@media (prefers-color-scheme: dark) {
  :root { --page: #0d1117; --card: #151b23; --text: #f0f6fc; --muted: #9198a1;
    --line: #3d444d; --p50: #58a6ff; --p95: #f0883e; --calls: #1f6feb;
    --errors: #f85149; --strong: #3fb950; --weak: #d29922; --none: #6e7681; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 24px; max-width: 1080px; background: var(--page);
  color: var(--text); font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 24px; margin: 0; }
h2 { font-size: 16px; margin: 0 0 8px; }
p { margin: 4px 0; }
.muted { color: var(--muted); }
.cards { display: grid; gap: 12px; margin: 20px 0;
  grid-template-columns: repeat(auto-fit, minmax(112px, 1fr)); }
.card, section { background: var(--card); border: 1px solid var(--line);
  border-radius: 8px; padding: 12px 16px; }
.card b { display: block; font-size: 20px; font-weight: 600; }
section { margin: 0 0 16px; overflow-x: auto; }
.pair { display: grid; gap: 0 16px;
  grid-template-columns: repeat(auto-fit, minmax(min(440px, 100%), 1fr)); }
svg { display: block; width: 100%; min-width: 440px; height: auto; }
.p50 { color: var(--p50); } .p95 { color: var(--p95); }
.calls { color: var(--calls); } .errors { color: var(--errors); }
.strong { color: var(--strong); } .weak { color: var(--weak); }
.none { color: var(--none); }
rect, circle { fill: currentColor; }
.line { fill: none; stroke: currentColor; stroke-width: 2; }
.grid { stroke: var(--line); }
.axis { fill: var(--muted); font-size: 12px; }
.key { display: inline-block; width: 12px; height: 12px; margin: 0 4px 0 12px;
  background: currentColor; }
.key:first-child { margin-left: 0; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: 4px 10px; text-align: right; white-space: nowrap;
  border-bottom: 1px solid var(--line); }
th { color: var(--muted); font-weight: 500; }
.text { text-align: left; }
.long { white-space: normal; overflow-wrap: anywhere; min-width: 200px; }
.code { font: 13px/1.5 ui-monospace, monospace; }
.hover { fill: transparent; }
.hover:hover { fill: color-mix(in srgb, var(--text) 12%, transparent); }
summary { cursor: pointer; font-weight: 600; }
"""


def report_html(report: Report, prices: Prices, now: datetime) -> str:
    """Return the whole page."""
    shown = _every_day(report.days)[-MAX_BARS:]
    body = [
        _header(report, now),
        _cards(report, prices),
        _section(
            "Latency over time",
            _legend({"p50": "p50", "p95": "p95 (ms)"}),
            latency_chart(report.timeline, report.timeline_minutes)
            + _note(f"Each point spans {_span(report.timeline_minutes)}.")
            if report.timeline
            else _note(_NO_CALLS),
        ),
        '<div class="pair">',
        _section(
            "Calls and errors per day",
            _legend({"calls": "calls", "errors": "of them errors"}),
            volume_chart(shown) if shown else _note(_NO_CALLS),
        ),
        _section(
            "Verdicts per day",
            _legend(_verdict_labels(report.total)),
            verdict_chart(shown) if shown else _note(_NO_CALLS),
        ),
        "</div>",
        _section("Latency by tool, ms", _tools_table(report.tools)),
        _section("Slowest calls", _slowest_table(report)),
        _section("Errors by type", _errors_table(report)) if report.error_types else "",
        _details("Every day, latency in ms", _days_table(report.days)),
        _details("Files read", _files_table(report)),
        _note(f"Percentiles: {percentile_method(report)}. Failed calls are included."),
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>docs-rag traces</title><style>{_STYLE}</style></head><body>\n"
        + "\n".join(part for part in body if part)
        + "\n</body></html>\n"
    )


def _every_day(days: Sequence[GroupStats]) -> list[GroupStats]:
    """Return a row for each day from the first to the last: no call is news, too."""
    known = {day.name: day for day in days if day.name not in (OTHERS, UNDATED)}
    if not known:
        return []
    last = date.fromisoformat(max(known))
    first = max(date.fromisoformat(min(known)), last - timedelta(days=MAX_BARS))
    names = [
        (first + timedelta(days=offset)).isoformat()
        for offset in range((last - first).days + 1)
    ]
    return [known.get(name) or Group().stats(name) for name in names]


def _header(report: Report, now: datetime) -> str:
    period = (
        f"{_minute(report.first)} to {_minute(report.last or report.first)} UTC"
        if report.first
        else "no dated record"
    )
    return (
        f'<h1>docs-rag traces</h1><p class="muted">{escape(period)}. '
        f"Days in {escape(report.timezone)}. "
        f"Made {_minute(now.isoformat())} UTC.</p>"
    )


def _cards(report: Report, prices: Prices) -> str:
    total = report.total
    usd = cost_usd(report, prices)
    cards = {
        "calls": f"{total.calls:,}",
        "errors": f"{total.error_rate:.1%}",
        "no match": f"{total.no_match_rate:.1%}",
        "p50, ms": _ms(total.p50_ms),
        "p95, ms": _ms(total.p95_ms),
        "p99, ms": _ms(total.p99_ms),
        "tokens": f"{report.input_tokens + report.output_tokens:,}",
        "cost, USD": "–" if usd is None else f"{usd:,.4f}",
    }
    shown = "".join(
        f'<div class="card"><b>{escape(value)}</b>{label}</div>'
        for label, value in cards.items()
    )
    return f'<div class="cards">{shown}</div>'


def _verdict_labels(total: GroupStats) -> dict[str, str]:
    counts = {"strong": total.strong, "weak": total.weak, "none": total.none}
    judged = sum(counts.values())
    return {
        css: f"{css} {count / judged:.1%}" if judged else css
        for css, count in counts.items()
    }


def _tools_table(tools: Sequence[GroupStats]) -> str:
    head = ("tool", "calls", "errors", "p50", "p95", "p99", "max", "mean")
    return _table(
        head,
        [
            (tool.name, f"{tool.calls:,}", f"{tool.errors:,}", *map(_ms, _ranks(tool)))
            for tool in tools
        ],
        {0: "text"},
    )


def _slowest_table(report: Report) -> str:
    head = ("ms", "started, UTC", "tool", "caller", "outcome", "query", "trace")
    return _table(
        head,
        [
            (
                f"{call.duration_ms:,.1f}",
                call.timestamp[:19].replace("T", " "),
                call.tool,
                call.caller,
                call.error_type or call.match,
                call.query[:200] or call.query_sha256[:16],
                call.trace_id,
            )
            for call in report.slowest
        ],
        dict.fromkeys(range(1, 5), "text") | {5: "text long", 6: "text code"},
    )


def _errors_table(report: Report) -> str:
    ranked = sorted(report.error_types.items(), key=lambda item: -item[1])
    return _table(
        ("type", "calls"),
        [(name, f"{count:,}") for name, count in ranked],
        {0: "text"},
    )


def _days_table(days: Sequence[GroupStats]) -> str:
    return _table(
        ("day", "calls", "errors", "strong", "weak", "none", "p50", "p95", "p99"),
        [
            (
                day.name,
                *(f"{n:,}" for n in (day.calls, day.errors)),
                *(f"{n:,}" for n in (day.strong, day.weak, day.none)),
                *map(_ms, (day.p50_ms, day.p95_ms, day.p99_ms)),
            )
            for day in days
        ],
        {0: "text"},
    )


def _files_table(report: Report) -> str:
    return _table(
        ("file", "records", "unreadable", "partial", "note"),
        [
            (
                tally.path,
                f"{tally.records:,}",
                f"{tally.unreadable:,}",
                f"{tally.partial:,}",
                tally.problem or ("gzip" if tally.compressed else ""),
            )
            for tally in report.files
        ],
        {0: "text long", 4: "text"},
    )


def _ranks(group: GroupStats) -> tuple[float | None, ...]:
    return group.p50_ms, group.p95_ms, group.p99_ms, group.max_ms, group.mean_ms


def _table(
    head: Sequence[str], rows: Iterable[Sequence[str]], styles: dict[int, str]
) -> str:
    """Return a table; ``styles`` names the classes of columns that are no numbers."""

    def line(cells: Sequence[str], tag: str) -> str:
        return "".join(
            f'<{tag} class="{styles.get(index, "")}">{escape(cell)}</{tag}>'
            for index, cell in enumerate(cells)
        )

    body = "".join(f"<tr>{line(row, 'td')}</tr>" for row in rows)
    return (
        f"<table><thead><tr>{line(head, 'th')}</tr></thead>"
        f"<tbody>{body}</tbody></table>"
    )


def _legend(labels: dict[str, str]) -> str:
    keys = "".join(
        f'<span class="key {css}"></span>{escape(label)}'
        for css, label in labels.items()
    )
    return f'<p class="muted">{keys}</p>'


def _section(title: str, *parts: str) -> str:
    shown = "".join(parts)
    return f"<section><h2>{title}</h2>{shown}</section>"


def _details(title: str, content: str) -> str:
    return f"<section><details><summary>{title}</summary>{content}</details></section>"


def _note(text: str) -> str:
    return f'<p class="muted">{escape(text)}</p>'


def _span(minutes: int) -> str:
    for size, unit in ((1_440, "day"), (60, "hour"), (1, "minute")):
        if minutes % size == 0:
            number = minutes // size
            return f"{number} {unit}s" if number > 1 else f"one {unit}"
    return f"{minutes} minutes"


def _minute(timestamp: str) -> str:
    return timestamp[:16].replace("T", " ")


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f}"
