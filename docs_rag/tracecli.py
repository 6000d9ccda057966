"""
The command line of the traces: ``python tracing.py`` and ``docs-rag trace``.

It needs the standard library and the files it is given: no model, no corpus. Output
goes to the streams it is handed, and what went wrong is one line and an exit code.
"""

import argparse
import io
import os
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple, TextIO

from docs_rag.errors import (
    EXIT_DONE,
    EXIT_REFUSED,
    DocsRagError,
    StorageError,
)
from docs_rag.tracecheck import Limits, Prices, violations
from docs_rag.traceexport import Exported, export_file, export_http, parse_headers
from docs_rag.tracefile import replacing
from docs_rag.tracehtml import report_html
from docs_rag.tracemisses import collect_misses
from docs_rag.traceoptions import AS_SET, Action, build_parser, parse
from docs_rag.traceprune import Pruned, prune_directory, prune_file
from docs_rag.tracereader import FileTally, trace_files
from docs_rag.tracesettings import TraceSettings, load_trace_settings
from docs_rag.tracestats import Report, Summary, summarise
from docs_rag.tracetext import (
    check_json,
    check_text,
    misses_json,
    misses_text,
    prune_text,
    report_json,
    report_text,
)
from docs_rag.tracing import printable


class Run(NamedTuple):
    """What a command works with."""

    arguments: argparse.Namespace
    settings: TraceSettings
    stdout: TextIO
    stderr: TextIO
    now: datetime


