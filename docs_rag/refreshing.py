"""
A corpus brought up to date from where it comes from, and then its index.

A git-backed corpus is fetched and exported beside the live folder and takes its place
in one step; whatever fails before that leaves corpus and index as they were.
"""

import contextlib
import datetime
import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from docs_rag.config import Corpus
from docs_rag.errors import ConfigError, ShrinkError, StorageError
from docs_rag.exchange import aside_of, put_in_place
from docs_rag.gitsource import export, fetch, origin_url
from docs_rag.locking import corpus_lock
from docs_rag.provenance import MARKER_NAME
from docs_rag.records import IndexReport


@dataclass(frozen=True, slots=True)
class Refreshed:
    """What a refresh did; ``commit`` is None for a corpus that others push."""

    commit: str | None
    report: IndexReport


def refresh(
    corpus: Corpus, ref: str | None, index: Callable[[], IndexReport]
) -> Refreshed:
    """
    Fetch the corpus if it is git-backed, then call ``index``.

    Raises ``IndexLockedError`` where another refresh or run is under way and
    ``SourceError`` where the fetch fails. Where the index refuses the new files
    (``ShrinkError``, ``ConfigError``), the old ones are put back.
    """
    if corpus.git_origin_repo is None:
        if ref is not None:
            raise ConfigError(
                f"corpus {corpus.name!r} has no git_origin_repo in corpora.json, so "
                f"there is no {ref!r} to fetch: leave it out, or add that key"
            )
        return Refreshed(None, index())
    _require_replaceable(corpus, corpus.git_origin_repo)
    with corpus_lock(corpus.data_dir / ".refresh.lock", corpus.name):
        url = origin_url(corpus.git_origin_repo)
        incoming = corpus.directory.with_name(f".{corpus.directory.name}.incoming")
        with _disk_failures(corpus), _tidied(incoming, corpus.directory):
            commit = fetch(url, ref, corpus.data_dir / "source.git")
            export(corpus.data_dir / "source.git", commit, incoming)
            write_marker(incoming, commit)
            return Refreshed(commit, _swap_and_index(corpus, incoming, index))


def write_marker(directory: Path, commit: str) -> None:
    """Note in ``directory`` which commit it holds, and when it came."""
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    content = {"commit": commit, "synced_at": now, "dirty": False}
    path = directory / MARKER_NAME
    # The repository may have a file, or a link, of that name.
    path.unlink(missing_ok=True)
    with path.open("x", encoding="utf-8") as file:
        file.write(json.dumps(content) + "\n")


def _require_replaceable(corpus: Corpus, checkout: Path) -> None:
    """Refuse to put an export in the place of anything that is more than one."""
    place = corpus.directory
    if place == checkout or place in checkout.parents or (place / ".git").exists():
        raise ConfigError(
            f"corpus {corpus.name!r}: its corpus_dir {place} is a checkout or holds "
            "one, and a refresh would replace it: name another folder, or remove "
            "git_origin_repo and index the checkout in place"
        )
    if place in corpus.data_dir.parents:
        raise ConfigError(
            f"corpus {corpus.name!r} has its data_dir inside its corpus_dir, which a "
            f"refresh replaces: move {corpus.data_dir} elsewhere"
        )
    if place.is_dir() and not (place / MARKER_NAME).exists() and any(place.iterdir()):
        raise ConfigError(
            f"corpus {corpus.name!r}: {place} holds files that no refresh put there "
            f"(it has no {MARKER_NAME}), and they would be replaced: move them away"
        )


def _swap_and_index(
    corpus: Corpus, incoming: Path, index: Callable[[], IndexReport]
) -> IndexReport:
    _put(corpus, incoming)
    try:
        return index()
    except (ShrinkError, ConfigError):
        if incoming.exists():
            _put(corpus, incoming)
        raise


def _put(corpus: Corpus, incoming: Path) -> None:
    # An indexer that reads the folder meanwhile would find half of each.
    with corpus_lock(corpus.lock_path, corpus.name):
        put_in_place(incoming, corpus.directory)


@contextlib.contextmanager
def _tidied(incoming: Path, place: Path) -> Iterator[None]:
    """Take away what a killed run left, before the block and after it."""
    place.parent.mkdir(parents=True, exist_ok=True)
    aside = aside_of(place)
    if aside.exists() and not place.exists():
        aside.rename(place)
    for leftover in (incoming, aside):
        _remove(leftover)
    try:
        yield
    finally:
        _remove(incoming)


def _remove(path: Path) -> None:
    if os.path.lexists(path):
        shutil.rmtree(path)


@contextlib.contextmanager
def _disk_failures(corpus: Corpus) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"corpus {corpus.name!r}: cannot refresh {corpus.directory} "
            f"({error.strerror}: {error.filename}); check the disk, and that the "
            "folder above it is writable and no mount point"
        ) from error
