"""
What an operator runs: index, refresh, watch, snapshot, restore, doctor.

Each takes the parsed arguments and the settings, writes to the console it is given and
returns an exit code.
"""

import argparse
import contextlib
import dataclasses
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TextIO

from docs_rag.backup import Snapshot, restore_snapshot, take_snapshot
from docs_rag.config import Settings
from docs_rag.corpora import Corpus
from docs_rag.doctor import Finding, examine, require_corpus
from docs_rag.embedders import embedder_for
from docs_rag.errors import EXIT_DONE, EXIT_REFUSED, ConfigError
from docs_rag.filesystem import network_warning
from docs_rag.indexer import IndexOptions, Progress, index_corpus
from docs_rag.progress import ProgressMeter
from docs_rag.records import Embedder, IndexReport
from docs_rag.refreshing import refresh
from docs_rag.rendering import json_for, report_as_json, report_as_text, warnings_of
from docs_rag.watching import Watch


@dataclass(frozen=True, slots=True)
class _Console:
    """Where results go, and where everything else does."""

    out: TextIO
    err: TextIO | None

    def line(self, text: str) -> None:
        """Write a line of the result."""
        self.out.write(f"{text}\n")
        self.out.flush()

    def json(self, value: object) -> None:
        """Write the result as JSON."""
        self.line(json_for(self.out, value))

    def say(self, text: str) -> None:
        """Write a line beside the result."""
        if self.err is not None:
            self.err.write(f"docs-rag: {text}\n")
            self.err.flush()


Operation = Callable[[argparse.Namespace, Settings, _Console], int]


def _index(arguments: argparse.Namespace, settings: Settings, console: _Console) -> int:
    if arguments.watch:
        return _watch(arguments, settings, console)
    corpus, embedder = settings.chosen(), embedder_for(settings)
    options = IndexOptions(
        full=arguments.full,
        dry_run=arguments.dry_run,
        allow_shrink=arguments.allow_shrink,
    )
    report = _run(corpus, embedder, options, console)
    if arguments.json:
        console.json(report_as_json(report))
    else:
        console.line(report_as_text(report))
    return EXIT_REFUSED if report.failed else EXIT_DONE


def _run(
    corpus: Corpus, embedder: Embedder, options: IndexOptions, console: _Console
) -> IndexReport:
    """Index once, telling how far it has come."""
    warning = network_warning(corpus.data_dir)
    if warning is not None:
        console.say(f"notice: {warning}")
    progress = ProgressMeter(console.err)
    try:
        report = index_corpus(corpus, embedder, options, progress)
    finally:
        progress.close()
    for line in warnings_of(report):
        console.say(line)
    return report


def _refresh(
    arguments: argparse.Namespace, settings: Settings, console: _Console
) -> int:
    corpus, embedder = settings.chosen(), embedder_for(settings)
    options = IndexOptions(allow_shrink=arguments.allow_shrink)
    done = refresh(
        corpus, arguments.ref, lambda: _run(corpus, embedder, options, console)
    )
    code = EXIT_REFUSED if done.report.failed else EXIT_DONE
    if arguments.json:
        console.json({"fetched": done.commit} | report_as_json(done.report))
        return code
    if done.commit is not None:
        console.line(f"{corpus.name}: fetched commit {done.commit}")
    console.line(report_as_text(done.report))
    return code


# -- watching ---------------------------------------------------------------------


def _watch(arguments: argparse.Namespace, settings: Settings, console: _Console) -> int:
    for flag in ("full", "dry_run", "allow_shrink"):
        if getattr(arguments, flag):
            raise ConfigError(
                f"--watch goes on and on, and --{flag.replace('_', '-')} is for one "
                "run: do that run first"
            )
    watch = _make_watch(
        settings, console, lambda report: console.line(report_as_text(report))
    )
    with _ended_by_signal(watch):
        watch.start()
        console.say(f"watching {watch.corpus.directory}; Ctrl-C ends it")
        watch.wait()
    return EXIT_DONE


