"""
The arguments of the trace commands.

One action a run; an option that the action has no use for is an error rather than
ignored, because a limit that is not looked at is worse than none.
"""

import argparse
import enum
from collections.abc import Callable, Sequence
from datetime import UTC
from pathlib import Path
from typing import NoReturn, TypeVar

from docs_rag.errors import ConfigError
from docs_rag.tracecheck import Limits
from docs_rag.tracesettings import DEFAULT_KEEP_DAYS, days, number, share, whole, zone

_DESCRIPTION = """\
Report on, check, export and prune the traces of docs-rag.

Every call leaves one JSON record in traces-<corpus>.jsonl and one line in
queries-<corpus>.log, in RAG_TRACE_DIR (default RAG_DIR/logs). FILES may be plain or
gzip, folders are searched for trace files, and without FILES the trace folder is."""

_EXAMPLES = """\
examples:
  %(prog)s --report logs/traces-book.jsonl
  %(prog)s --report logs/ --html report.html --tz Asia/Taipei --window-days 28
  %(prog)s --check logs/traces-*.jsonl
  %(prog)s --check logs/traces-*.jsonl --max-error-rate 0.1 --max-p95-ms 3000
  %(prog)s --misses logs/ --top 50 --json
  %(prog)s --export-otel logs/traces-book.jsonl spans.jsonl
  %(prog)s --export-otlp http://127.0.0.1:4318 logs/
  %(prog)s --prune-days 14

exit codes:
  0 done, no violation    1 violated, or not all could be done    2 wrong usage"""


class Action(enum.StrEnum):
    """What to do with the traces."""

    REPORT = "--report"
    CHECK = "--check"
    MISSES = "--misses"
    EXPORT_OTEL = "--export-otel"
    EXPORT_OTLP = "--export-otlp"
    PRUNE = "--prune-days"


_READERS = (Action.REPORT, Action.CHECK, Action.MISSES)
# Which actions make use of an option, by its name in the namespace.
_USES: dict[str, tuple[Action, ...]] = {
    "json": _READERS,
    "quiet": (Action.CHECK, Action.PRUNE),
    "window_days": _READERS,
    "html": (Action.REPORT,),
    "tz": (Action.REPORT,),
    "top": (Action.REPORT, Action.MISSES),
    "max_error_rate": (Action.CHECK,),
    "max_p95_ms": (Action.CHECK,),
    "max_no_match_rate": (Action.CHECK,),
    "max_total_tokens": (Action.CHECK,),
    "cost_alert_usd": (Action.CHECK,),
    "price_input_per_mtok": (Action.REPORT, Action.CHECK),
    "price_output_per_mtok": (Action.REPORT, Action.CHECK),
    "allow_empty": (*_READERS, Action.EXPORT_OTLP, Action.PRUNE),
}
# What --prune-days means without a number: as long as the settings say.
AS_SET = -1.0
_LIMITS = Limits()
_Value = TypeVar("_Value")


class _Parser(argparse.ArgumentParser):
    """Raises where its base prints and exits."""

    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{message}; see {self.prog} --help")


def parse(argv: Sequence[str], program: str) -> argparse.Namespace:
    """Return the arguments; ``action`` says which one was asked for."""
    parser = build_parser(program)
    arguments = parser.parse_intermixed_args(argv)
    if arguments.help:
        return arguments
    chosen = [action for action in Action if _given(arguments, _attribute(action))]
    if len(chosen) != 1:
        raise ConfigError(f"choose one action\n{parser.format_usage().rstrip()}")
    arguments.action = chosen[0]
    for option, uses in _USES.items():
        if _given(arguments, option) and chosen[0] not in uses:
            flag = f"--{option.replace('_', '-')}"
            parser.error(f"{chosen[0]} has no use for {flag}")
    if chosen[0] is Action.EXPORT_OTEL and len(arguments.files) != 2:
        parser.error("--export-otel takes two files: IN OUT")
    if not _given(arguments, "tz"):
        arguments.tz = UTC
    return arguments


