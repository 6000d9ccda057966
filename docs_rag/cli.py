"""
The command line: arguments in, lines out, one exit code. The only place that prints.

Heavy modules are imported by the verb that needs them, so that ``--help`` and the
trace commands start at once.
"""

import argparse
import contextlib
import gc
import json
import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from docs_rag.errors import (
    EXIT_DONE,
    EXIT_REFUSED,
    EXIT_USAGE,
    DocsRagError,
)

if TYPE_CHECKING:
    from docs_rag.config import Settings
    from docs_rag.records import Secret

_EXIT_INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    if argv is None:
        _insist_on_utf8()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    return _flushed(_guarded(sys.argv[1:] if argv is None else list(argv)))


def _insist_on_utf8() -> None:
    """
    Start over in Python's UTF-8 mode where the locale has another encoding.

    Names of files and the words of a query are UTF-8, whatever cron's locale says; or
    a run from there would take other files for the corpus than a run from a shell.
    """
    if sys.getfilesystemencoding() != "utf-8" and sys.executable:
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])


def _guarded(words: Sequence[str]) -> int:
    """Run one command; turn whatever goes wrong into a line and an exit code."""
    debug = words[:1] == ["--debug"]
    try:
        return _run(words[1:] if debug else words)
    except KeyboardInterrupt:
        _say("docs-rag: interrupted; what is committed stays, run again to go on")
        return _EXIT_INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has left (head, less); nothing is wrong.
        return EXIT_DONE
    except DocsRagError as error:
        if debug:
            raise
        _say(f"docs-rag: {error}")
        return error.exit_code
    except ModuleNotFoundError as error:
        if debug or (error.name or "").startswith("docs_rag"):
            raise
        _say(
            f"docs-rag: {error.name} is not installed for {sys.executable}; run "
            "`pip install .` in the checkout, or call the Python that has it"
        )
        return EXIT_USAGE
    except Exception as error:
        if debug:
            raise
        _say(
            f"docs-rag: internal error: {type(error).__name__}: {error} (a fault of "
            "docs-rag; `docs-rag --debug ...` shows where)"
        )
        return EXIT_REFUSED


def _run(words: Sequence[str]) -> int:
    if words[:1] == ["trace"]:
        return _trace(words[1:])
    from docs_rag.arguments import build_parser

    try:
        arguments = build_parser().parse_args(words, argparse.Namespace(words=words))
    except SystemExit as stop:  # --help, or wrong usage; it has been said
        return stop.code if isinstance(stop.code, int) else EXIT_USAGE
    return _VERBS[arguments.verb](arguments)


