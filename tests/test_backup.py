"""Snapshots: whole, consistent, refused where they do not fit, taken up by readers."""

import os
import sqlite3
import threading
from dataclasses import dataclass
from pathlib import Path

import layouts
import numpy as np
import project as kit
import pytest
import tools

from docs_rag.backup import restore_snapshot, take_snapshot
from docs_rag.cli import main
from docs_rag.config import Corpus
from docs_rag.embedding import StubEmbedder
from docs_rag.errors import (
    ConfigError,
    IndexCorruptError,
    IndexLockedError,
    IndexMismatchError,
    IndexMissingError,
    StorageError,
)
from docs_rag.indexer import index_corpus
from docs_rag.locking import corpus_lock
from docs_rag.records import Embedder, Purpose
from docs_rag.resident import ResidentVectors
from docs_rag.store import Store

PAGES = {f"docs/{name}.md": f"# {name}\n\nOn {name}.\n" for name in ("fog", "ice")}


@dataclass
class Place:
    """A corpus "demo" in a folder of its own."""

    corpus: Corpus
    embedder: Embedder

    def write(self, pages: dict[str, str]) -> None:
        layouts.lay_out(self.corpus.directory, pages)

    def index(self) -> None:
        index_corpus(self.corpus, self.embedder)

    @property
    def indexed(self) -> set[str]:
        with Store(self.corpus.index_path) as store:
            return set(store.files())


def make_place(directory: Path) -> Place:
    place = Place(layouts.make_corpus(directory, PAGES), StubEmbedder())
    place.index()
    return place


@pytest.fixture
def place(tmp_path):
    return make_place(tmp_path / "rag")


@pytest.fixture
def snapshot(place, tmp_path):
    path = tmp_path / "copies" / "demo.sqlite"
    path.parent.mkdir()
    take_snapshot(place.corpus, path)
    return path


# -- snapshot ---------------------------------------------------------------------


def test_a_snapshot_is_one_whole_file(place, snapshot):
    """It holds what the index held, is checked, and needs nothing beside it."""
    with Store(snapshot) as copy, Store(place.corpus.index_path) as live:
        assert copy.integrity_problems() == []
        assert copy.files() == live.files()
        assert copy.generation == live.generation
    assert [path.name for path in snapshot.parent.iterdir()] == ["demo.sqlite"]


def test_a_snapshot_can_be_taken_while_the_index_is_written(place, tmp_path):
    """Every copy is of one moment, however many generations go by meanwhile."""
    done = threading.Event()

    def write() -> None:
        for number in range(12):
            place.write({f"docs/page-{number}.md": f"# Page\n\nNumber {number}.\n"})
            place.index()
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    taken = 0
    while not done.is_set():
        path = tmp_path / f"copy-{taken}.sqlite"
        summary = take_snapshot(place.corpus, path)
        with Store(path) as copy:
            assert copy.integrity_problems() == []
            assert len(copy.files()) == summary.files
        taken += 1
    writer.join()

    assert taken > 1


def test_a_snapshot_overwrites_nothing_unless_told(place, snapshot):
    """What is there stays as it is; with --replace it is replaced in one step."""
    before = snapshot.read_bytes()
    place.write({"docs/new.md": "# New\n"})
    place.index()

    with pytest.raises(ConfigError, match="add --replace"):
        take_snapshot(place.corpus, snapshot)
    assert snapshot.read_bytes() == before
    assert take_snapshot(place.corpus, snapshot, replace=True).files == 3
    with pytest.raises(ConfigError, match="is a folder"):
        take_snapshot(place.corpus, snapshot.parent, replace=True)
    with pytest.raises(ConfigError, match="is the index itself"):
        take_snapshot(place.corpus, place.corpus.index_path, replace=True)


def test_a_snapshot_that_cannot_be_written_leaves_nothing(place, tmp_path):
    """A folder that is not there, or may not be written to, is named in one line."""
    with pytest.raises(StorageError, match="nowhere"):
        take_snapshot(place.corpus, tmp_path / "nowhere" / "demo.sqlite")
    closed = tmp_path / "closed"
    closed.mkdir()
    with tools.read_only(closed), pytest.raises(StorageError, match="closed"):
        take_snapshot(place.corpus, closed / "demo.sqlite")
    assert list(closed.iterdir()) == []


@tools.needs_root
def test_a_snapshot_on_a_full_disk_leaves_the_one_before(place, tmp_path):
    """The copy that does not fit goes, and what had the name keeps it."""
    with tools.small_disk(tmp_path / "small", "600k") as disk:
        take_snapshot(place.corpus, disk / "demo.sqlite")
        before = (disk / "demo.sqlite").read_bytes()
        with pytest.raises(StorageError, match=r"disk full|space"):
            for number in range(3):
                place.write({f"docs/big-{number}.md": os.urandom(100_000).hex()})
                place.index()
                take_snapshot(place.corpus, disk / "demo.sqlite", replace=True)
        assert [path.name for path in disk.iterdir()] == ["demo.sqlite"]
        with Store(disk / "demo.sqlite") as copy:
            assert copy.integrity_problems() == []
        assert before


def test_only_a_finished_index_is_copied(tmp_path):
    """Neither nothing nor half an index makes a snapshot."""
    corpus = layouts.make_corpus(tmp_path, PAGES)
    with pytest.raises(IndexMissingError):
        take_snapshot(corpus, tmp_path / "copy.sqlite")
    corpus.data_dir.mkdir()
    with Store(corpus.index_path, writable=True):
        pass
    with pytest.raises(IndexMissingError, match="has not finished"):
        take_snapshot(corpus, tmp_path / "copy.sqlite")
    assert not (tmp_path / "copy.sqlite").exists()


