"""What an answer says of a file is what the disk says."""

import os
from pathlib import Path

import pytest
from helpers import make_stored
from layouts import ordinary_user

from docs_rag.freshness import Freshness, FreshnessCheck
from docs_rag.schema import StoredChunk

TEXT = b"Turn it on.\n"


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    folder = tmp_path / "corpus"
    (folder / "docs").mkdir(parents=True)
    for name in ("docs/a.md", "docs/b.md", "README.md"):
        (folder / name).write_bytes(TEXT)
    return folder


def indexed(corpus: Path, path: str = "docs/a.md", ordinal: int = 0) -> StoredChunk:
    """A chunk of the file as it is now."""
    mtime_ns = (corpus / path).stat().st_mtime_ns
    return make_stored(path=path, content=TEXT, mtime_ns=mtime_ns, ordinal=ordinal)


def look(corpus: Path, chunk: StoredChunk) -> Freshness:
    return FreshnessCheck(corpus).of(chunk)


def set_time(path: Path, nanoseconds: int) -> None:
    os.utime(path, ns=(nanoseconds, nanoseconds))


@pytest.mark.parametrize("path", ["docs/a.md", "README.md"])
def test_an_untouched_file_is_current(corpus: Path, path: str) -> None:
    """The same size and time are the same file."""
    assert look(corpus, indexed(corpus, path)) is Freshness.CURRENT


def test_a_touched_file_is_current(corpus: Path) -> None:
    """Another time with the same bytes, as after a checkout, is no change."""
    chunk = indexed(corpus)
    set_time(corpus / "docs/a.md", 12345)

    assert look(corpus, chunk) is Freshness.CURRENT


@pytest.mark.parametrize("edited", [b"Turn it off\n", b"Turn it on.\nNow.\n", b""])
def test_an_edited_file_is_stale(corpus: Path, edited: bytes) -> None:
    """Other bytes are stale, whether or not they are as many."""
    chunk = indexed(corpus)
    (corpus / "docs/a.md").write_bytes(edited)
    set_time(corpus / "docs/a.md", chunk.mtime_ns + 1)

    assert look(corpus, chunk) is Freshness.STALE


def test_another_size_is_stale_at_any_time(corpus: Path) -> None:
    """A file that was written back with its old time is still caught by its size."""
    chunk = indexed(corpus)
    (corpus / "docs/a.md").write_bytes(TEXT + b"more\n")
    set_time(corpus / "docs/a.md", chunk.mtime_ns)

    assert look(corpus, chunk) is Freshness.STALE


@pytest.mark.parametrize("path", ["docs/a.md", "README.md"])
def test_a_removed_file_is_gone(corpus: Path, path: str) -> None:
    """Where its folder is there and the file is not, it was removed."""
    chunk = indexed(corpus, path)
    (corpus / path).unlink()

    assert look(corpus, chunk) is Freshness.GONE


def test_a_removed_folder_inside_is_gone(corpus: Path) -> None:
    """A folder below the top level goes with the files it held."""
    (corpus / "docs/inner").mkdir()
    (corpus / "docs/inner/c.md").write_bytes(TEXT)
    chunk = indexed(corpus, "docs/inner/c.md")
    (corpus / "docs/inner/c.md").unlink()
    (corpus / "docs/inner").rmdir()

    assert look(corpus, chunk) is Freshness.GONE


@pytest.mark.parametrize("path", ["docs/a.md", "README.md"])
def test_a_corpus_that_is_away_says_nothing(corpus: Path, path: str) -> None:
    """Without the corpus folder, as on a disk that is not mounted, nothing is known."""
    chunk = indexed(corpus, path)
    corpus.rename(corpus.with_name("elsewhere"))

    assert look(corpus, chunk) is Freshness.UNKNOWN


def test_a_root_that_is_away_says_nothing(corpus: Path) -> None:
    """Without its top-level folder a file may be elsewhere rather than removed."""
    chunk = indexed(corpus)
    (corpus / "docs").rename(corpus / "docs.away")

    assert look(corpus, chunk) is Freshness.UNKNOWN


def replace_by_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def replace_by_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def replace_by_dangling_link(path: Path) -> None:
    path.unlink()
    path.symlink_to("nowhere.md")


def replace_folder_by_file(path: Path) -> None:
    for file in path.parent.iterdir():
        file.unlink()
    path.parent.rmdir()
    path.parent.write_bytes(TEXT)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (replace_by_folder, Freshness.GONE),
        (replace_by_pipe, Freshness.GONE),
        (replace_by_dangling_link, Freshness.GONE),
        (replace_folder_by_file, Freshness.UNKNOWN),
    ],
)
def test_what_is_no_file_any_more(corpus: Path, change, expected: Freshness) -> None:
    """A path that leads to no file is not read, and never waited for."""
    chunk = indexed(corpus)
    change(corpus / "docs/a.md")

    assert look(corpus, chunk) is expected


def test_a_file_that_cannot_be_read_is_unknown(corpus: Path) -> None:
    """Without permission to compare, nothing is claimed."""
    chunk = indexed(corpus)
    path = corpus / "docs/a.md"
    set_time(path, 12345)
    for folder in [path.parent, *path.parent.parents]:
        if "pytest" in str(folder):
            folder.chmod(0o755)
    path.chmod(0)
    with ordinary_user():
        assert look(corpus, chunk) is Freshness.UNKNOWN


def test_a_file_of_the_same_size_and_time_is_not_read(corpus: Path) -> None:
    """The common case costs no reading, so needs no permission to read either."""
    chunk = indexed(corpus)
    path = corpus / "docs/a.md"
    for folder in [path.parent, *path.parent.parents]:
        if "pytest" in str(folder):
            folder.chmod(0o755)
    path.chmod(0)
    with ordinary_user():
        assert look(corpus, chunk) is Freshness.CURRENT


def test_a_link_is_followed(corpus: Path) -> None:
    """A linked file is compared by what it leads to."""
    (corpus / "docs/link.md").symlink_to("a.md")
    chunk = indexed(corpus, "docs/link.md")
    assert look(corpus, chunk) is Freshness.CURRENT
    (corpus / "docs/a.md").write_bytes(b"edited")

    assert look(corpus, chunk) is Freshness.STALE


def test_a_file_is_looked_at_once_for_an_answer(corpus: Path) -> None:
    """One answer says one thing of a file, however many of its passages it cites."""
    check = FreshnessCheck(corpus)
    first, second = indexed(corpus), indexed(corpus, ordinal=1)
    assert check.of(first) is Freshness.CURRENT
    (corpus / "docs/a.md").unlink()

    assert check.of(second) is Freshness.CURRENT
    assert look(corpus, second) is Freshness.GONE
