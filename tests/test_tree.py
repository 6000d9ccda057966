"""Rules of walking a corpus: links, hidden names, odd names, unreadable places."""

import os
import socket
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from layouts import lay_out, make_corpus, ordinary_user

from docs_rag.corpus import scan
from docs_rag.records import Scan
from docs_rag.tree import Found, Tree

INSIDE = {"docs/a.md": "# A", "docs/sub/b.md": "# B"}


def paths(result: Scan) -> list[str]:
    """Return the paths of the documents, in order."""
    return [document.path for document in result.documents]


def skipped(result: Scan) -> dict[str, str]:
    """Return the reason for each path left out."""
    return {row.path: row.reason for row in result.skipped}


@pytest.mark.parametrize("target", ["..", "../..", ".", "../sub"], ids=str)
def test_a_link_to_a_directory_above_ends(target: str, tmp_path: Path) -> None:
    """A loop of links neither hangs the scan nor lists a page twice."""
    corpus = make_corpus(tmp_path, INSIDE)
    link = corpus.directory / "docs" / "sub" / "up"
    link.symlink_to(target)
    result = scan(corpus)

    assert paths(result) == ["docs/a.md", "docs/sub/b.md"]
    assert skipped(result) == {"docs/sub/up": "link to a directory it is in"}


def test_links_to_each_other_and_to_themselves_end(tmp_path: Path) -> None:
    """Links that lead nowhere but round are left out, with a reason."""
    corpus = make_corpus(tmp_path, INSIDE)
    docs = corpus.directory / "docs"
    (docs / "x.md").symlink_to("y.md")
    (docs / "y.md").symlink_to("x.md")
    (docs / "self").symlink_to("self")
    result = scan(corpus)

    assert paths(result) == ["docs/a.md", "docs/sub/b.md"]
    assert set(skipped(result)) == {"docs/x.md", "docs/y.md", "docs/self"}
    assert set(skipped(result).values()) == {"link to itself"}


def test_two_trees_that_link_to_each_other_are_each_read_once(tmp_path: Path) -> None:
    """A cycle over two roots ends, and each file keeps its own path."""
    corpus = make_corpus(
        tmp_path, {"one/a.md": "a", "two/b.md": "b"}, roots=["one", "two"]
    )
    (corpus.directory / "one" / "other").symlink_to("../two")
    (corpus.directory / "two" / "other").symlink_to("../one")
    result = scan(corpus)

    assert paths(result) == ["one/a.md", "two/b.md"]
    assert result.matched["roots: one"] == ("one/a.md", "two/b.md")
    assert result.skipped == ()


@pytest.mark.parametrize("link", ["leak.md", "leaks", "deep/leaks"])
def test_a_link_out_of_the_corpus_is_left_out(link: str, tmp_path: Path) -> None:
    """What lies outside is not read; the link is reported."""
    corpus = make_corpus(tmp_path, {**INSIDE, "docs/deep/c.md": "c"})
    outside = lay_out(tmp_path / "corpus" / "demo-outside", {"secret.md": "s"})
    target = outside / "secret.md" if link.endswith(".md") else outside
    (corpus.directory / "docs" / link).symlink_to(target)
    result = scan(corpus)

    assert paths(result) == ["docs/a.md", "docs/deep/c.md", "docs/sub/b.md"]
    assert skipped(result) == {f"docs/{link}": "link that leaves the corpus"}


def test_a_link_inside_the_corpus_is_followed(tmp_path: Path) -> None:
    """Files and directories outside the roots are in scope through a link."""
    corpus = make_corpus(tmp_path, {**INSIDE, "guide/g.md": "g", "NOTES.md": "n"})
    (corpus.directory / "docs" / "guide").symlink_to("../guide")
    (corpus.directory / "docs" / "notes.md").symlink_to("../NOTES.md")
    result = scan(corpus)

    assert paths(result) == [
        "docs/a.md",
        "docs/guide/g.md",
        "docs/notes.md",
        "docs/sub/b.md",
    ]
    assert result.skipped == ()
    for document in result.documents:
        assert document.absolute == corpus.directory / document.path


def test_a_file_is_one_document_at_the_path_without_links(tmp_path: Path) -> None:
    """A link to a page that is in scope anyway adds nothing."""
    corpus = make_corpus(
        tmp_path,
        {"AGENTS.md": "x", "docs/z.md": "z", "docs/sub/b.md": "b"},
        top_files=["CLAUDE.md", "AGENTS.md"],
        roots=["docs"],
    )
    (corpus.directory / "CLAUDE.md").symlink_to("AGENTS.md")
    (corpus.directory / "docs" / "a.md").symlink_to("z.md")
    (corpus.directory / "docs" / "again").symlink_to("sub")
    result = scan(corpus)

    assert paths(result) == ["AGENTS.md", "docs/sub/b.md", "docs/z.md"]
    assert (result.skipped, result.unmatched) == ((), ())
    assert result.matched["top_files: CLAUDE.md"] == ("AGENTS.md",)


