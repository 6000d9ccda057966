"""Rules of reading documents: every byte hashed, every decoding accounted for."""

import dataclasses
import hashlib
import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from layouts import lay_out, make_corpus, ordinary_user

from docs_rag.config import load_settings
from docs_rag.corpus import MAX_FILE_BYTES, decode, read_text, scan
from docs_rag.errors import ConfigError
from docs_rag.records import Document


def test_a_document_holds_the_facts_of_its_file(tmp_path: Path) -> None:
    """Path with slashes, place, size, time and digest are those of the file."""
    content = "# Größe\r\n".encode()
    corpus = make_corpus(tmp_path, {"docs/sub/a.md": content, "docs/empty.md": b""})
    empty, document = scan(corpus).documents

    path = corpus.directory / "docs" / "sub" / "a.md"
    assert document == Document(
        path="docs/sub/a.md",
        root=corpus.directory,
        size_bytes=len(content),
        mtime_ns=path.stat().st_mtime_ns,
        sha256=hashlib.sha256(content).hexdigest(),
    )
    assert empty.sha256 == hashlib.sha256(b"").hexdigest()


def test_a_change_that_keeps_size_and_time_is_seen(tmp_path: Path) -> None:
    """Only the bytes decide: a copy may bring its old time stamp along."""
    corpus = make_corpus(tmp_path, {"docs/a.md": "one"})
    path = corpus.directory / "docs/a.md"
    os.utime(path, ns=(1, 1))
    before = scan(corpus).documents[0]
    path.write_text("two")
    os.utime(path, ns=(1, 1))
    after = scan(corpus).documents[0]

    assert (before.size_bytes, before.mtime_ns) == (after.size_bytes, after.mtime_ns)
    assert before.sha256 != after.sha256


DECODINGS = [
    pytest.param(b"", "", None, id="empty"),
    pytest.param("Größe 漢字 🦀".encode(), "Größe 漢字 🦀", None, id="utf-8"),
    pytest.param(b"\xef\xbb\xbf# A", "# A", None, id="utf-8-mark"),
    pytest.param(b"a\r\nb\rc\n", "a\r\nb\rc\n", None, id="line-ends-are-kept"),
    pytest.param(b"cafe\xcc\x81", "cafe\u0301", None, id="accents-are-kept-apart"),
    pytest.param(b"a\0b is text", "a\0b is text", None, id="nul-in-text"),
    pytest.param("é漢".encode("utf-16"), "é漢", None, id="utf-16"),
    pytest.param(b"\xfe\xff\x00a", "a", None, id="utf-16-big-endian"),
    pytest.param("é漢".encode("utf-32"), "é漢", None, id="utf-32"),
    pytest.param(b"\0\0\xfe\xff\0\0\0a", "a", None, id="utf-32-big-endian"),
    pytest.param(
        b"\xff\xfea\0b",
        "a\ufffd",
        "damaged UTF-16, unreadable parts replaced",
        id="cut",
    ),
    pytest.param(
        b"na\xefve \x93q\x94", "naïve “q”", "not UTF-8, read as Windows-1252", id="1252"
    ),
    pytest.param(
        b"\x81\xe9", "\ufffdé", "not UTF-8, read as Windows-1252", id="1252-unassigned"
    ),
    pytest.param(
        b"\x89PNG\0\0\xff", None, "binary: not UTF-8, and holds NUL bytes", id="binary"
    ),
    pytest.param(
        "plain".encode("utf-16-le"),
        None,
        "binary, or UTF-16 without a byte order mark",
        id="utf-16-unmarked",
    ),
]


@pytest.mark.parametrize(("data", "text", "notice"), DECODINGS)
def test_bytes_become_text_or_a_reason(
    data: bytes, text: str | None, notice: str | None
) -> None:
    """Marks decide, then UTF-8, then Windows-1252; guesses and losses are told."""
    assert decode(data) == (text, notice)


