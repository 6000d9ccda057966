"""Opening, changing, replacing and losing an index file; what the user is told."""

import contextlib
import os
import shutil
import stat
import subprocess
import sys
import threading
from pathlib import Path

import apsw
import pytest
from helpers import make_store
from layouts import ordinary_user

from docs_rag.database import Database
from docs_rag.errors import (
    DocsRagError,
    IndexCorruptError,
    IndexMismatchError,
    IndexMissingError,
    StorageError,
)
from docs_rag.schema import APPLICATION_ID, MIGRATIONS, WORDS_TOKENIZER

TESTS = Path(__file__).resolve().parent


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "index.sqlite"


@pytest.fixture
def built(path: Path) -> Path:
    """An index of forty files, closed."""
    index = make_store(path)
    with index.store, index.store.transaction():
        for number in range(40):
            index.put_inside(f"docs/{number:02}.md", f"Page {number}. " + "text " * 200)
    return path


def raw(path: Path, *statements: str) -> None:
    """Change a file behind the back of the package."""
    connection = apsw.Connection(str(path))
    for statement in statements:
        connection.execute(statement)
    connection.close()


# -- opening ----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["index.sqlite", "gone/index.sqlite"])
def test_no_index_is_said(tmp_path: Path, name: str) -> None:
    """A reader of nothing is told how to build it, and makes no file."""
    with pytest.raises(IndexMissingError, match=r"no index at .*`docs-rag index`"):
        Database(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_a_file_below_a_file_is_no_index(tmp_path: Path) -> None:
    """A path through something that is no folder names no index."""
    (tmp_path / "data").write_text("a file")
    with pytest.raises(IndexMissingError):
        Database(tmp_path / "data" / "index.sqlite")


def test_a_new_index_is_empty_and_current(path: Path) -> None:
    """The first writer makes all tables, in the format this program knows."""
    with Database(path, writable=True) as database:
        assert database.version == len(MIGRATIONS)
        assert database.value("PRAGMA application_id") == APPLICATION_ID
        assert database.value("PRAGMA journal_mode") == "wal"
        assert database.value("PRAGMA page_size") == 16384
        assert database.integrity_problems() == []


def test_a_zero_byte_file_becomes_an_index(path: Path) -> None:
    """An empty file is no index for a reader, and a new one for a writer."""
    path.touch()
    with pytest.raises(IndexMissingError, match="holds no index yet"):
        Database(path)
    Database(path, writable=True).close()
    with Database(path) as database:
        assert database.version == len(MIGRATIONS)


def damage_start(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(b"\xa5" * 16384)


def damage_middle(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(16384)
        file.write(b"\xa5" * (path.stat().st_size - 16384))


def truncate(path: Path) -> None:
    os.truncate(path, 20_000)


def replace_by_text(path: Path) -> None:
    path.write_text("<<<<<<< HEAD\n" * 2000)


def replace_by_other_program(path: Path) -> None:
    path.unlink()
    raw(path, "CREATE TABLE meta(key, value)", "CREATE TABLE files(path, sha)")


def replace_by_other_version(path: Path) -> None:
    replace_by_other_program(path)
    raw(path, "PRAGMA user_version = 1")


BROKEN = [
    pytest.param(damage_start, id="first page overwritten"),
    pytest.param(damage_middle, id="other pages overwritten"),
    pytest.param(truncate, id="truncated"),
    pytest.param(replace_by_text, id="not a database"),
    pytest.param(replace_by_other_program, id="another program's database"),
    pytest.param(replace_by_other_version, id="another program's version 1"),
]


@pytest.mark.parametrize("writable", [False, True], ids=["reading", "writing"])
@pytest.mark.parametrize("damage", BROKEN)
def test_a_broken_index_is_named_and_left_alone(built, damage, writable) -> None:
    """What is no index is refused with the way out, and not a byte of it changes."""
    damage(built)
    before = built.read_bytes()
    with (
        pytest.raises(IndexCorruptError, match=r"`docs-rag index --full`") as caught,
        Database(built, writable=writable) as database,
    ):
        # Some damage shows only where it is read.
        database.rows("SELECT * FROM chunks")
        database.rows("SELECT * FROM words_data")
    assert str(built) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert built.read_bytes() == before


@pytest.mark.parametrize("writable", [False, True], ids=["reading", "writing"])
def test_a_newer_index_is_refused(built: Path, writable: bool) -> None:
    """A schema of tomorrow is neither read nor written, and both versions are named."""
    raw(built, f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    with pytest.raises(
        IndexMismatchError,
        match=rf"has schema {len(MIGRATIONS) + 1}.*up to {len(MIGRATIONS)}: upgrade",
    ):
        Database(built, writable=writable)


@pytest.mark.parametrize("writable", [False, True], ids=["reading", "writing"])
def test_a_folder_is_no_index(tmp_path: Path, writable: bool) -> None:
    """A folder in the place of the index is named in the message."""
    with pytest.raises(StorageError, match=rf"cannot use {tmp_path} "):
        Database(tmp_path, writable=writable)


def test_an_index_without_a_folder_cannot_be_made(tmp_path: Path) -> None:
    """A writer says which file it could not make."""
    path = tmp_path / "gone" / "index.sqlite"
    with pytest.raises(StorageError, match=rf"{path} .*folder exists"):
        Database(path, writable=True)


def test_damage_is_found_by_the_check(built: Path) -> None:
    """A full-text index that lost a page does not pass for a sound one."""
    raw(built, "DELETE FROM words_data WHERE id > 100")
    with Database(built) as database:
        assert any("words" in problem for problem in database.integrity_problems())


# -- permissions ------------------------------------------------------------------


def others_may(path: Path, *, write: bool) -> None:
    """Let every account read ``path``, and write below it or not."""
    for folder in [path, *path.parents]:
        if folder.stat().st_uid == os.geteuid() and "pytest" in str(folder):
            folder.chmod(0o777 if write and folder == path else 0o755)


def test_a_folder_one_may_only_read_can_be_asked(built: Path) -> None:
    """An index without a writer is readable without any right to write."""
    others_may(built.parent, write=False)
    with ordinary_user(), Database(built) as database:
        assert database.value("SELECT count(*) FROM files") == 40
        assert database.integrity_problems() == []
    assert [p.name for p in built.parent.iterdir()] == [built.name]


def test_a_reader_without_rights_sees_a_live_writer(built: Path) -> None:
    """In a folder it may not write to, a reader still follows another's commits."""
    others_may(built.parent, write=False)
    with Database(built, writable=True) as writer:
        writer.rows("UPDATE meta SET value = '1' WHERE key = 'active_space'")
        with ordinary_user(), Database(built) as reader:
            reader.rows("SELECT count(*) FROM files")
            assert not reader.is_immutable
        writer.rows("DELETE FROM files WHERE path = 'docs/00.md'")
        with ordinary_user(), Database(built) as reader:
            assert reader.value("SELECT count(*) FROM files") == 39


def test_a_log_that_cannot_be_read_is_not_passed_over(
    built: Path, tmp_path: Path
) -> None:
    """Commits that are in a dead writer's log are not left out silently."""
    copy = tmp_path / "copy" / "index.sqlite"
    copy.parent.mkdir()
    with Database(built, writable=True) as writer:
        writer.rows("DELETE FROM files WHERE path = 'docs/00.md'")
        for suffix in ("", "-wal"):
            shutil.copy(f"{built}{suffix}", f"{copy}{suffix}")
    others_may(copy.parent, write=False)
    with ordinary_user(), contextlib.suppress(StorageError), Database(copy) as reader:
        assert reader.value("SELECT count(*) FROM files") == 39


def test_a_writer_without_rights_is_told(built: Path) -> None:
    """Writing where one may not fails with the path and what to check."""
    others_may(built.parent, write=False)
    with ordinary_user(), pytest.raises(StorageError, match="is writable") as caught:
        Database(built, writable=True)
    assert str(built) in str(caught.value)


def test_an_unreadable_folder_is_told(built: Path) -> None:
    """A reader that may not look into the folder is not told to build an index."""
    others_may(built.parent, write=False)
    built.parent.chmod(0)
    try:
        with (
            ordinary_user(),
            pytest.raises(StorageError, match=r"Permission denied.*permissions"),
        ):
            Database(built)
    finally:
        built.parent.chmod(stat.S_IRWXU)


# -- migrations -------------------------------------------------------------------


def test_an_older_index_is_migrated_in_place(built: Path) -> None:
    """What a later version adds is applied to the file, which keeps all it holds."""
    later = (
        *MIGRATIONS,
        "ALTER TABLE files ADD COLUMN language TEXT NOT NULL DEFAULT 'en';"
        "UPDATE files SET language = 'de' WHERE path = 'docs/00.md';",
        "CREATE TABLE notes(text)",
    )
    with Database(built, writable=True) as database:
        before = database.rows("SELECT id, path, sha256 FROM files")
        database.migrate(later)

        assert database.version == len(later)
        assert database.rows("SELECT id, path, sha256 FROM files") == before
        assert database.rows("SELECT path FROM files WHERE language = 'de'") == [
            ("docs/00.md",)
        ]
        # A second time there is nothing left to apply: it would fail.
        database.migrate(later)


def test_a_failing_migration_leaves_the_version_before(built: Path) -> None:
    """A migration that fails half way is undone; those before it stay."""
    good = "CREATE TABLE notes(text)"
    bad = "CREATE TABLE more(text); INSERT INTO nowhere VALUES(1)"
    with Database(built, writable=True) as database:
        with pytest.raises(IndexCorruptError):
            database.migrate((*MIGRATIONS, good, bad))
        names = [row[0] for row in database.rows("SELECT name FROM sqlite_schema")]

        assert database.version == len(MIGRATIONS) + 1
        assert "notes" in names
        assert "more" not in names


def test_the_tokenizer_of_queries_is_that_of_the_index() -> None:
    """What cuts a query's words is declared in the word index, to the last argument."""
    plain = MIGRATIONS[0].replace("'", "")

    assert f'tokenize="{" ".join(WORDS_TOKENIZER)}"' in plain
    assert f"application_id = {hex(APPLICATION_ID)}".lower() in plain.lower()


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Databases released", ["databas", "releas"]),
        ("brücke", ["bruck"]),
        ("हिन्दी", ["हिन्दी"]),
        ("", []),
        ("-- !", []),
    ],
)
def test_words_are_stemmed_as_in_the_index(path, text, tokens) -> None:
    """A tokenizer by name and arguments cuts text as the full-text table does."""
    with Database(path, writable=True) as database:
        assert database.tokenize(WORDS_TOKENIZER, text) == tokens


# -- transactions -----------------------------------------------------------------


@pytest.mark.parametrize(
    "error", [ZeroDivisionError, KeyboardInterrupt, GeneratorExit, StorageError]
)
def test_a_failed_transaction_leaves_nothing(built: Path, error) -> None:
    """Any exception undoes all writes of the block and comes through unchanged."""
    with Database(built, writable=True) as database:
        with pytest.raises(error), database.transaction():
            database.rows("DELETE FROM files")
            raise error
        assert database.value("SELECT count(*) FROM files") == 40
        with database.transaction():
            database.rows("DELETE FROM files WHERE path = 'docs/00.md'")
        assert database.value("SELECT count(*) FROM files") == 39


def test_a_failed_statement_undoes_its_transaction(built: Path) -> None:
    """A statement that SQLite refuses takes the ones before it along."""
    with Database(built, writable=True) as database:
        with pytest.raises(DocsRagError), database.transaction():
            database.rows("DELETE FROM files WHERE path = 'docs/00.md'")
            database.rows("INSERT INTO files(path) VALUES('docs/01.md')")
        assert database.value("SELECT count(*) FROM files") == 40


def test_readers_do_not_see_half_a_transaction(built: Path) -> None:
    """Until the commit a reader sees the old state, and then the new one."""
    with Database(built, writable=True) as writer, Database(built) as reader:
        with writer.transaction():
            writer.rows("DELETE FROM files")
            assert reader.value("SELECT count(*) FROM files") == 40
        assert reader.value("SELECT count(*) FROM files") == 0


def test_a_snapshot_stands_still(built: Path) -> None:
    """Inside a snapshot a reader keeps the old state; the next one has the new."""
    with Database(built, writable=True) as writer, Database(built) as reader:
        with reader.snapshot():
            assert reader.value("SELECT count(*) FROM files") == 40
            with writer.transaction():
                writer.rows("DELETE FROM files")
            assert reader.value("SELECT count(*) FROM files") == 40
        with reader.snapshot():
            assert reader.value("SELECT count(*) FROM files") == 0


def test_a_snapshot_ends_with_its_block(built: Path) -> None:
    """A block that fails leaves no snapshot behind that would hold the past."""
    with Database(built, writable=True) as writer, Database(built) as reader:
        with pytest.raises(ZeroDivisionError), reader.snapshot():
            reader.value("SELECT count(*) FROM files")
            raise ZeroDivisionError
        writer.rows("DELETE FROM files")
        assert reader.value("SELECT count(*) FROM files") == 0


def test_a_reader_cannot_write(built: Path) -> None:
    """Opened for reading, an index stays as it is."""
    with Database(built) as reader:
        with pytest.raises(StorageError, match="readonly"):
            reader.rows("DELETE FROM files")
        assert reader.value("SELECT count(*) FROM files") == 40


def test_a_second_writer_waits_and_then_says_so(built: Path) -> None:
    """Writing while another program writes ends in a sentence, not in a hang."""
    with Database(built, writable=True) as one, Database(built, writable=True) as two:
        two.rows("PRAGMA busy_timeout = 50")
        with one.transaction():
            one.rows("DELETE FROM files WHERE path = 'docs/00.md'")
            with (
                pytest.raises(StorageError, match="held by another program"),
                two.transaction(),
            ):
                pytest.fail("two write at once")
        with two.transaction():
            two.rows("DELETE FROM files WHERE path = 'docs/01.md'")
        assert one.value("SELECT count(*) FROM files") == 38


# -- a full disk ------------------------------------------------------------------


def test_a_full_disk_keeps_the_last_commit(built: Path) -> None:
    """A write that finds no space is undone and says so; afterwards all goes on."""
    with Database(built, writable=True) as database:
        pages = database.value("PRAGMA page_count")
        database.rows(f"PRAGMA max_page_count = {pages}")
        with (
            pytest.raises(StorageError, match=r"disk full while writing .*free some"),
            database.transaction(),
        ):
            database.rows("DELETE FROM sections")
            database.rows("UPDATE chunks SET tail = zeroblob(100000)")
        assert database.value("SELECT count(*) FROM sections") == 40
        assert database.integrity_problems() == []
        database.rows("PRAGMA max_page_count = 1000000")
        with database.transaction():
            database.rows("UPDATE chunks SET tail = zeroblob(100000)")


# Run in a mount namespace of its own, so that the mount ends with the process.
FILL_DISK = """
import os, sys
from pathlib import Path
from helpers import make_store
from docs_rag.database import Database
from docs_rag.errors import StorageError

path = Path(sys.argv[1]) / "index.sqlite"
index = make_store(path)
index.put("docs/a.md", "The page that was there before.")
try:
    for number in range(400):
        index.put(f"docs/{number}.md", f"{number} " + os.urandom(4000).hex())
except StorageError as error:
    print(error)
with Database(path) as reader:
    print(reader.integrity_problems())
    print(reader.value("SELECT title FROM files WHERE path = 'docs/a.md'"))
index.store.close()
"""


def test_a_disk_that_is_really_full(tmp_path: Path) -> None:
    """On a file system without space the index stays whole and readable."""
    isolated = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    mount = 'mount -t tmpfs -o size=1m tmpfs "$1"'
    if (
        shutil.which("unshare") is None
        or subprocess.run(
            [*isolated, mount, "sh", str(tmp_path)], capture_output=True
        ).returncode
    ):
        pytest.skip("this account cannot mount a file system")
    done = subprocess.run(
        [
            *(*isolated, f'{mount} && "$2" -c "$3" "$1"'),
            *("sh", str(tmp_path), sys.executable, FILL_DISK),
        ],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(TESTS.parent), str(TESTS)]),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    message, problems, title = done.stdout.splitlines()

    assert str(tmp_path) in message
    assert "space" in message
    assert (problems, title) == ("[]", "Manual")


# -- replacing --------------------------------------------------------------------


def make_other(path: Path, count: int) -> Path:
    with make_store(path).store as store:
        for number in range(count):
            store.rows("INSERT INTO spaces VALUES(?,?,'','',1,1)", 100 + number, number)
    return path


def test_a_replacement_is_seen_at_once_and_whole(built: Path, tmp_path: Path) -> None:
    """Open readers see the new index in their next snapshot, the old one in this."""
    other = make_other(tmp_path / "other.sqlite", 3)
    with (
        Database(built) as inside,
        Database(built) as outside,
        inside.snapshot(),
    ):
        assert inside.value("SELECT count(*) FROM files") == 40
        with Database(built, writable=True) as live, Database(other) as fresh:
            live.replace_with(fresh)
            assert live.value("SELECT count(*) FROM files") == 0
        assert inside.value("SELECT count(*) FROM files") == 40
        assert inside.value("SELECT count(*) FROM spaces") == 1
        assert outside.value("SELECT count(*) FROM files") == 0
        assert outside.value("SELECT count(*) FROM spaces") == 4
        assert outside.integrity_problems() == []
    with Database(built) as later:
        assert later.value("SELECT count(*) FROM spaces") == 4
        assert later.version == len(MIGRATIONS)


def test_a_replacement_is_never_seen_half(built: Path, tmp_path: Path) -> None:
    """While indexes are swapped, each snapshot of a reader is one of them."""
    originals = [tmp_path / "first.sqlite", make_other(tmp_path / "second.sqlite", 5)]
    shutil.copy(built, originals[0])
    seen: set[tuple[int, int]] = set()
    problems: list[Exception] = []
    done = threading.Event()

    def read() -> None:
        try:
            with Database(built) as reader:
                while not done.is_set():
                    with reader.snapshot():
                        files = reader.value("SELECT count(*) FROM files")
                        spaces = reader.value("SELECT count(*) FROM spaces")
                    seen.add((files, spaces))
        except Exception as error:
            problems.append(error)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    with Database(built, writable=True) as live:
        for turn in range(20):
            with Database(originals[turn % 2]) as fresh:
                live.replace_with(fresh)
    done.set()
    for reader in readers:
        reader.join()

    assert problems == []
    assert seen <= {(40, 1), (0, 6)}
    assert seen


def test_a_replacement_that_does_not_fit_changes_nothing(
    built: Path, tmp_path: Path
) -> None:
    """Without space for the new index the old one goes on serving."""
    other = make_store(tmp_path / "other.sqlite")
    for number in range(60):
        other.put(f"docs/{number}.md", os.urandom(20_000).hex())
    other.store.close()
    with Database(built, writable=True) as live, Database(other.store.path) as fresh:
        live.rows(f"PRAGMA max_page_count = {live.value('PRAGMA page_count')}")
        with pytest.raises(StorageError):
            live.replace_with(fresh)
        assert live.value("SELECT count(*) FROM files") == 40
        assert live.integrity_problems() == []
    with Database(built) as reader:
        assert reader.value("SELECT count(*) FROM files") == 40