def main(
    argv: Sequence[str],
    environ: Mapping[str, str],
    stdout: TextIO,
    stderr: TextIO,
    *,
    program: str = "tracing.py",
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> int:
    """Run one trace command and return its exit code."""
    for stream in (stdout, stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        arguments = parse(argv, program)
        if arguments.help:
            stdout.write(build_parser(program).format_help())
            return EXIT_DONE
        settings = load_trace_settings(environ)
        run = Run(arguments, settings, stdout, stderr, clock())
        code = _COMMANDS[arguments.action](run)
        stdout.flush()
    except DocsRagError as error:
        stderr.write(f"{program}: {error}\n")
        return error.exit_code
    except BrokenPipeError:
        # Whoever read our output has left (head, less); nothing is wrong.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stdout.fileno())
        return EXIT_DONE
    return code


def _report(run: Run) -> int:
    report = _summarise(run)
    prices = _prices(run)
    render = report_json if run.arguments.json else report_text
    run.stdout.write(render(report, prices))
    if run.arguments.html:
        page = report_html(report, prices, run.now)
        _write_page(run.arguments.html, page)
        run.stderr.write(f"wrote {run.arguments.html}\n")
    return _say_problems(run, report.files)


def _check(run: Run) -> int:
    arguments = run.arguments
    given = {
        name: value
        for name in ("max_error_rate", "max_p95_ms", "max_no_match_rate")
        if (value := getattr(arguments, name)) is not None
    }
    cost_alert_usd = arguments.cost_alert_usd
    if cost_alert_usd is None:
        cost_alert_usd = run.settings.cost_alert_usd
    limits = Limits(
        **given,
        max_total_tokens=arguments.max_total_tokens,
        cost_alert_usd=cost_alert_usd,
        allow_empty=arguments.allow_empty,
    )
    report = _summarise(run)
    prices = _prices(run)
    violated = bool(violations(report, limits, prices))
    render = check_json if arguments.json else check_text
    if violated or not arguments.quiet:
        run.stdout.write(render(report, limits, prices))
    return EXIT_REFUSED if violated else EXIT_DONE


def _misses(run: Run) -> int:
    arguments = run.arguments
    top = 20 if arguments.top is None else arguments.top
    misses = collect_misses(_files(run), top, _since(run))
    render = misses_json if arguments.json else misses_text
    run.stdout.write(render(misses))
    return _say_problems(run, misses.files)


def _export_otel(run: Run) -> int:
    source, target = map(Path, run.arguments.files)
    exported = export_file(source, target)
    return _say_exported(run, exported, str(target))


def _export_otlp(run: Run) -> int:
    headers = parse_headers(run.settings.export_headers)
    url = run.arguments.export_otlp
    exported = export_http(url, _files(run), headers)
    return _say_exported(run, exported, "the collector")


def _prune(run: Run) -> int:
    arguments = run.arguments
    days = arguments.prune_days
    kept = timedelta(days=run.settings.keep_days if days == AS_SET else days)
    pruned: list[Pruned] = []
    for place in _places(run):
        if place.is_dir():
            pruned += prune_directory(place, run.now - kept)
        elif place.exists() or not arguments.allow_empty:
            pruned.append(prune_file(place, run.now - kept))
    problems = [one for one in pruned if one.problem]
    run.stdout.write(prune_text(problems if arguments.quiet else pruned))
    if not pruned and not arguments.quiet:
        run.stdout.write("no trace files to prune\n")
    return EXIT_REFUSED if problems else EXIT_DONE


_COMMANDS: dict[Action, Callable[[Run], int]] = {
    Action.REPORT: _report,
    Action.CHECK: _check,
    Action.MISSES: _misses,
    Action.EXPORT_OTEL: _export_otel,
    Action.EXPORT_OTLP: _export_otlp,
    Action.PRUNE: _prune,
}


def _summarise(run: Run) -> Report:
    arguments = run.arguments
    since = _since(run)
    if arguments.action is Action.CHECK:
        summary = Summary(since=since, slow_calls=0, by_time=False)
    else:
        top = 10 if arguments.top is None else arguments.top
        summary = Summary(arguments.tz, since, top)
    return summarise(_files(run), summary)


def _files(run: Run) -> list[Path]:
    """Return the files that were named; without a name, all in the trace folder."""
    files: list[Path] = []
    for path in _places(run):
        if path.is_dir() or not run.arguments.files:
            # A pattern that matches nothing is read, and reported, as a missing file.
            files += trace_files(path) or [path / "traces-*.jsonl"]
        else:
            files.append(path)
    return files


def _places(run: Run) -> list[Path]:
    return [Path(name) for name in run.arguments.files] or [run.settings.directory]


def _since(run: Run) -> datetime | None:
    days = run.arguments.window_days
    return None if days is None else run.now - timedelta(days=days)


def _prices(run: Run) -> Prices:
    arguments, prices = run.arguments, run.settings.prices
    into, out = arguments.price_input_per_mtok, arguments.price_output_per_mtok
    return Prices(
        prices.input_per_mtok if into is None else into,
        prices.output_per_mtok if out is None else out,
    )


def _write_page(target: Path, page: str) -> None:
    try:
        with replacing(target) as stream:
            stream.write(page.encode("utf-8", "replace"))
    except OSError as error:
        raise StorageError(
            f"cannot write {target} ({error.strerror}): free the disk, or name another"
        ) from error


def _say_exported(run: Run, exported: Exported, where: str) -> int:
    run.stdout.write(f"{exported.spans:,} spans to {printable(where)}\n")
    if exported.undated:
        run.stderr.write(f"{exported.undated:,} records without a time left out\n")
    if exported.rejected:
        reason = printable(exported.reason) or "no reason given"
        run.stderr.write(f"{exported.rejected:,} spans were rejected: {reason}\n")
    code = _say_problems(run, exported.files)
    return EXIT_REFUSED if exported.rejected else code


def _say_problems(run: Run, files: Sequence[FileTally]) -> int:
    """Name the files that were not read to their end."""
    code = EXIT_DONE
    for tally in files:
        if tally.problem and not (tally.missing and run.arguments.allow_empty):
            run.stderr.write(f"{printable(tally.path)}: {tally.problem}\n")
            code = EXIT_REFUSED
    return code
