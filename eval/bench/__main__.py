"""
Everything that docs-rag claims of its speed and size, measured here and now.

usage: python -m eval.bench [--quick | --full] [--sections query,size]
                            [--json OUT] [--markdown OUT]
"""

import argparse
import importlib
import os
import shlex
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from eval.bench.chart import log_chart
from eval.bench.figures import Bench, Section
from eval.bench.machine import describe
from eval.bench.processes import ROOT, say
from eval.bench.query import GROWTH
from eval.bench.report import as_json, as_markdown, find_table, missed

# In the order of the report; each is a module here with ``measure``.
SECTIONS = (
    "throughput",
    "refresh",
    "query",
    "memory",
    "start",
    "load",
    "size",
    "peers",
)
# Where indexes are kept from run to run: writing the largest takes a while.
DEFAULT_WORK = ROOT / "eval" / ".work" / "bench"
_CHART_SERIES = ("vector", "words", "trigrams", "fetch", "fuse", "total")
# A clock's last digit: a logarithm has no zero.
_LEAST_MS = 0.001


def main(words: Sequence[str] | None = None) -> int:
    """Run the benchmark and return 1 where a part of it failed."""
    arguments = _parser().parse_args(words)
    given = sys.argv[1:] if words is None else words
    command = shlex.join(["python", "-m", "eval.bench", *given])
    bench = Bench(
        is_full=arguments.full,
        work=arguments.work.resolve(),
        repeats=arguments.repeats or (5 if arguments.full else 3),
        say=say,
        given_sizes=arguments.sizes,
    )
    bench.work.mkdir(parents=True, exist_ok=True)
    machine = describe()
    sections, failed = [], []
    for name in arguments.sections:
        started = time.monotonic()
        say(f"== {name}")
        try:
            sections.append(_measured(name, bench))
        except Exception as error:
            # What took an hour before it is not thrown away for one part.
            problem = f"{type(error).__name__}: {error}"
            say(f"{name} failed: {problem}")
            sections.append(Section(name, notes=(f"Not measured: {problem}",)))
            failed.append(name)
        say(f"== {name}: {time.monotonic() - started:.0f} s")
    for figure in missed(sections):
        say(f"MISSED: {figure.name}")
    write(arguments, sections, machine, command)
    return 1 if failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m eval.bench", allow_abbrev=False)
    extent = parser.add_mutually_exclusive_group()
    extent.add_argument("--quick", action="store_true", help="minutes (the default)")
    extent.add_argument("--full", action="store_true", help="an hour, up to 1M chunks")
    parser.add_argument(
        "--sections",
        type=_names,
        default=SECTIONS,
        metavar="A,B",
        help=f"parts to measure, of {', '.join(SECTIONS)} (default: all)",
    )
    for name, what in (("--json", "everything"), ("--markdown", "a report")):
        parser.add_argument(
            name, type=_target, metavar="OUT", help=f"{what}; - for stdout"
        )
    parser.add_argument(
        "--work",
        type=Path,
        default=DEFAULT_WORK,
        metavar="DIR",
        help="where indexes are kept from run to run (default: %(default)s)",
    )
    parser.add_argument("--repeats", type=_count, metavar="N", help="of each timing")
    parser.add_argument("--sizes", type=_sizes, default=(), help=argparse.SUPPRESS)
    return parser


def _names(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    unknown = [name for name in names if name not in SECTIONS]
    if unknown:
        raise argparse.ArgumentTypeError(
            f"{', '.join(unknown)} is unknown: use {', '.join(SECTIONS)}"
        )
    return names


def _target(text: str) -> str:
    """Refuse before the run what could not be written after it."""
    if text == "-":
        return text
    if Path(text).is_dir():
        raise argparse.ArgumentTypeError(f"{text} is a folder: name a file in it")
    if not os.access(Path(text).resolve().parent, os.W_OK):
        raise argparse.ArgumentTypeError(
            f"{text}: its folder does not exist or is not writable"
        )
    return text


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: give a number of 1 or more")
    return int(text)


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(sorted(map(_count, text.split(","))))


def _measured(name: str, bench: Bench) -> Section:
    section = importlib.import_module(f"eval.bench.{name}").measure(bench)
    if not isinstance(section, Section):
        raise TypeError(f"eval.bench.{name}.measure returned no Section")
    return section


def write(
    arguments: argparse.Namespace,
    sections: Sequence[Section],
    machine: dict[str, object],
    command: str,
) -> None:
    """Write the reports that were asked for; without one, the Markdown is printed."""
    chart = _chart(sections)
    target = arguments.markdown or (None if arguments.json else "-")
    if arguments.json:
        _put(arguments.json, as_json(sections, machine, command))
    if target is None:
        return
    picture = (
        None if target == "-" or chart is None else Path(target).with_suffix(".svg")
    )
    if picture is not None and chart is not None:
        _put(str(picture), chart)
    name = picture.name if picture else None
    _put(target, as_markdown(sections, machine, command, name))


def _chart(sections: Sequence[Section]) -> str | None:
    table = find_table(sections, GROWTH)
    if table is None:
        return None
    series = {
        column: [
            (float(str(row[0])), max(_LEAST_MS, float(str(row[place]))))
            for row in table.rows
        ]
        for place, column in enumerate(table.columns)
        if column in _CHART_SERIES
    }
    return log_chart(
        "Time of a question by stage (p50)", "chunks in the corpus", "ms", series
    )


def _put(target: str, text: str) -> None:
    """Write a whole file or none: an interrupted run leaves the last report."""
    if target == "-":
        sys.stdout.write(text)
        return
    path = Path(target)
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", dir=path.parent, prefix=f".{path.name}.", delete=False
    ) as stream:
        try:
            stream.write(text)
            stream.flush()
            os.chmod(stream.name, 0o644)
            os.replace(stream.name, path)
        except BaseException:
            os.unlink(stream.name)
            raise


if __name__ == "__main__":
    sys.exit(main())