@pytest.mark.parametrize(("data", "text", "notice"), DECODINGS)
def test_a_scan_leaves_out_what_is_not_text(
    data: bytes, text: str | None, notice: str | None, tmp_path: Path
) -> None:
    """Text of any encoding is a document; anything else is skipped with the reason."""
    corpus = make_corpus(tmp_path, {"docs/a.md": data, "docs/b.md": "fine"})
    result = scan(corpus)

    if text is None:
        assert [(row.path, row.reason) for row in result.skipped] == [
            ("docs/a.md", notice)
        ]
        assert [document.path for document in result.documents] == ["docs/b.md"]
    else:
        assert result.skipped == ()
        read = read_text(result.documents[0])
        assert (read.text, read.notice) == (text, notice)


@given(st.binary(max_size=200))
def test_decoding_any_bytes_gives_printable_text_or_a_reason(data: bytes) -> None:
    """No bytes raise, and what comes out can be stored as UTF-8."""
    text, notice = decode(data)

    if text is None:
        assert notice
    else:
        text.encode("utf-8")


@given(st.text(max_size=50), st.sampled_from(["utf-8-sig", "utf-16", "utf-32"]))
def test_marked_text_comes_back_as_it_was(text: str, encoding: str) -> None:
    """With a byte order mark nothing is lost."""
    assert decode(text.encode(encoding)) == (text, None)


def test_reading_tells_what_was_read_now(tmp_path: Path) -> None:
    """A file that changed since the scan comes with its own new digest."""
    corpus = make_corpus(tmp_path, {"docs/a.md": "one"})
    scanned = scan(corpus).documents[0]
    scanned.absolute.write_text("three")
    read = read_text(scanned)

    assert read.text == "three"
    assert read.sha256 == hashlib.sha256(b"three").hexdigest()
    assert read.document.size_bytes == 5
    assert read.document == scan(corpus).documents[0]


def test_reading_what_became_binary_gives_no_text(tmp_path: Path) -> None:
    """The notice says why, and nothing raises."""
    corpus = make_corpus(tmp_path, {"docs/a.md": "one"})
    scanned = scan(corpus).documents[0]
    scanned.absolute.write_bytes(b"\xff\0")
    read = read_text(scanned)

    assert (read.text, read.notice) == ("", "binary: not UTF-8, and holds NUL bytes")
    assert read.sha256 == hashlib.sha256(b"\xff\0").hexdigest()


def test_reading_what_is_gone_raises_oserror(tmp_path: Path) -> None:
    """Without a file there is nothing to say but that."""
    corpus = make_corpus(tmp_path, {"docs/a.md": "one"})
    scanned = scan(corpus).documents[0]
    scanned.absolute.unlink()

    with pytest.raises(FileNotFoundError):
        read_text(scanned)


def test_reading_what_became_a_pipe_does_not_wait(tmp_path: Path) -> None:
    """A pipe in place of the file is refused at once."""
    corpus = make_corpus(tmp_path, {"docs/a.md": "one"})
    scanned = scan(corpus).documents[0]
    scanned.absolute.unlink()
    os.mkfifo(scanned.absolute)

    with pytest.raises(OSError, match="not a regular file"):
        read_text(scanned)


@pytest.mark.parametrize("extra", [0, 1], ids=["at-the-limit", "above"])
def test_a_file_above_the_limit_is_left_out_with_its_size(
    extra: int, tmp_path: Path
) -> None:
    """Sixteen MiB are read, one byte more is not."""
    corpus = make_corpus(tmp_path, {"docs/a.md": "x"})
    with open(corpus.directory / "docs/a.md", "wb") as file:
        file.write(b"x" * (MAX_FILE_BYTES + extra))
    result = scan(corpus)

    assert len(result.documents) == 1 - extra
    reasons = [row.reason for row in result.skipped]
    assert (
        reasons == ["16,777,217 bytes, more than the 16,777,216 that are read"] * extra
    )


