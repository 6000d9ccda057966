"""doctor: every fault has a name and a remedy, and a rebuild mends what it can."""

import json
import os
import sqlite3
import time
from pathlib import Path

import layouts
import project as kit
import pytest
import tools

from docs_rag import filesystem
from docs_rag.cli import main
from docs_rag.doctor import examine
from docs_rag.embedding import StubEmbedder
from docs_rag.errors import StorageError
from docs_rag.filesystem import NETWORK_KINDS, kind_at, network_kind
from docs_rag.indexer import index_corpus
from docs_rag.store import Store

PAGES = {
    f"docs/{name}.md": f"# {name}\n\n" + f"On {name}, at length.\n" * 40
    for name in ("fog", "ice", "tide", "wind")
}


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    """An indexed corpus, and this process set up to work on it."""
    monkeypatch.setenv("RAG_DIR", str(tmp_path))
    monkeypatch.setenv("RAG_CORPUS", "demo")
    monkeypatch.setenv("RAG_EMBED_BACKEND", "stub")
    corpus = layouts.make_corpus(tmp_path, PAGES)
    index_corpus(corpus, StubEmbedder())
    return corpus


def faults(corpus) -> list[str]:
    return [finding.what for finding in examine(corpus) if finding.is_fault]


def remarks(corpus) -> list[str]:
    return [finding.what for finding in examine(corpus) if not finding.is_fault]


def test_a_healthy_corpus_has_no_findings(corpus, capfd):
    """Nothing to say, exit 0; and --rebuild has nothing to do."""
    assert examine(corpus) == ()
    before = corpus.index_path.read_bytes()
    assert main(["doctor"]) == 0
    assert main(["doctor", "--rebuild"]) == 0
    assert capfd.readouterr().out == "demo: healthy\n" * 2
    assert corpus.index_path.read_bytes() == before


# -- damage -----------------------------------------------------------------------


def sql(*statements: str):
    """Return a damage: statements run behind the back of docs-rag."""

    def damage(path: Path) -> None:
        database = sqlite3.connect(path)
        database.executescript(";".join(statements))
        database.commit()
        database.close()

    return damage


def _flip_pages(path: Path) -> None:
    with Store(path, writable=True) as store:
        store.rows("PRAGMA wal_checkpoint(TRUNCATE)")
    data = bytearray(path.read_bytes())
    for start in range(4 * 16384, len(data), 2 * 16384):
        data[start + 8 : start + 4096] = b"\xa5" * 4088
    path.write_bytes(data)


def _replace(content: bytes):
    def damage(path: Path) -> None:
        for beside in path.parent.glob("index.sqlite-*"):
            beside.unlink()
        path.write_bytes(content)

    return damage