def build_parser(program: str) -> argparse.ArgumentParser:
    """Return the parser; it neither prints nor exits."""
    parser = _Parser(
        prog=program,
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        add_help=False,
        allow_abbrev=False,
    )
    parser.add_argument("files", metavar="FILES", nargs="*", help="trace files")
    _add_actions(parser.add_argument_group("actions, one of"))
    _add_options(parser.add_argument_group("options"))
    _add_limits(parser.add_argument_group("limits of --check"))
    _add_prices(parser.add_argument_group("prices, for the cost"))
    return parser


def _add_actions(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--report", action="store_true", help="calls, errors, latency, tokens, cost"
    )
    group.add_argument(
        "--check", action="store_true", help="list what is over its limit, exit 1"
    )
    group.add_argument(
        "--misses",
        action="store_true",
        help="queries answered none or weak, most frequent first",
    )
    group.add_argument(
        "--export-otel",
        action="store_true",
        help="IN OUT: write the records of IN to OUT as OTLP JSON lines",
    )
    group.add_argument(
        "--export-otlp",
        metavar="URL",
        help="post the records to an OpenTelemetry collector, OTLP over HTTP",
    )
    group.add_argument(
        "--prune-days",
        metavar="N",
        nargs="?",
        type=_checked(days),
        const=AS_SET,
        help="remove what is older than N days (default: RAG_TRACE_KEEP_DAYS, "
        f"{DEFAULT_KEEP_DAYS})",
    )


def _add_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument("-h", "--help", action="store_true", help="show this and exit")
    group.add_argument("--json", action="store_true", help="print JSON")
    group.add_argument(
        "-q", "--quiet", action="store_true", help="print only what is wrong, for cron"
    )
    group.add_argument(
        "--html", metavar="OUT", type=Path, help="write the report as a page, too"
    )
    group.add_argument(
        "--tz",
        metavar="ZONE",
        type=_checked(zone),
        help="whose days to group by: Asia/Taipei, --tz=-05:00, local (default UTC)",
    )
    group.add_argument(
        "--window-days",
        metavar="N",
        type=_checked(days),
        help="leave out what is older than N days",
    )
    group.add_argument(
        "--top", metavar="N", type=_checked(whole), help="rows of slow calls or misses"
    )
    group.add_argument(
        "--allow-empty",
        action="store_true",
        help="a missing or empty file is nothing wrong",
    )


def _add_limits(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--max-error-rate",
        metavar="SHARE",
        type=_checked(share),
        help=f"failed calls per call (default {_LIMITS.max_error_rate:g})",
    )
    group.add_argument(
        "--max-p95-ms",
        metavar="MS",
        type=_checked(number),
        help=f"95th percentile of each tool (default {_LIMITS.max_p95_ms:g})",
    )
    group.add_argument(
        "--max-no-match-rate",
        metavar="SHARE",
        type=_checked(share),
        help="answers that say none per answer (default: no limit)",
    )
    group.add_argument(
        "--max-total-tokens",
        metavar="N",
        type=_checked(whole),
        help="input and output tokens together (default: no limit)",
    )
    group.add_argument(
        "--cost-alert-usd",
        metavar="USD",
        type=_checked(number),
        help="cost (default: RAG_COST_ALERT_USD, else no limit)",
    )


def _add_prices(group: argparse._ArgumentGroup) -> None:
    for side in ("input", "output"):
        group.add_argument(
            f"--price-{side}-per-mtok",
            metavar="USD",
            type=_checked(number),
            help=f"a million {side} tokens "
            f"(default: RAG_PRICE_{side.upper()}_PER_MTOK)",
        )


def _checked(read: Callable[[str], _Value]) -> Callable[[str], _Value]:
    """Let argparse show the message of a reader."""

    def read_argument(text: str) -> _Value:
        try:
            return read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return read_argument


def _attribute(action: Action) -> str:
    return action.value.removeprefix("--").replace("-", "_")


def _given(arguments: argparse.Namespace, name: str) -> bool:
    value = getattr(arguments, name)
    return value is not None and value is not False
