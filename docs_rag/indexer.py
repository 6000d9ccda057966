"""
One indexing run: lock, scan, plan, embed, apply.

Embedding comes first and is kept as it goes; files change only once every vector
they need is there. So a run that fails leaves the old index as it was, and a run
that is killed loses the batch in flight.
"""

import contextlib
import dataclasses
import datetime
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from docs_rag.calibration import CALIBRATION_VERSION, calibrate, calibration_as_json
from docs_rag.config import Corpus
from docs_rag.corpus import scan
from docs_rag.errors import ConfigError, IndexMissingError
from docs_rag.feeding import BATCH_TEXTS, Feed, Tally
from docs_rag.keeping import Kept
from docs_rag.locking import corpus_lock
from docs_rag.planning import Plan, plan, refuse_shrink
from docs_rag.preparing import Prepared, entries, prepare, recipe
from docs_rag.records import Document, Embedder, IndexReport, Scan, Skipped
from docs_rag.schema import NEW_SPACE, NO_SPACE, IndexedFile, Space
from docs_rag.store import Store
from docs_rag.swapping import discard, swap_in, what_is_live

# Files whose rows change in one transaction, and one generation.
_GROUP_FILES = 64
# Vectors that no chunk uses any more are kept for a branch switch and back: as many
# as are in use, and at least this many.
_MIN_SPARE_VECTORS = 2_000
# The verdict is calibrated anew once one file in so many has changed.
_RECALIBRATION_SHARE = 10