def _cut(path: Path) -> None:
    with Store(path, writable=True) as store:
        store.rows("PRAGMA wal_checkpoint(TRUNCATE)")
    os.truncate(path, path.stat().st_size // 2)


DAMAGES = {
    "no index": (lambda path: path.unlink(), "no index at"),
    "not SQLite": (_replace(b"# Not a database\n" * 999), "is not a readable index"),
    "an empty file": (_replace(b""), "holds no index"),
    "cut off": (_cut, "index"),
    "pages overwritten": (_flip_pages, "index"),
    "another program's": (
        sql("PRAGMA application_id = 7"),
        "is a database, but no index",
    ),
    "a newer schema": (sql("PRAGMA user_version = 999"), "has schema 999"),
    "orphan rows": (
        sql("PRAGMA foreign_keys = OFF", "DELETE FROM files WHERE id = 1"),
        "orphan row",
    ),
    "no words": (sql("DELETE FROM words_docsize WHERE id = 1"), "without its words"),
    "no trigrams": (
        sql("DELETE FROM trigrams_docsize WHERE id = 1"),
        "without its trigrams",
    ),
    "a vector that is missing": (
        sql("PRAGMA foreign_keys = OFF", "DELETE FROM vectors WHERE id = 1"),
        "orphan row",
    ),
    "a chunk that is in no vector": (
        sql("DELETE FROM windows WHERE chunk_id = 1"),
        "chunk without a vector: 1",
    ),
    "another corpus": (
        sql("UPDATE meta SET value = '\"tides\"' WHERE key = 'corpus'"),
        "is an index of corpus 'tides'",
    ),
    "a run that was cut short": (
        sql("UPDATE meta SET value = '3' WHERE key = 'unfinished'"),
        "interrupted with 3 files to go",
    ),
}


@pytest.mark.parametrize(("damage", "said"), DAMAGES.values(), ids=DAMAGES)
def test_damage_is_named_and_a_rebuild_mends_it(corpus, capfd, damage, said):
    """Exit 1 and what is wrong; --rebuild builds from the corpus, exit 0."""
    damage(corpus.index_path)

    assert main(["doctor"]) == 1
    out = capfd.readouterr().out
    assert said in out
    assert out.endswith("demo: NOT HEALTHY\n")
    assert "Traceback" not in out
    assert main(["doctor", "--rebuild"]) == 0
    assert capfd.readouterr().out.endswith("demo: healthy\n")
    assert faults(corpus) == []
    with Store(corpus.index_path) as store:
        assert set(store.files()) == set(PAGES)


def test_what_was_damaged_is_set_aside_and_mentioned(corpus):
    """The old file is not destroyed, and not forgotten either."""
    _replace(b"# Not a database\n" * 999)(corpus.index_path)

    assert main(["doctor", "--rebuild"]) == 0
    assert any("set aside as damaged" in what for what in remarks(corpus))


def test_nothing_is_rebuilt_from_nothing(corpus, capfd):
    """Where the corpus is not mounted, a damaged index is better than none."""
    corpus.directory.rename(corpus.directory.with_name("away"))
    corpus.index_path.write_bytes(b"damaged" * 9999)

    assert main(["doctor", "--rebuild"]) == 2
    err = capfd.readouterr().err
    assert "cannot rebuild: the corpus folder" in err
    assert corpus.index_path.read_bytes().startswith(b"damaged")


def test_findings_are_there_for_machines(corpus, capfd):
    """--json says whether it is healthy, and each finding with its remedy."""
    corpus.index_path.unlink()

    assert main(["doctor", "--json"]) == 1
    report = json.loads(capfd.readouterr().out)
    assert report["healthy"] is False
    (finding,) = report["findings"]
    assert finding["what"].startswith("no index at")
    assert "docs-rag index" in finding["remedy"]


# -- places -----------------------------------------------------------------------


def test_folders_that_are_missing_or_empty_are_named(corpus):
    """A corpus that is not there, or whose scope matches nothing."""
    docs = corpus.directory / "docs"
    docs.rename(corpus.directory / "away")
    assert any("the scope matches no file" in what for what in faults(corpus))
    corpus.directory.rename(corpus.directory.with_name("gone"))
    assert any("is not there" in what for what in faults(corpus))


def test_a_data_folder_that_is_read_only_is_remarked_on(corpus):
    """Questions are answered from it; only a run of this account would fail."""
    with tools.read_only(corpus.data_dir):
        assert faults(corpus) == []
        assert any("is not writable for this account" in it for it in remarks(corpus))


@pytest.mark.parametrize("folder", ["data-demo", "corpus/demo", "corpus", "."])
def test_a_folder_that_cannot_be_entered_is_a_finding(corpus, tmp_path, folder):
    """Whatever folder is closed to this account, the doctor says so and goes on."""
    closed = tmp_path / folder
    closed.chmod(0o700 if os.geteuid() == 0 else 0)
    try:
        with layouts.ordinary_user():
            found = faults(corpus)
    finally:
        closed.chmod(0o755)

    assert found
    assert all("\n" not in what for what in found)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_corpus_that_cannot_be_read_is_a_fault(corpus):
    """The next run would find nothing."""
    corpus.directory.chmod(0)
    try:
        found = faults(corpus)
    finally:
        corpus.directory.chmod(0o755)

    assert any("is not readable for this account" in what for what in found)


def test_leftovers_of_killed_runs_are_remarked_on(corpus):
    """They are no fault, and the next such run takes them away."""
    for name in ("index.sqlite.rebuild", "index.sqlite.restore"):
        (corpus.data_dir / name).write_bytes(b"")

    assert faults(corpus) == []
    assert len(remarks(corpus)) == 2


def test_clocks_that_jumped_are_named(corpus):
    """A time that has not come yet: a fault of the index, a remark of a file."""
    future = time.time() + 86_400
    path = corpus.directory / "docs" / "fog.md"
    os.utime(path, (future, future))
    index_corpus(corpus, StubEmbedder())
    assert faults(corpus) == []
    assert any("docs/fog.md has not come yet" in what for what in remarks(corpus))
    with Store(corpus.index_path, writable=True) as store, store.transaction():
        store.set_meta(indexed_at="2999-01-01T00:00:00+00:00")
    assert any("which has not come yet" in what for what in faults(corpus))
    # The clock that jumped back costs nothing: content decides.
    path.write_text("# Fog\n\nIt has lifted.\n")
    os.utime(path, (0, 0))
    assert index_corpus(corpus, StubEmbedder()).changed == ("docs/fog.md",)
    assert faults(corpus) == []


LINUX = """\
22 28 0:21 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
30 22 0:40 / /srv/share rw,relatime shared:2 master:1 - nfs4 nas:/export rw,vers=4.2
31 30 8:1 / /srv/share/local rw - xfs /dev/sdb1 rw
32 22 0:41 / /mnt/my\\040disk rw - cifs //nas/docs rw
33 22 0:42 / /mnt/over rw - ext4 /dev/sdc1 rw
34 22 0:43 / /mnt/over rw - fuse.sshfs nas:/ rw
"""
MACOS = """\
/dev/disk3s1s1 on / (apfs, sealed, local, read-only, journaled)
//me@nas/docs on /Volumes/docs (smbfs, nodev, nosuid, mounted by me)
/dev/disk4s1 on /Volumes/Time (out) (hfs, local, nodev)
"""
KINDS = {
    "a local disk": (LINUX, "/home/rag", "ext4"),
    "a share": (LINUX, "/srv/share/rag", "nfs4"),
    "the share itself": (LINUX, "/srv/share", "nfs4"),
    "a name that only begins so": (LINUX, "/srv/shared", "ext4"),
    "a disk below a share": (LINUX, "/srv/share/local/x", "xfs"),
    "a blank in the name": (LINUX, "/mnt/my disk/x", "cifs"),
    "the later of two": (LINUX, "/mnt/over/x", "fuse.sshfs"),
    "macOS: a local disk": (MACOS, "/Users/me", "apfs"),
    "macOS: a share": (MACOS, "/Volumes/docs/x", "smbfs"),
    "macOS: brackets": (MACOS, "/Volumes/Time (out)/x", "hfs"),
    "no table": ("", "/x", None),
}


@pytest.mark.parametrize(("mounts", "path", "kind"), KINDS.values(), ids=KINDS)
def test_the_kind_of_a_file_system_is_that_of_its_mount(mounts, path, kind):
    """The longest mount point that holds the path, on Linux and on macOS."""
    assert kind_at(path, mounts) == kind


def test_an_index_on_a_network_share_is_warned_about(corpus, monkeypatch, capfd):
    """By doctor and by every run, which go on: it may be all there is."""
    assert network_kind(corpus.data_dir) is None
    mounts = f"1 1 0:1 / {corpus.data_dir} rw - nfs4 nas:/ rw\n"
    table = corpus.data_dir.parent / "mountinfo"
    table.write_text(mounts)
    monkeypatch.setattr(filesystem, "_MOUNTS", table)

    assert {"nfs4", "cifs", "smbfs", "fuse.sshfs"} <= NETWORK_KINDS
    assert main(["index"]) == 0
    assert "is on a network share (nfs4)" in capfd.readouterr().err
    assert main(["doctor"]) == 0
    assert "remark: " in capfd.readouterr().out


# -- disks ------------------------------------------------------------------------


@tools.needs_root
def test_a_full_disk_loses_nothing(tmp_path):
    """The run says so, the index answers as before, and the next run goes on."""
    with tools.small_disk(tmp_path / "small", "24m") as disk:
        corpus = layouts.make_corpus(tmp_path, PAGES, data_dir=str(disk / "data"))
        index_corpus(corpus, StubEmbedder())
        free_bytes = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
        (disk / "filler").write_bytes(b"x" * (free_bytes - 400_000))
        pages = {f"docs/{number}.md": os.urandom(10_000).hex() for number in range(20)}
        layouts.lay_out(corpus.directory, pages)

        with pytest.raises(StorageError, match="disk full"):
            index_corpus(corpus, StubEmbedder())

        assert any("MB of space left" in what for what in remarks(corpus))
        with Store(corpus.index_path) as store:
            assert set(PAGES) <= set(store.files())
            assert store.integrity_problems() == []
        (disk / "filler").unlink()
        index_corpus(corpus, StubEmbedder())
        assert faults(corpus) == []
        with Store(corpus.index_path) as store:
            assert len(store.files()) == 20 + len(PAGES)


def test_a_data_folder_that_cannot_be_written_is_said_in_one_line(tmp_path):
    """Exit 1, the folder and the remedy; what was indexed goes on answering."""
    project = kit.make_project(tmp_path)
    project.index()
    project.write({"docs/new.md": "# New\n"})
    with tools.read_only(project.data_dir):
        done = project.run("index")
        asked = project.run("query", "the fuse of the lamp")

    assert done.returncode == 1
    assert len(done.stderr.strip().splitlines()) == 1
    assert str(project.data_dir) in done.stderr
    assert asked.returncode == 0, asked.stderr