def test_of_two_links_the_first_in_order_names_the_document(tmp_path: Path) -> None:
    """Which entry comes first in the configuration does not matter."""
    for number, roots in enumerate((["b", "a"], ["a", "b"])):
        corpus = make_corpus(
            tmp_path / str(number),
            {"page.txt.md": "x", "a/1.md": "1", "b/2.md": "2"},
            roots=roots,
        )
        (corpus.directory / "a" / "link.md").symlink_to("../page.txt.md")
        (corpus.directory / "b" / "link.md").symlink_to("../page.txt.md")

        assert paths(scan(corpus)) == ["a/1.md", "a/link.md", "b/2.md"]


@pytest.mark.parametrize(
    ("name", "target", "reason"),
    [
        ("gone.md", "nowhere.md", "broken link"),
        ("gone", "nowhere", "broken link"),
        ("into.md", "../.hidden/h.md", "link into hidden directory"),
        ("into", "../.hidden", "link into hidden directory"),
        ("mod", "../node_modules/pkg", "link into node_modules"),
        (".dot.md", "a.md", "hidden file"),
        (".dot", "sub", "hidden directory"),
        ("node_modules", "sub", "node_modules"),
    ],
)
def test_a_link_that_may_not_be_followed_has_a_reason(
    name: str, target: str, reason: str, tmp_path: Path
) -> None:
    """Broken links and links around a rule are left out and counted."""
    corpus = make_corpus(
        tmp_path, {**INSIDE, ".hidden/h.md": "h", "node_modules/pkg/p.md": "p"}
    )
    (corpus.directory / "docs" / name).symlink_to(target)
    result = scan(corpus)

    assert paths(result) == ["docs/a.md", "docs/sub/b.md"]
    assert skipped(result) == {f"docs/{name}": reason}


@pytest.mark.parametrize("name", ["gone.png", "logo.svg", "data.json"])
def test_links_that_are_no_documentation_are_passed_over(
    name: str, tmp_path: Path
) -> None:
    """An image that points outside or nowhere is nobody's concern."""
    corpus = make_corpus(tmp_path, INSIDE)
    (corpus.directory / "docs" / name).symlink_to("/nowhere/at/all")

    assert scan(corpus).skipped == ()


@pytest.mark.parametrize("entry", ["archive", "guide/archive"])
def test_a_link_is_no_way_around_an_exclusion(entry: str, tmp_path: Path) -> None:
    """What is excluded stays out, under the name of a link as well."""
    corpus = make_corpus(
        tmp_path,
        {**INSIDE, "guide/archive/old.md": "old", "guide/new.md": "new"},
        exclude_dirs=[entry],
    )
    docs = corpus.directory / "docs"
    (docs / "old.md").symlink_to("../guide/archive/old.md")
    (docs / "older").symlink_to("../guide/archive")
    (docs / "guide").symlink_to("../guide")
    result = scan(corpus)

    assert paths(result) == ["docs/a.md", "docs/guide/new.md", "docs/sub/b.md"]
    assert (result.skipped, result.unmatched) == ((), ())


def test_an_excluded_name_holds_for_the_name_of_a_link(tmp_path: Path) -> None:
    """A link called archive is as excluded as a directory of that name."""
    corpus = make_corpus(tmp_path, {**INSIDE, "v1/x.md": "x"}, exclude_dirs=["archive"])
    (corpus.directory / "docs" / "archive").symlink_to("../v1")
    result = scan(corpus)

    assert paths(result) == ["docs/a.md", "docs/sub/b.md"]
    assert (result.skipped, result.unmatched) == ((), ())


def test_an_excluded_path_may_go_through_a_link(tmp_path: Path) -> None:
    """The path that readers see counts as well as the one behind the link."""
    corpus = make_corpus(
        tmp_path,
        {**INSIDE, "guide/private/p.md": "p", "guide/g.md": "g"},
        exclude_dirs=["docs/guide/private"],
    )
    (corpus.directory / "docs" / "guide").symlink_to("../guide")

    assert paths(scan(corpus)) == ["docs/a.md", "docs/guide/g.md", "docs/sub/b.md"]


def test_hidden_directories_and_node_modules_are_left_out_and_counted(
    tmp_path: Path,
) -> None:
    """One row for each, however much is in it; hidden pages are named too."""
    corpus = make_corpus(
        tmp_path,
        {
            **INSIDE,
            "docs/.obsidian/x.md": "x",
            "docs/.obsidian/deep/y.md": "y",
            "docs/sub/node_modules/p/README.md": "p",
            "docs/.draft.md": "d",
            "docs/.gitignore": "*",
            "docs/node_modules_notes/n.md": "n",
        },
    )
    result = scan(corpus)

    assert paths(result) == [
        "docs/a.md",
        "docs/node_modules_notes/n.md",
        "docs/sub/b.md",
    ]
    assert skipped(result) == {
        "docs/.draft.md": "hidden file",
        "docs/.obsidian": "hidden directory",
        "docs/sub/node_modules": "node_modules",
    }