class Progress(Protocol):
    """Is told how far a stage of the run has come."""

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Note that ``done`` of ``total`` files have passed ``stage``."""


@dataclass(frozen=True, slots=True)
class IndexOptions:
    """What the caller wants of this run."""

    full: bool = False
    dry_run: bool = False
    allow_shrink: bool = False


@dataclass(slots=True)
class _Run:
    """What a run knows, and what it has done so far."""

    corpus: Corpus
    embedder: Embedder
    found: Scan
    options: IndexOptions
    progress: Progress
    started: float = field(default_factory=time.monotonic)
    tally: Tally = field(default_factory=Tally)
    vanished: dict[str, Skipped] = field(default_factory=dict)
    documents: dict[str, Document] = field(init=False)
    recipe: str = field(init=False)

    def __post_init__(self) -> None:
        self.documents = {document.path: document for document in self.found.documents}
        self.recipe = recipe(self.corpus.trigram)


def _silent(stage: str, done: int, total: int) -> None:
    """Report progress to nobody."""


def index_corpus(
    corpus: Corpus,
    embedder: Embedder,
    options: IndexOptions | None = None,
    progress: Progress = _silent,
) -> IndexReport:
    """
    Bring the index of ``corpus`` up to date with the disk and say what was done.

    Raises ``IndexLockedError`` where another run is under way, ``ShrinkError`` where
    more than half of the files would go, ``EmbeddingError`` where the model fails,
    ``StorageError`` where the disk does; in each case what was indexed stays.
    """
    options = options or IndexOptions()
    if options.dry_run:
        return _dry_run(_Run(corpus, embedder, scan(corpus), options, progress))
    with corpus_lock(corpus.lock_path, corpus.name):
        run = _Run(corpus, embedder, scan(corpus), options, progress)
        if options.full:
            return _rebuild(run)
        with Store(corpus.index_path, writable=True) as store:
            report = _refresh(run, store)
            store.require_in_place()
            return report


def _dry_run(run: _Run) -> IndexReport:
    files: dict[str, IndexedFile] = {}
    generation = chunks = 0
    space = None
    with (
        contextlib.suppress(IndexMissingError),
        Store(run.corpus.index_path) as store,
        store.snapshot(),
    ):
        files, generation = store.files(), store.generation
        chunks = store.meta("chunks", 0)
        space = store.space(run.embedder.identity.fingerprint)
    known = {} if run.options.full else files
    space_id = space.id if space else NEW_SPACE
    steps = plan(known, run.documents, run.recipe, space_id)
    return _report(run, steps, generation, len(files), chunks, run.found.skipped)


def _refresh(run: _Run, store: Store) -> IndexReport:
    indexed = store.files()
    space = store.space(run.embedder.identity.fingerprint)
    space_id = space.id if space else NEW_SPACE
    steps = plan(indexed, run.documents, run.recipe, space_id)
    _refuse_loss(run, indexed)
    if space is None:
        capacity = run.embedder.probe()
        with store.transaction():
            space = store.add_space(run.embedder.identity, capacity)
    with Feed(run.embedder, store, space, run.tally) as feed:
        kept = _embed(run, space, steps, feed)
        _write(run, store, space, steps, feed, kept)
    _finish(run, store, space, steps, indexed)
    return _report(
        run,
        steps,
        store.generation,
        store.meta("files", 0),
        store.meta("chunks", 0),
        (*run.found.skipped, *run.vanished.values(), *store.files_without_text()),
        store.files_without_vectors(),
    )


def _refuse_loss(run: _Run, indexed: dict[str, IndexedFile]) -> None:
    """Stop before a run that would lose most of the index, or would index nothing."""
    if run.options.allow_shrink or (indexed and indexed.keys() <= run.documents.keys()):
        return
    steps = plan(indexed, run.documents, run.recipe, NEW_SPACE)
    refuse_shrink(run.corpus.name, steps, len(indexed))
    if not run.documents and not indexed:
        raise ConfigError(
            f"corpus {run.corpus.name!r}: its scope matches no file in "
            f"{run.corpus.directory}: correct it in corpora.json "
            "(`docs-rag check-config` shows what each entry matches)"
        )


def _report(
    run: _Run,
    steps: Plan,
    generation: int,
    files: int,
    chunks: int,
    skipped: Sequence[Skipped],
    failed: Sequence[Skipped] = (),
) -> IndexReport:
    return IndexReport(
        corpus=run.corpus.name,
        generation=generation,
        added=tuple(path for path in steps.added if path not in run.vanished),
        changed=tuple(path for path in steps.changed if path not in run.vanished),
        renamed=steps.renamed,
        purged=steps.purged,
        unchanged=len(steps.unchanged),
        rebuilt=len(steps.rebuilt),
        skipped=tuple(skipped),
        failed=tuple(failed),
        unmatched_scope=run.found.unmatched,
        files=files,
        chunks=chunks,
        embedded=run.tally.embedded,
        reused=run.tally.reused,
        seconds=time.monotonic() - run.started,
        dry_run=run.options.dry_run,
        full=run.options.full,
    )


# -- rebuilding -------------------------------------------------------------------


def _rebuild(run: _Run) -> IndexReport:
    """Build beside the live index, embedding everything anew, then swap."""
    live_path = run.corpus.index_path
    generation, indexed = what_is_live(live_path)
    _refuse_loss(run, indexed)
    beside = live_path.with_name("index.sqlite.rebuild")
    discard(beside)
    try:
        with Store(beside, writable=True) as fresh:
            with fresh.transaction():
                fresh.set_meta(generation=generation)
            report = _refresh(run, fresh)
            swap_in(fresh, live_path)
    finally:
        discard(beside)
    return dataclasses.replace(report, seconds=time.monotonic() - run.started)


# -- embedding and writing --------------------------------------------------------


def _embed(run: _Run, space: Space, steps: Plan, feed: Feed) -> Kept:
    """Embed every missing text; return as many cut documents as may be kept."""
    kept = Kept()
    waiting: list[Prepared] = []
    for done, path in enumerate(steps.written, start=1):
        for prepared in _prepare(run, space, path):
            waiting.append(prepared)
            kept.put(path, prepared)
        if sum(len(p.texts) for p in waiting) >= BATCH_TEXTS:
            run.tally.reused += feed.add(waiting)
            waiting = []
        run.progress("embedding", done, len(steps.written))
    run.tally.reused += feed.add(waiting)
    feed.drain()
    return kept


def _prepare(run: _Run, space: Space, path: str) -> Iterator[Prepared]:
    """Yield the prepared document, or nothing where it vanished since the scan."""
    try:
        yield prepare(run.documents[path], run.embedder, space.capacity)
    except OSError as error:
        run.vanished[path] = Skipped(path, f"cannot be read ({error.strerror})")


def _write(
    run: _Run,
    store: Store,
    space: Space,
    steps: Plan,
    feed: Feed,
    kept: Kept,
) -> None:
    """Write file after file, a group at a time; old rows leave as new ones arrive."""
    moved_from = {new: old for old, new in steps.renamed}
    paths = steps.written
    for start in range(0, len(paths), _GROUP_FILES):
        group = paths[start : start + _GROUP_FILES]
        prepared = [
            one for path in group for one in _kept_or_prepared(run, space, path, kept)
        ]
        # Finds work only where a file changed between the two passes.
        feed.add(prepared)
        feed.drain()
        with store.transaction():
            changed = 0
            for one in prepared:
                path = one.document.path
                changed += store.remove_file(moved_from.get(path, path))
                changed += store.remove_file(path) + len(one.chunked.chunks)
                failure = _failure(run, one)
                known = store.vector_ids(space.id, one.texts)
                store.add_file(
                    one.document,
                    one.chunked,
                    failure or one.notice,
                    run.recipe,
                    # No space: the next run tries the file again.
                    NO_SPACE if failure else space.id,
                    entries(one, known, run.corpus.trigram),
                )
            store.set_meta(unfinished=len(paths) - start - len(group))
            _count_changed(store, changed)
            store.advance()
        run.progress("writing", start + len(group), len(paths))


def _kept_or_prepared(
    run: _Run, space: Space, path: str, kept: Kept
) -> Iterator[Prepared]:
    prepared = kept.take(path)
    if prepared is None:
        yield from _prepare(run, space, path)
    else:
        yield prepared


def _failure(run: _Run, prepared: Prepared) -> str | None:
    """Say why a document is not wholly inside vectors; None where it is."""
    reasons = [run.tally.refused[d] for d in prepared.texts if d in run.tally.refused]
    if not reasons:
        return None
    return f"{len(reasons)} of {len(prepared.texts)} texts without vector: {reasons[0]}"


# -- finishing --------------------------------------------------------------------


def _finish(
    run: _Run,
    store: Store,
    space: Space,
    steps: Plan,
    indexed: dict[str, IndexedFile],
) -> None:
    """Purge, note what the scan found, and make this space the active one."""
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    with store.transaction():
        _count_changed(store, sum(store.remove_file(path) for path in steps.purged))
        _touch_moved_times(run, store, steps, indexed)
        store.set_meta(
            corpus=run.corpus.name,
            checked_at=now,
            commit=run.found.source.commit,
            synced_at=run.found.source.synced_at,
            dirty=run.found.source.dirty,
            skipped=[
                [s.path, s.reason] for s in (*run.found.skipped, *run.vanished.values())
            ],
            unmatched_scope=list(run.found.unmatched),
        )
        if not steps.is_empty or store.meta("active_space") != space.id:
            live = store.live_vector_count(space.id)
            store.drop_spare_vectors(space.id, max(_MIN_SPARE_VECTORS, live))
            store.remove_other_spaces(space.id)
            changed = len(steps.written) + len(steps.purged)
            store.set_meta(
                active_space=space.id,
                indexed_at=now,
                unfinished=0,
                changed_files=store.meta("changed_files", 0) + changed,
            )
            store.advance()
    _calibrate(run, store, space)


def _count_changed(store: Store, chunks: int) -> None:
    store.set_meta(changed_chunks=store.meta("changed_chunks", 0) + chunks)


def _touch_moved_times(
    run: _Run, store: Store, steps: Plan, indexed: dict[str, IndexedFile]
) -> None:
    documents = run.documents
    for path in steps.unchanged:
        document, file = documents[path], indexed[path]
        if document.mtime_ns != file.mtime_ns:
            store.touch_file(document)


def _calibrate(run: _Run, store: Store, space: Space) -> None:
    """
    Measure what the verdict goes by, where enough has changed since the last time.

    A tenth of the files, or of the passages: the measure is of the corpus as a whole,
    and a small refresh should cost little.
    """
    made_by = [CALIBRATION_VERSION, space.fingerprint]
    is_small = all(
        not changed or _RECALIBRATION_SHARE * changed < store.meta(what, 0)
        for what in ("files", "chunks")
        for changed in [store.meta(f"changed_{what}", 0)]
    )
    if store.meta("calibrated_by") == made_by and is_small:
        return
    store.settle_text()
    calibration = calibrate(store, space, run.embedder)
    with store.transaction():
        store.set_meta(
            calibration=calibration_as_json(calibration),
            calibrated_by=made_by,
            changed_files=0,
            changed_chunks=0,
        )