@pytest.mark.parametrize("kind", ["missing", "file", "broken-link"])
def test_a_missing_corpus_is_a_config_error(kind: str, tmp_path: Path) -> None:
    """The message names corpus, key, directory and remedy: nothing is purged."""
    (tmp_path / "corpora.json").write_text('{"demo": {"roots": ["docs"]}}')
    (tmp_path / "corpus").mkdir()
    directory = tmp_path / "corpus" / "demo"
    if kind == "file":
        directory.write_text("")
    if kind == "broken-link":
        directory.symlink_to("nowhere")
    settings = load_settings({"RAG_DIR": str(tmp_path), "RAG_CORPUS": "demo"})

    with pytest.raises(ConfigError) as caught:
        scan(settings.chosen())

    message = str(caught.value)
    state = "is not a directory" if kind == "file" else "does not exist"
    assert message.startswith('corpus "demo", key "corpus_dir": ')
    assert f"{os.path.realpath(directory)} {state}: put the documentation" in message
    assert "corpora.json (or RAG_CORPUS_DIR)" in message


def test_a_corpus_that_may_not_be_read_is_a_config_error(tmp_path: Path) -> None:
    """An unreadable corpus is not an empty one."""
    corpus = make_corpus(tmp_path, {"docs/a.md": "x"})
    os.chmod(corpus.directory, 0)
    try:
        with ordinary_user(), pytest.raises(ConfigError) as caught:
            scan(corpus)
    finally:
        os.chmod(corpus.directory, 0o755)

    assert 'corpus "demo"' in str(caught.value)


def test_documents_come_in_the_order_of_their_paths(tmp_path: Path) -> None:
    """Two scans of one disk are equal, whatever the disk's own order is."""
    names = ["b.md", "a.md", "B.md", "a/z.md", "a-b.md", "ä.md", "a/b.md"]
    corpus = make_corpus(tmp_path, {f"docs/{name}": name for name in names})
    first, second = scan(corpus), scan(corpus)

    assert first == second
    found = [document.path for document in first.documents]
    assert found == sorted(f"docs/{name}" for name in names)


def test_the_corpus_may_be_reached_through_a_link(tmp_path: Path) -> None:
    """A link above the corpus, as after a deployment, changes no path."""
    lay_out(tmp_path / "releases" / "7", {"docs/a.md": "x"})
    (tmp_path / "live").symlink_to("releases/7")
    (tmp_path / "corpora.json").write_text(
        '{"demo": {"corpus_dir": "live", "roots": ["docs"]}}'
    )
    corpus = load_settings({"RAG_DIR": str(tmp_path), "RAG_CORPUS": "demo"}).chosen()
    result = scan(corpus)

    assert [document.path for document in result.documents] == ["docs/a.md"]
    assert result.skipped == ()


def test_many_files_are_scanned_in_linear_time(tmp_path: Path) -> None:
    """Four thousand files take seconds at most, whichever machine this is."""
    files = {f"docs/{n % 40}/{n}.md": f"# {n}\n" for n in range(4000)}
    corpus = make_corpus(tmp_path, files)
    started = time.monotonic()
    result = scan(corpus)

    assert time.monotonic() - started < 20
    assert len(result.documents) == 4000


def test_a_scan_carries_where_the_corpus_comes_from(tmp_path: Path) -> None:
    """The marker of a mirror is read along."""
    corpus = make_corpus(
        tmp_path, {"docs/a.md": "x", ".corpus_source.json": '{"commit": "abc1234"}'}
    )

    assert scan(corpus).source.commit == "abc1234"
    bare = dataclasses.replace(corpus, directory=corpus.directory / "docs")
    assert scan(dataclasses.replace(bare, roots=(".",))).source.commit is None


@pytest.mark.parametrize("synced", [True, False], ids=["mirror", "checkout"])
def test_a_mirror_is_not_warned_of_what_was_never_sent(
    tmp_path: Path, synced: bool
) -> None:
    """An exclusion that finds nothing is a slip, unless the source left it out."""
    marker = {".corpus_source.json": '{"synced_at": "2026-01-02T03:04:05Z"}'}
    files = {"docs/a.md": "x", **(marker if synced else {})}
    corpus = make_corpus(
        tmp_path, files, roots=["docs", "dcos"], exclude_dirs=["archive"]
    )
    unmatched = scan(corpus).unmatched

    assert any("dcos" in entry for entry in unmatched)
    assert any("archive" in entry for entry in unmatched) is not synced
