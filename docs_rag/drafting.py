"""
``docs-rag golden draft``: proposals for a golden file, out of an index and of traces.

Reads both and writes only what was asked for; a file that exists is never touched, for
somebody may have edited it.
"""

import argparse
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TextIO

from docs_rag.config import Settings
from docs_rag.errors import EXIT_DONE, EXIT_REFUSED, ConfigError, StorageError
from docs_rag.golden import Draft, as_lines, draft
from docs_rag.readers import ReaderPool
from docs_rag.tracemisses import MAX_QUERIES, Miss, collect_misses
from docs_rag.tracereader import trace_files
from docs_rag.tracing import printable


def draft_golden(
    arguments: argparse.Namespace, settings: Settings, out: TextIO, err: TextIO | None
) -> int:
    """Write drafts as ``arguments`` say; 1 where a trace file could not be read."""
    if arguments.count < 0:
        raise ConfigError(f"--count must be 0 or more, not {arguments.count}")
    corpus = settings.chosen()
    drafts = _drafts(corpus.index_path, arguments.count)
    misses, remarks, problems = _misses(corpus.name, arguments.misses, arguments.count)
    lines = as_lines(drafts, misses)
    if arguments.out is None:
        out.write(lines)
        out.flush()
    else:
        _write(Path(arguments.out), lines)
        remarks.append(f"{lines.count(chr(10))} questions to edit in {arguments.out}")
    if err is not None:
        err.writelines(f"docs-rag: {line}\n" for line in [*problems, *remarks])
    return EXIT_REFUSED if problems else EXIT_DONE


def _drafts(index_path: Path, count: int) -> list[Draft]:
    with closing(ReaderPool(index_path)) as readers, readers.snapshot() as store:
        return draft(store.all_chunks(), count)


def _misses(
    corpus: str, places: Sequence[str], count: int
) -> tuple[list[Miss], list[str], list[str]]:
    """Return the most frequent misses of this corpus; remarks; what went wrong."""
    paths: list[Path] = []
    for place in map(Path, places):
        # A folder without traces is read, and reported, as a missing file.
        paths += trace_files(place) or [place] if place.is_dir() else [place]
    found = collect_misses(paths, MAX_QUERIES) if paths else None
    if found is None:
        return [], [], []
    own = [one for one in found.misses if one.corpus in ("", corpus)][:count]
    hashed = sum(not miss.query for miss in own)
    remarks = []
    if hashed:
        remarks.append(
            f"{hashed} missed questions are in the traces as digests only: "
            "RAG_TRACE_CONTENT=1 keeps the words of those to come"
        )
    problems = [
        f"{printable(tally.path)}: {tally.problem}"
        for tally in found.files
        if tally.problem
    ]
    return own, remarks, problems


def _write(path: Path, lines: str) -> None:
    try:
        with path.open("x", encoding="utf-8") as stream:
            stream.write(lines)
    except FileExistsError as error:
        raise StorageError(
            f"{path} exists, and its questions may have been edited: name another file"
        ) from error
    except OSError as error:
        raise StorageError(
            f"cannot write {path} ({error.strerror}): name another file"
        ) from error