@contextlib.contextmanager
def watching(settings: Settings, out: TextIO, err: TextIO | None) -> Iterator[None]:
    """
    Watch the chosen corpus for as long as the block lasts, beside a server.

    Writes only to ``err``: on ``out`` a server may be speaking MCP.
    """
    console = _Console(out, err)

    def tell(report: IndexReport) -> None:
        console.say(report_as_text(report).splitlines()[-1])

    watch = _make_watch(settings, console, tell)
    watch.start()
    try:
        yield
    finally:
        watch.request_stop()
        watch.wait()


def _make_watch(
    settings: Settings, console: _Console, tell: Callable[[IndexReport], None]
) -> Watch:
    corpus, embedder = settings.chosen(), embedder_for(settings)

    def index(progress: Progress) -> IndexReport:
        return index_corpus(corpus, embedder, IndexOptions(), progress)

    return Watch(corpus, index, tell, console.say)


@contextlib.contextmanager
def _ended_by_signal(watch: Watch) -> Iterator[None]:
    def stop(number: int, frame: FrameType | None) -> None:
        watch.request_stop()

    numbers = (signal.SIGTERM, signal.SIGINT)
    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# -- backup -----------------------------------------------------------------------


def _snapshot(
    arguments: argparse.Namespace, settings: Settings, console: _Console
) -> int:
    path = Path(arguments.out)
    snapshot = take_snapshot(settings.chosen(), path, replace=arguments.replace)
    console.line(f"{path}: {_described(snapshot)}")
    return EXIT_DONE


def _restore(
    arguments: argparse.Namespace, settings: Settings, console: _Console
) -> int:
    corpus = settings.chosen()
    snapshot = restore_snapshot(corpus, Path(arguments.file))
    console.line(f"{corpus.index_path}: {_described(snapshot)}")
    console.line("next: `docs-rag index` brings it up to date with the corpus")
    return EXIT_DONE


def _described(snapshot: Snapshot) -> str:
    return (
        f"corpus {snapshot.corpus}, generation {snapshot.generation}, "
        f"{snapshot.files} files, {snapshot.chunks} chunks, "
        f"commit {snapshot.commit or 'unknown'}"
    )


# -- doctor -----------------------------------------------------------------------


def _doctor(
    arguments: argparse.Namespace, settings: Settings, console: _Console
) -> int:
    corpus = settings.chosen()
    findings = examine(corpus)
    rebuilt = False
    if arguments.rebuild and any(one.is_mended_by_rebuild for one in findings):
        for finding in findings:
            console.say(_told(finding))
        require_corpus(corpus)
        options = IndexOptions(full=True)
        report = _run(corpus, embedder_for(settings), options, console)
        console.say(report_as_text(report).splitlines()[-1])
        findings, rebuilt = examine(corpus), True
    is_healthy = not any(finding.is_fault for finding in findings)
    if arguments.json:
        rows = [dataclasses.asdict(finding) for finding in findings]
        console.json({"healthy": is_healthy, "rebuilt": rebuilt, "findings": rows})
    else:
        for finding in findings:
            console.line(_told(finding))
        console.line(f"{corpus.name}: {'healthy' if is_healthy else 'NOT HEALTHY'}")
    return EXIT_DONE if is_healthy else EXIT_REFUSED


def _told(finding: Finding) -> str:
    label = "fault" if finding.is_fault else "remark"
    return f"{label}: {finding.what}; {finding.remedy}"


_OPERATIONS: dict[str, Operation] = {
    "index": _index,
    "refresh": _refresh,
    "snapshot": _snapshot,
    "restore": _restore,
    "doctor": _doctor,
}


def operate(
    arguments: argparse.Namespace, settings: Settings, out: TextIO, err: TextIO | None
) -> int:
    """Run the operation that ``arguments.verb`` names and return its exit code."""
    return _OPERATIONS[arguments.verb](arguments, settings, _Console(out, err))
