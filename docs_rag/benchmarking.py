"""
``docs-rag bench``: what a question costs on the user's own index and machine.

Asks what the corpus itself proposes, its headings and first words, or a file of
questions; reads the index and writes nothing.
"""

import argparse
import dataclasses
import os
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TextIO

from docs_rag import __version__
from docs_rag.benchmark import RECALL_DEPTH, Measured, Spread, Target, measure_queries
from docs_rag.cases import read_golden
from docs_rag.config import Settings
from docs_rag.embedders import embedder_for
from docs_rag.errors import EXIT_DONE, ConfigError, IndexMissingError
from docs_rag.golden import draft
from docs_rag.lexical import words
from docs_rag.readers import ReaderPool
from docs_rag.rendering import json_for
from docs_rag.schema import StoredChunk
from docs_rag.service import engine_for
from docs_rag.store import Store

# Of so many passages for each question wanted, some are headed like a question.
_PASSAGES_READ = 4
_OPENING_WORDS = 8


def bench(
    arguments: argparse.Namespace, settings: Settings, out: TextIO, err: TextIO | None
) -> int:
    """Measure the chosen corpus' index and write what it took."""

    def say(line: str) -> None:
        if err is not None:
            err.write(f"docs-rag: {line}\n")
            err.flush()

    for name in ("count", "repeats"):
        if getattr(arguments, name) < 1:
            raise ConfigError(
                f"--{name} must be 1 or more, not {getattr(arguments, name)}"
            )
    corpus = settings.chosen()
    questions = _questions(arguments, corpus.index_path)
    target = Target(
        corpus.name,
        corpus.directory,
        corpus.index_path,
        embedder_for(settings),
        engine_for(settings, resident=True),
    )
    measured = measure_queries(target, questions, arguments.repeats, say)
    load = round(os.getloadavg()[0], 2)
    if arguments.json:
        facts = {"version": __version__, "load_average": load}
        out.write(json_for(out, facts | dataclasses.asdict(measured)) + "\n")
    else:
        out.write(as_text(measured, load))
    return EXIT_DONE


def _questions(arguments: argparse.Namespace, index_path: Path) -> list[str]:
    if arguments.queries is not None:
        return read_questions(arguments.queries)[: arguments.count]
    with closing(ReaderPool(index_path)) as readers, readers.snapshot() as store:
        found = own_questions(store, arguments.count)
    if not found:
        raise IndexMissingError(
            f"{index_path} holds no passage to ask about: index some markdown first, "
            "or give questions by --queries FILE"
        )
    return found


def read_questions(path: Path) -> list[str]:
    """Return the questions of a file: one a line, or those of a golden file."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"--queries {path}: cannot be read ({error.strerror})"
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"--queries {path}: is not UTF-8: save it as UTF-8"
        ) from error
    if text.lstrip().startswith(("{", "//")):
        return [case.query for case in read_golden(path)]
    found = list(dict.fromkeys(filter(None, map(str.strip, text.splitlines()))))
    if not found:
        raise ConfigError(f"--queries {path}: no questions: write one a line")
    return found


def own_questions(store: Store, count: int) -> list[str]:
    """Return up to ``count`` questions from all over a corpus, the same every time."""
    ids = store.chunk_ids()
    step = max(1, len(ids) // (_PASSAGES_READ * count))
    chunks = store.chunks(ids[::step])
    in_order = [chunks[i] for i in ids[::step]]
    asked = [one.query for one in draft(in_order, len(in_order))]
    asked += [_opening(chunk) for chunk in in_order]
    distinct = list(dict.fromkeys(text for text in asked if words(text)))
    # The drafts come first; of both, those from all over the corpus.
    kept = distinct[: max(count, min(len(distinct), 2 * count))]
    return kept[:: max(1, len(kept) // count)][:count]


def _opening(chunk: StoredChunk) -> str:
    return " ".join(chunk.body.split()[:_OPENING_WORDS])


def as_text(measured: Measured, load: float) -> str:
    """Return the figures as tables for a terminal."""
    lines = [
        f"corpus {measured.corpus}: {measured.chunks:,} passages, "
        f"{measured.vectors:,} vectors of {measured.dimension}, engine "
        f"{measured.engine_name}",
        f"{measured.questions} questions, {measured.repeats} times each; ready after "
        f"{measured.warm_up_seconds:.1f} s; load average {load}",
        "",
        f"{'stage of retrieve':20}{'p50 ms':>10}{'p95 ms':>10}",
        *_rows([row for row in measured.stages.items() if row[0] != "text"]),
    ]
    if measured.engine is None:
        lines += ["", "vectors: none in force, so nothing to compare"]
        return "\n".join(lines) + "\n"
    lines += [
        "",
        f"{'vectors alone':20}{'p50 ms':>10}{'p95 ms':>10}{'of the engine':>15}",
        *_rows([(measured.engine_name, measured.engine)]),
    ]
    for name, spread in measured.baselines.items():
        ratio = spread.p50_ms / max(measured.engine.p50_ms, 0.001)
        (row,) = _rows([(f"{name} (exact)", spread)])
        lines.append(f"{row}{f'{ratio:.1f} x':>15}")
    if measured.recall is not None:
        lines += ["", f"recall@{RECALL_DEPTH} of the engine: {measured.recall:.4f}"]
    return "\n".join(lines) + "\n"


def _rows(spreads: Sequence[tuple[str, Spread]]) -> list[str]:
    return [f"{name:20}{s.p50_ms:>10.2f}{s.p95_ms:>10.2f}" for name, s in spreads]
