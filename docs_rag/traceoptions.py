"""
The arguments of the trace commands.

One action a run; an option that the action has no use for is an error rather than
ignored, because a limit that is not looked at is worse than none.
"""

import argparse
import enum
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn, TypeVar

from datetime import UTC

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
    "allow_empty": (*_READERS, Action.EXPORT_OTLP),
}
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
