"""
What is wrong with a corpus and its index, each with its remedy.

Looks and changes nothing. A finding is a fault where answers are wrong or runs will
fail, and a remark where something is only worth knowing.
"""

import dataclasses
import datetime
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from docs_rag.config import Corpus
from docs_rag.corpus import scan
from docs_rag.errors import (
    ConfigError,
    DocsRagError,
    IndexCorruptError,
    IndexMismatchError,
    IndexMissingError,
)
from docs_rag.filesystem import network_warning
from docs_rag.store import Store

# Clocks of two machines differ by a little; a jump is more than that.
_CLOCK_TOLERANCE_SECONDS = 300
_LOW_SPACE_BYTES = 64 << 20
_NAMED = 5
_LEFTOVERS = {
    "index.sqlite.rebuild": "left by a full run that was killed",
    "index.sqlite.restore": "left by a restore that was killed",
}
_REBUILD = "`docs-rag doctor --rebuild` builds the index anew from the corpus"


@dataclass(frozen=True, slots=True)
class Finding:
    """
    One thing that is wrong, or worth knowing.

    ``is_fault`` makes the corpus unhealthy; ``is_mended_by_rebuild`` says that a full
    run from the corpus is the remedy.
    """

    what: str
    remedy: str
    is_fault: bool = True
    is_mended_by_rebuild: bool = False


def examine(corpus: Corpus) -> tuple[Finding, ...]:
    """Return all that is wrong with ``corpus``, its folders and its index."""
    return (*_places(corpus), *_leftovers(corpus), *_index(corpus))


def _places(corpus: Corpus) -> Iterator[Finding]:
    yield from _corpus_folder(corpus)
    if not os.path.isdir(corpus.data_dir):
        return  # said of the index
    if not os.access(corpus.data_dir, os.W_OK | os.X_OK):
        yield Finding(
            f"{corpus.data_dir} is not writable for this account",
            "index as its owner, or change its owner",
            is_fault=False,
        )
    space = os.statvfs(corpus.data_dir)
    free_bytes = space.f_bavail * space.f_frsize
    if free_bytes < _LOW_SPACE_BYTES:
        yield Finding(
            f"{corpus.data_dir} has {free_bytes >> 20} MB of space left",
            "free some, or a run that has more to write will fail",
            is_fault=False,
        )
    warning = network_warning(corpus.data_dir)
    if warning is not None:
        what, _, remedy = warning.partition(": ")
        yield Finding(what, remedy, is_fault=False)


def _corpus_folder(corpus: Corpus) -> Iterator[Finding]:
    if not os.path.isdir(corpus.directory):
        yield Finding(
            f"the corpus folder {corpus.directory} is not there",
            "mount it, or correct corpus_dir in corpora.json",
        )
    elif not os.access(corpus.directory, os.R_OK | os.X_OK):
        yield Finding(
            f"the corpus folder {corpus.directory} is not readable for this account",
            "change its permissions, or index as its owner",
        )
    else:
        yield from _scope(corpus)


def _scope(corpus: Corpus) -> Iterator[Finding]:
    found = scan(corpus)
    remedy = "correct it in corpora.json; `docs-rag check-config` shows each entry"
    if not found.documents:
        yield Finding(f"the scope matches no file in {corpus.directory}", remedy)
        return
    for entry in found.unmatched:
        yield Finding(f"scope entry matches nothing: {entry}", f"mount it, or {remedy}")


def _leftovers(corpus: Corpus) -> Iterator[Finding]:
    for name, reason in _LEFTOVERS.items():
        if os.path.exists(corpus.data_dir / name):
            yield Finding(
                f"{corpus.data_dir / name} is {reason}",
                "the next such run removes it, or remove it by hand",
                is_fault=False,
            )
    damaged = corpus.data_dir / "index.sqlite.damaged"
    if os.path.exists(damaged):
        yield Finding(
            f"{damaged} is an index that was set aside as damaged",
            "remove it once nobody wants to look at it",
            is_fault=False,
        )


def _index(corpus: Corpus) -> Iterator[Finding]:
    try:
        with Store(corpus.index_path) as store, store.snapshot():
            problems = store.integrity_problems()
            if problems:
                yield Finding(
                    _listed(corpus.index_path, problems), _REBUILD, True, True
                )
                return
            yield from _contents(corpus, store)
    except IndexMissingError as error:
        yield dataclasses.replace(_split(error), is_mended_by_rebuild=True)
    except (IndexCorruptError, IndexMismatchError) as error:
        what = str(error).partition("; ")[0].partition(": upgrade")[0]
        yield Finding(what, _REBUILD, is_mended_by_rebuild=True)
    except DocsRagError as error:
        yield _split(error)


def _split(error: DocsRagError) -> Finding:
    what, _, remedy = str(error).partition("; ")
    return Finding(what, remedy or _REBUILD)


def _listed(path: Path, problems: list[str]) -> str:
    more = len(problems) - _NAMED
    named = "; ".join(line.replace("\n", " ") for line in problems[:_NAMED])
    return f"{path} is damaged: {named}{f'; and {more} more' if more > 0 else ''}"


def _contents(corpus: Corpus, store: Store) -> Iterator[Finding]:
    name = store.meta("corpus")
    if name not in (None, corpus.name):
        yield Finding(
            f"{store.path} is an index of corpus {name!r}, not of {corpus.name!r}",
            _REBUILD,
            is_mended_by_rebuild=True,
        )
    unfinished = store.meta("unfinished", 0)
    if unfinished or store.meta("active_space") is None:
        yield Finding(
            f"the last indexing run was interrupted with {unfinished} files to go",
            "run `docs-rag index`: it resumes",
            is_mended_by_rebuild=True,
        )
    yield from _clock(store)


def _clock(store: Store) -> Iterator[Finding]:
    latest = time.time() + _CLOCK_TOLERANCE_SECONDS
    for key in ("indexed_at", "checked_at"):
        with suppress(TypeError, ValueError):
            at = datetime.datetime.fromisoformat(store.meta(key)).timestamp()
            if at > latest:
                yield Finding(
                    f"{key} is {store.meta(key)}, which has not come yet: the clock "
                    "of this machine jumped, then or since",
                    "set the clock, then run `docs-rag index`",
                )
    future = [p for p, f in store.files().items() if f.mtime_ns > latest * 10**9]
    if future:
        rest = f" and {len(future) - 1} more" if future[1:] else ""
        yield Finding(
            f"the modification time of {future[0]}{rest} has not come yet",
            "no harm to the index, which goes by content; look at the clock of the "
            "machine that wrote the files",
            is_fault=False,
        )


def require_corpus(corpus: Corpus) -> None:
    """Raise ``ConfigError`` where there is nothing to build an index from."""
    for finding in _corpus_folder(corpus):
        raise ConfigError(f"cannot rebuild: {finding.what}; {finding.remedy}")