# -- restore ----------------------------------------------------------------------


def test_an_index_moves_to_another_machine(place, snapshot, tmp_path):
    """Restored where there was none, it answers, and a run embeds only what is new."""
    corpus = layouts.make_corpus(tmp_path / "new", {**PAGES, "docs/new.md": "# New\n"})

    restore_snapshot(corpus, snapshot)

    with Store(corpus.index_path) as store:
        assert set(store.files()) == set(PAGES)
        assert store.integrity_problems() == []
    report = index_corpus(corpus, StubEmbedder())
    assert report.added == ("docs/new.md",)
    assert report.embedded >= 1
    assert report.reused == 0
    assert sorted(path.name for path in corpus.data_dir.glob("index.sqlite.*")) == []


def test_readers_see_a_restored_index_as_a_new_one(place, snapshot):
    """Nothing that was cached of the index before is taken for the restored one."""
    vectors = ResidentVectors()
    query = np.asarray(
        place.embedder.embed(["On the quay."], Purpose.PASSAGE).vectors, np.float32
    )[0]

    def nearest(store: Store) -> float:
        with store.snapshot():
            space = store.space(place.embedder.identity.fingerprint)
            assert space is not None
            return max(
                (s for _, s in vectors.nearest(store, space, query, 9)), default=0
            )

    with Store(place.corpus.index_path) as reader:
        place.write({"docs/quay.md": "# Quay\n\nOn the quay.\n"})
        place.index()
        with_quay, generation = nearest(reader), reader.generation
        restore_snapshot(place.corpus, snapshot)
        assert reader.generation > generation
        assert nearest(reader) < with_quay
        assert set(reader.files()) == set(PAGES)
        (place.corpus.directory / "docs/quay.md").write_text("# Quay\n\nNo ship.\n")
        place.index()
        assert nearest(reader) < with_quay


def _other_program(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE t(a)")
    database.close()


def _damaged(path: Path) -> None:
    data = bytearray(path.read_bytes())
    for start in range(3 * 16384, len(data), 16384):
        data[start : start + 512] = b"\xa5" * 512
    path.write_bytes(data)


def _newer(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version = 999")
    database.close()


UNFIT = {
    "not there": (lambda path: path.unlink(), IndexMissingError),
    "text": (lambda path: path.write_text("# Not an index\n" * 99), IndexCorruptError),
    "of another program": (
        lambda path: path.unlink() or _other_program(path),
        IndexCorruptError,
    ),
    "cut off": (lambda path: os.truncate(path, 50_000), IndexCorruptError),
    "damaged inside": (_damaged, IndexCorruptError),
    "of a newer docs-rag": (_newer, IndexMismatchError),
}


@pytest.mark.parametrize(("spoil", "error"), UNFIT.values(), ids=UNFIT)
def test_what_is_no_good_snapshot_changes_nothing(place, snapshot, spoil, error):
    """It is checked before the index is touched."""
    spoil(snapshot)
    before = place.corpus.index_path.read_bytes()

    with pytest.raises(error):
        restore_snapshot(place.corpus, snapshot)
    assert place.corpus.index_path.read_bytes() == before
    assert sorted(path.name for path in place.corpus.data_dir.glob("*.restore*")) == []


def test_a_snapshot_of_another_corpus_is_refused(place, snapshot, tmp_path):
    """Both names are in the message."""
    layouts.lay_out(tmp_path / "other" / "corpus" / "tides", PAGES)
    layouts.configure(tmp_path / "other", {"tides": {"roots": ["docs"]}})
    words = ["--rag-dir", str(tmp_path / "other"), "--corpus", "tides"]

    assert main(["restore", str(snapshot), *words]) == 2


def test_a_restore_waits_for_nobody(place, snapshot):
    """While an indexer is at work it is refused with exit code 75."""
    with (
        corpus_lock(place.corpus.lock_path, "demo"),
        pytest.raises(IndexLockedError),
    ):
        restore_snapshot(place.corpus, snapshot)


def test_a_damaged_index_is_set_aside_by_a_restore(place, snapshot):
    """What was in the place is not destroyed."""
    for path in place.corpus.data_dir.glob("index.sqlite-*"):
        path.unlink()
    place.corpus.index_path.write_bytes(b"not an index" * 9999)

    restore_snapshot(place.corpus, snapshot)

    assert place.indexed == set(PAGES)
    damaged = place.corpus.data_dir / "index.sqlite.damaged"
    assert damaged.read_bytes().startswith(b"not an index")


# -- the commands -----------------------------------------------------------------


def test_a_server_takes_up_what_was_restored(tmp_path):
    """Snapshot, lose pages, restore: the running server answers from the copy."""
    project = kit.make_project(tmp_path)
    project.index()
    copy = str(tmp_path / "copy.sqlite")
    with project.serving() as running:
        assert kit.retrieve(running.url, "the fuse of the lamp")["hits"]
        taken = project.run("snapshot", copy)
        (project.corpus_dir / "docs" / "lamps.md").unlink()
        project.index()
        status = kit.call(running.url, "corpus_status").structured_content
        assert status["files"] == 2

        restored = project.run("restore", copy)

        assert (taken.returncode, restored.returncode) == (0, 0), restored.stderr
        assert "corpus wexcombe, generation" in taken.stdout
        after = kit.call(running.url, "corpus_status").structured_content
        assert after["files"] == 3
        assert after["generation"] > status["generation"]
