"""
Thresholds that turn a regression into a failing command.

Pure: a report and limits go in, sentences come out. A limit is broken by going over
it, not by reaching it. Reading nothing is a violation too, for a silent recorder looks
like a healthy service.
"""

from dataclasses import dataclass

from docs_rag.tracestats import GroupStats, Report

_TOKENS_PER_MTOK = 1_000_000


@dataclass(frozen=True, slots=True)
class Prices:
    """US dollars per million tokens; None where no price is known."""

    input_per_mtok: float | None = None
    output_per_mtok: float | None = None

    @property
    def known(self) -> bool:
        """Whether there is any price to reckon with."""
        return self.input_per_mtok is not None or self.output_per_mtok is not None


@dataclass(frozen=True, slots=True)
class Limits:
    """What may be; None is no limit. Rates are shares between 0 and 1."""

    max_error_rate: float = 0.2
    max_p95_ms: float = 5000.0
    max_no_match_rate: float | None = None
    max_total_tokens: int | None = None
    cost_alert_usd: float | None = None
    allow_empty: bool = False


@dataclass(frozen=True, slots=True)
class Finding:
    """One measured value beside its limit."""

    subject: str
    measured: float | None
    limit: float | None
    unit: str = ""

    @property
    def violated(self) -> bool:
        """Whether the value was measured and is over its limit."""
        return (
            self.limit is not None
            and self.measured is not None
            and self.measured > self.limit
        )


def cost_usd(report: Report, prices: Prices) -> float | None:
    """Return what the tokens cost, None without a price."""
    if not prices.known:
        return None
    input_usd = report.input_tokens * (prices.input_per_mtok or 0.0)
    output_usd = report.output_tokens * (prices.output_per_mtok or 0.0)
    return (input_usd + output_usd) / _TOKENS_PER_MTOK


def findings(report: Report, limits: Limits, prices: Prices) -> list[Finding]:
    """Return every value that has a limit, or could have one."""
    total = report.total
    tokens = report.input_tokens + report.output_tokens
    return [
        Finding("error rate", total.error_rate, limits.max_error_rate),
        *(_slowness(tool, limits) for tool in report.tools),
        Finding("no-match rate", total.no_match_rate, limits.max_no_match_rate),
        Finding("tokens", tokens, limits.max_total_tokens),
        Finding("cost", cost_usd(report, prices), limits.cost_alert_usd, " USD"),
    ]


def violations(report: Report, limits: Limits, prices: Prices) -> list[str]:
    """Return what is wrong, one sentence each; nothing if all is well."""
    found = list(_unread(report, limits))
    if not report.total.calls and not limits.allow_empty and not found:
        found.append(
            "no record lies in the window: is the service up, and does it trace here?"
        )
    if limits.cost_alert_usd is not None and not prices.known:
        found.append("the cost has a limit but the tokens have no price")
    found += [
        f"{finding.subject} is {finding.measured:.6g}{finding.unit}, "
        f"over the limit of {finding.limit:.6g}{finding.unit}"
        for finding in findings(report, limits, prices)
        if finding.violated
    ]
    return found


def _slowness(tool: GroupStats, limits: Limits) -> Finding:
    return Finding(f"p95 of {tool.name}", tool.p95_ms, limits.max_p95_ms, " ms")


def _unread(report: Report, limits: Limits) -> list[str]:
    """Say which files gave nothing, or not all."""
    found = []
    for tally in report.files:
        if tally.missing and limits.allow_empty:
            continue
        if tally.problem:
            found.append(f"{tally.path}: {tally.problem}")
        elif not tally.records and not limits.allow_empty:
            lines = tally.unreadable + tally.partial
            what = f"none of its {lines} lines is a record" if lines else "is empty"
            found.append(f"{tally.path}: {what}")
    return found
