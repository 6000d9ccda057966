"""
One evaluation from end to end: settings laid out, measured, reported, gated.

It works in a folder of its own, so a corpus is indexed again and the index that a
server reads is left alone.
"""

import argparse
import dataclasses
import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from docs_rag.cases import read_golden
from docs_rag.config import Settings
from docs_rag.errors import EXIT_DONE, EXIT_REFUSED, StorageError
from docs_rag.evaloptions import GATES
from docs_rag.measuring import Run, measure, off_summary, summary
from docs_rag.mirror import scope_as_json
from docs_rag.reporting import as_json, as_markdown


@dataclass(frozen=True, slots=True)
class Subject:
    """
    The corpus to measure: its name, its entry for ``corpora.json``, the environment.

    ``setting`` is what is measured where no other is named.
    """

    name: str
    entry: Mapping[str, object]
    environ: Mapping[str, str]
    setting: str


def subject_of(settings: Settings) -> Subject:
    """Return the chosen corpus with its scope, and the embedder that is configured."""
    corpus = settings.chosen()
    scope = scope_as_json(corpus)
    keys = ("extensions", "top_files", "doc_root_files", "roots", "exclude_dirs")
    model = settings.embed_model_path or settings.embed_model
    return Subject(
        name=corpus.name,
        entry={
            "corpus_dir": str(corpus.directory),
            **{key: scope[key] for key in keys if scope[key]},
        },
        environ={
            "HOME": str(settings.rag_dir),
            "LMSTUDIO_BASE_URL": settings.base_url,
            "LMSTUDIO_API_KEY": settings.api_key.reveal(),
        },
        setting=settings.backend.value + (f"={model}" if model else ""),
    )


def evaluate(
    arguments: argparse.Namespace,
    subject: Subject,
    command: str,
    out: TextIO,
    err: TextIO | None,
) -> int:
    """Measure, write the report, and return 1 where a gate is violated."""

    def say(line: str) -> None:
        if err is not None:
            err.write(f"{line}\n")
            err.flush()

    cases = read_golden(arguments.golden)
    with tempfile.TemporaryDirectory() as scratch:
        work = arguments.work or Path(scratch)
        runs = [
            measure(name, _laid_out(subject, name, work), cases, arguments.k, say)
            for name in arguments.compare or [subject.setting]
        ]
    if arguments.commit:
        runs = [dataclasses.replace(run, commit=arguments.commit) for run in runs]
    report = as_markdown(runs, command, ids_only=arguments.ids_only)
    _write(arguments.report, report)
    _write(arguments.json, as_json(runs, command))
    out.write(f"{report}\n")
    out.flush()
    broken = violations(runs[0], arguments)
    for line in broken:
        say(f"VIOLATION: {line}")
    return EXIT_REFUSED if broken else EXIT_DONE


def _laid_out(subject: Subject, setting: str, work: Path) -> dict[str, str]:
    """Lay out a folder for one setting and return the variables that choose it."""
    backend, _, model = setting.partition("=")
    home = work / "".join(c if c.isalnum() else "-" for c in setting)
    entry = {**subject.entry, "data_dir": f"data-{subject.name}"}
    try:
        home.mkdir(parents=True, exist_ok=True)
        config = json.dumps({subject.name: entry})
        (home / "corpora.json").write_text(config, encoding="utf-8")
    except OSError as error:
        raise StorageError(
            f"cannot write to {home} ({error.strerror}): name another folder by --work"
        ) from error
    environ = {
        **subject.environ,
        "RAG_DIR": str(home),
        "RAG_CORPUS": subject.name,
        "RAG_EMBED_BACKEND": backend,
    }
    if model:
        key = "EMBED_MODEL_PATH" if Path(model).is_dir() else "EMBED_MODEL"
        environ[key] = model
    return environ


def _write(path: Path | None, text: str) -> None:
    if path is None:
        return
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise StorageError(
            f"cannot write {path} ({error.strerror}): name another file"
        ) from error


def violations(run: Run, arguments: argparse.Namespace) -> list[str]:
    """Return every gate that this run does not pass."""
    numbers: Mapping[str, float] = summary(run.families()["all"])
    off = off_summary(run.off())
    checks = [
        (gate, name.format(k=arguments.recall_at), numbers, is_least)
        for gate, name, is_least in GATES
    ]
    checks += [
        ("max_false_strong", "false_strong", off, False),
        ("min_refused", "none", off, True),
    ]
    broken = []
    for gate, name, values, is_least in checks:
        bound, value = getattr(arguments, gate), values[name]
        if bound is not None and (value < bound if is_least else value > bound):
            side = "under" if is_least else "over"
            broken.append(
                f"{name} is {value:.4f}, {side} --{gate.replace('_', '-')} {bound}"
            )
    return broken