def test_an_entry_that_names_a_hidden_path_means_it(tmp_path: Path) -> None:
    """The rule for hidden names yields to whoever names one, and is not reported."""
    corpus = make_corpus(
        tmp_path,
        {"docs/.internal/x.md": "x", "docs/a.md": "a", ".rules.md": "r"},
        roots=["docs", "docs/.internal"],
        top_files=[".rules.md"],
    )
    result = scan(corpus)

    assert paths(result) == [".rules.md", "docs/.internal/x.md", "docs/a.md"]
    assert result.skipped == ()


def test_a_name_that_is_not_utf8_is_left_out_printably(tmp_path: Path) -> None:
    """Bytes that are not UTF-8 end no run, and the report of them can be printed."""
    corpus = make_corpus(tmp_path, INSIDE)
    docs = os.fsencode(corpus.directory / "docs")
    with open(docs + b"/b\xf6rse.md", "wb") as file:
        file.write(b"# odd")
    os.mkdir(docs + b"/\xff\xfe")
    result = scan(corpus)

    assert paths(result) == ["docs/a.md", "docs/sub/b.md"]
    assert skipped(result) == {
        "docs/b\\xf6rse.md": "name is not UTF-8",
        "docs/\\xff\\xfe": "name is not UTF-8",
    }


@pytest.mark.parametrize("odd", ["a\nb", "a\x1b[31m", "a\u2028b"], ids=ascii)
def test_a_name_with_control_characters_is_left_out(odd: str, tmp_path: Path) -> None:
    """A path that could forge a line of a report does not get into one."""
    corpus = make_corpus(tmp_path, {**INSIDE, f"docs/{odd}.md": "x"})
    (row,) = scan(corpus).skipped

    assert row.reason == "control character in the name"
    assert row.path.isprintable()


def test_what_is_no_regular_file_is_left_out(tmp_path: Path) -> None:
    """A pipe or a socket is never opened, so nothing waits for it."""
    corpus = make_corpus(tmp_path, {**INSIDE, "docs/dir.md/c.md": "c"})
    docs = corpus.directory / "docs"
    os.mkfifo(docs / "pipe.md")
    (docs / "link.md").symlink_to("pipe.md")
    with tempfile.TemporaryDirectory() as short, socket.socket(socket.AF_UNIX) as one:
        one.bind(f"{short}/s.md")
        os.rename(f"{short}/s.md", docs / "socket.md")
        result = scan(corpus)

    assert paths(result) == ["docs/a.md", "docs/dir.md/c.md", "docs/sub/b.md"]
    assert skipped(result) == {
        "docs/link.md": "not a regular file",
        "docs/pipe.md": "not a regular file",
        "docs/socket.md": "not a regular file",
    }


def test_what_may_not_be_read_is_left_out() -> None:
    """A directory or file without permission is a row, and the rest is indexed."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        corpus = make_corpus(
            Path(folder), {**INSIDE, "docs/no/c.md": "c"}, roots=["docs", "docs/no"]
        )
        docs = corpus.directory / "docs"
        os.chmod(docs / "no", 0)
        os.chmod(docs / "a.md", 0)
        with ordinary_user():
            result = scan(corpus)
        os.chmod(docs / "no", 0o755)

    assert paths(result) == ["docs/sub/b.md"]
    assert skipped(result) == {
        "docs/a.md": "cannot be read (Permission denied)",
        "docs/no": "cannot be read (Permission denied)",
    }
    assert result.unmatched == ("roots: docs/no",)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "b", "a/b", "a/c", "b/c", "a/b/c"]),
            st.sampled_from(["l1", "l2", "x.md", "y.md"]),
            st.sampled_from(["..", "../..", "../b", "x.md", "../a/x.md", "../c", "l1"]),
        ),
        max_size=8,
        unique_by=lambda one: one[:2],
    )
)
def test_whatever_links_there_are_each_file_is_found_once(
    links: list[tuple[str, str, str]],
) -> None:
    """Any tangle of links ends, and no file is found under two paths that count."""
    with tempfile.TemporaryDirectory() as folder:
        top = lay_out(
            Path(os.path.realpath(folder)) / "top",
            {f"{d}/page.md": d for d in ("a", "b", "a/b", "a/c", "b/c", "a/b/c")},
        )
        for directory, name, target in links:
            (top / directory / name).symlink_to(target)
        found = list(Tree(str(top), (".md",), ()).walk(Found("", "")))

    plain = [file.path for file in found if file.path == file.real_path]
    assert sorted(plain) == sorted(
        f"{d}/page.md" for d in ("a", "b", "a/b", "a/c", "b/c", "a/b/c")
    )
    assert {file.real_path for file in found} == set(plain)