def _flushed(code: int) -> int:
    """Write out what was printed, or Python would complain after the last line."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            _say(f"docs-rag: the output cannot be written ({error.strerror})")
            return EXIT_REFUSED
    return code


def _say(line: str) -> None:
    if sys.stderr is not None:
        print(line, file=sys.stderr, flush=True)


def _print_json(value: object) -> None:
    from docs_rag.rendering import json_for

    print(json_for(sys.stdout, value))


def _settings(arguments: argparse.Namespace) -> "Settings":
    from docs_rag.arguments import overrides_in
    from docs_rag.config import current_environment, load_settings

    settings = load_settings(current_environment(), overrides_in(arguments))
    for notice in settings.notices:
        _say(f"docs-rag: notice: {notice}")
    return settings


# -- verbs ------------------------------------------------------------------------


def _init(arguments: argparse.Namespace) -> int:
    from pathlib import Path

    from docs_rag.scaffold import propose, write

    settings = _settings(arguments)
    proposal = propose(Path(arguments.directory), arguments.name)
    print(json.dumps({proposal.name: proposal.config}, ensure_ascii=False, indent=2))
    print(*(f"- {reason}" for reason in proposal.reasons), sep="\n")
    if arguments.dry_run:
        print(f"dry run: {settings.config_path} was not written")
        return EXIT_DONE
    if not _confirmed(arguments, f"Write this to {settings.config_path}?"):
        print("nothing was written")
        return EXIT_REFUSED
    write(settings.config_path, proposal, replace=arguments.replace)
    print(f"written: {settings.config_path}")
    print(f"next: RAG_CORPUS={proposal.name} docs-rag index")
    return EXIT_DONE


def _confirmed(arguments: argparse.Namespace, question: str) -> bool:
    if arguments.yes or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return True
    try:
        return input(f"{question} [Y/n] ").strip().lower() in ("", "y", "yes")
    except EOFError:
        return False


def _operate(arguments: argparse.Namespace) -> int:
    from docs_rag.operations import operate

    return operate(arguments, _settings(arguments), sys.stdout, sys.stderr)


def _query(arguments: argparse.Namespace) -> int:
    settings = _settings(arguments)
    if arguments.query:
        from docs_rag.embedders import load_ahead

        load_ahead(settings, [" ".join(arguments.query), *arguments.also])
    from docs_rag.asking import query

    return query(arguments, settings, sys.stdin, sys.stdout)


def _status(arguments: argparse.Namespace) -> int:
    from docs_rag.asking import show_status

    return show_status(arguments, _settings(arguments), sys.stdout)


def _bench(arguments: argparse.Namespace) -> int:
    from docs_rag.benchmarking import bench

    return bench(arguments, _settings(arguments), sys.stdout, sys.stderr)


def _serve(arguments: argparse.Namespace) -> int:
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.INFO,
        format="%(asctime)s %(levelname)s %(name)s %(message)s",
    )
    # One line a request is the guard's; the SDK's own say less and say it twice.
    for name in ("mcp", "sse_starlette", "httpx", "httpx2", "watchfiles"):
        logging.getLogger(name).setLevel(logging.WARNING)
    # The protocol's models are most of a start, and none of them is ever garbage.
    gc.disable()
    from docs_rag.serve import run

    gc.freeze()
    gc.enable()
    settings = _settings(arguments)

    def announce(url: str) -> None:
        _say(f"docs-rag: serving corpus {settings.chosen().name!r} at {url}")

    def reload_token() -> "Secret | None":
        return _settings(arguments).auth_token

    with contextlib.ExitStack() as stack:
        if arguments.watch:
            from docs_rag.operations import watching

            stack.enter_context(watching(settings, sys.stdout, sys.stderr))
        run(settings, announce, reload_token)
    return EXIT_DONE


def _probe(arguments: argparse.Namespace) -> int:
    from dataclasses import asdict

    from docs_rag.config import current_environment, load_settings
    from docs_rag.probe import probe, require_fresh

    # What its client logs in between, the report says at the end.
    logging.getLogger("mcp").addHandler(logging.NullHandler())
    token = load_settings(current_environment()).auth_token
    report = probe(
        arguments.url, arguments.query, arguments.k, token, arguments.timeout_seconds
    )
    if arguments.max_age_hours is not None:
        require_fresh(report, arguments.max_age_hours)
    if arguments.json:
        _print_json(asdict(report))
        return EXIT_DONE
    status = report.status
    print(f"server: {report.server} {report.version}, protocol {report.protocol}")
    print(f"tools: {', '.join(report.tools)}")
    print(
        f"corpus: {status['corpus']}, {status['files']} files, {status['chunks']} "
        f"chunks, generation {status['generation']}, indexed at {status['indexed_at']}"
    )
    steps = ", ".join(f"{name} {ms} ms" for name, ms in report.milliseconds.items())
    print(f"took: {steps}\n\n{report.text}")
    return EXIT_DONE


def _clients(arguments: argparse.Namespace) -> int:
    from docs_rag.clients import as_text, snippets

    print(as_text(snippets(arguments.url, arguments.name, token=arguments.token)))
    return EXIT_DONE


def _check_config(arguments: argparse.Namespace) -> int:
    from docs_rag.config import describe
    from docs_rag.corpus import scan
    from docs_rag.rendering import plain_path

    settings = _settings(arguments)
    rows = describe(settings)
    found = scan(settings.corpus) if settings.corpus else None
    if arguments.json:
        _print_json(
            {
                "settings": [row._asdict() for row in rows],
                "corpora": sorted(settings.corpora),
                "matched": dict(found.matched) if found else {},
                "unmatched": list(found.unmatched) if found else [],
                "skipped": [[s.path, s.reason] for s in found.skipped] if found else [],
            }
        )
    else:
        for row in rows:
            print(f"{row.name:18} {row.value or '-'}  [{row.origin}]")
        print(f"{'corpora':18} {', '.join(sorted(settings.corpora)) or '-'}")
    if found is None:
        settings.chosen()
        return EXIT_USAGE
    if not arguments.json:
        for entry, paths in found.matched.items():
            print(f"\n{entry}: {len(paths)} files")
            for path in paths:
                print(f"  {plain_path(path)}")
        for entry in found.unmatched:
            print(f"\n{entry}: MATCHED NOTHING")
        for skipped in found.skipped:
            print(f"skipped: {plain_path(skipped.path)} ({skipped.reason})")
    return EXIT_DONE


def _golden(arguments: argparse.Namespace) -> int:
    from docs_rag.drafting import draft_golden

    return draft_golden(arguments, _settings(arguments), sys.stdout, sys.stderr)


def _eval(arguments: argparse.Namespace) -> int:
    import shlex

    from docs_rag.evaluation import evaluate, subject_of

    subject = subject_of(_settings(arguments))
    command = f"docs-rag {shlex.join(arguments.words)}"
    return evaluate(arguments, subject, command, sys.stdout, sys.stderr)


def _scope(arguments: argparse.Namespace) -> int:
    from docs_rag.mirror import show_scope

    show_scope(_settings(arguments), arguments.mirror, arguments.json, sys.stdout)
    return EXIT_DONE


def _preflight(arguments: argparse.Namespace) -> int:
    from docs_rag.netguard import preflight

    settings = _settings(arguments)
    allowed, text = preflight(
        settings.host,
        settings.port,
        settings.auth_token,
        settings.allowed_hosts,
        settings.allowed_origins,
    )
    print(text)
    return EXIT_DONE if allowed else EXIT_REFUSED


def _trace(words: Sequence[str]) -> int:
    from docs_rag.config import current_environment, merged_environment
    from docs_rag.tracecli import main as trace_main

    environ: Mapping[str, str] = merged_environment(current_environment())
    return trace_main(words, environ, sys.stdout, sys.stderr, program="docs-rag trace")


_VERBS: dict[str, Callable[[argparse.Namespace], int]] = {
    "init": _init,
    "query": _query,
    "status": _status,
    "serve": _serve,
    "probe": _probe,
    "clients": _clients,
    "check-config": _check_config,
    "preflight": _preflight,
    "scope": _scope,
    "golden": _golden,
    "eval": _eval,
    "bench": _bench,
    **dict.fromkeys(("index", "refresh", "snapshot", "restore", "doctor"), _operate),
}
