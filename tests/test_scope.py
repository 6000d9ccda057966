"""Rules of the declared scope: what each entry means, and when it means nothing."""

import os
import tempfile
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from layouts import make_corpus

from docs_rag.corpus import scan
from docs_rag.records import Scan

NFC = unicodedata.normalize("NFC", "café")
NFD = unicodedata.normalize("NFD", "café")


def paths(result: Scan) -> list[str]:
    """Return the paths of the documents, in order."""
    return [document.path for document in result.documents]


def test_the_three_kinds_of_entries_add_up(tmp_path: Path) -> None:
    """Top files at the root, docs-root files under docs/, roots with all below."""
    corpus = make_corpus(
        tmp_path,
        {
            "README.md": "1",
            "OTHER.md": "2",
            "docs/intro.md": "3",
            "docs/other.md": "4",
            "docs/guide/a.md": "5",
            "docs/guide/deep/er/b.md": "6",
            "docs/guide/image.png": "7",
            "docs/guide/page.markdown": "8",
        },
        top_files=["README.md"],
        doc_root_files=["intro.md"],
        roots=["docs/guide"],
    )
    result = scan(corpus)

    assert result.matched == {
        "top_files: README.md": ("README.md",),
        "doc_root_files: intro.md": ("docs/intro.md",),
        "roots: docs/guide": ("docs/guide/a.md", "docs/guide/deep/er/b.md"),
    }
    assert paths(result) == [
        "README.md",
        "docs/guide/a.md",
        "docs/guide/deep/er/b.md",
        "docs/intro.md",
    ]
    assert (result.unmatched, result.skipped) == ((), ())


def test_the_corpus_itself_may_be_a_root(tmp_path: Path) -> None:
    """A root "." takes everything, from the top down."""
    corpus = make_corpus(tmp_path, {"a.md": "", "x/y/b.md": ""}, roots=["."])

    assert scan(corpus).matched == {"roots: .": ("a.md", "x/y/b.md")}


def test_a_file_matched_twice_is_one_document(tmp_path: Path) -> None:
    """Overlapping and repeated entries list nothing twice, and each has matched."""
    corpus = make_corpus(
        tmp_path,
        {"docs/a.md": "a", "docs/guide/b.md": "b"},
        roots=["docs", "docs/guide", "docs", "."],
        doc_root_files=["a.md"],
        top_files=["docs/a.md"],
    )
    result = scan(corpus)

    assert paths(result) == ["docs/a.md", "docs/guide/b.md"]
    assert result.unmatched == ()
    assert result.matched["roots: docs/guide"] == ("docs/guide/b.md",)


@pytest.mark.parametrize(
    ("extensions", "expected"),
    [
        ([".md"], ["docs/NOTES.MD", "docs/a.md"]),
        ([".markdown", ".mdx"], ["docs/b.markdown", "docs/c.Mdx"]),
    ],
    ids=["md", "others"],
)
def test_only_the_extensions_of_the_corpus_are_indexed(
    extensions: list[str], expected: list[str], tmp_path: Path
) -> None:
    """In whatever case the name is written."""
    names = ["NOTES.MD", "a.md", "b.markdown", "c.Mdx", "d.txt", "md", "e.md.bak"]
    corpus = make_corpus(
        tmp_path, {f"docs/{name}": "x" for name in names}, extensions=extensions
    )

    assert paths(scan(corpus)) == expected


EXCLUSION_FILES = {
    "docs/archive/old.md": "x",
    "docs/deep/er/archive/older/old.md": "x",
    "docs/archived-runs/keep.md": "x",
    "docs/my-archive/keep.md": "x",
    "docs/archive.md": "x",
    "docs/Archive/keep.md": "x",
}


def test_an_excluded_name_is_a_whole_directory_name_at_any_depth(
    tmp_path: Path,
) -> None:
    """Longer names, other cases and files of that name stay."""
    corpus = make_corpus(tmp_path, EXCLUSION_FILES, exclude_dirs=["archive/"])
    result = scan(corpus)

    assert paths(result) == [
        "docs/Archive/keep.md",
        "docs/archive.md",
        "docs/archived-runs/keep.md",
        "docs/my-archive/keep.md",
    ]
    assert result.matched["exclude_dirs: archive"] == (
        "docs/archive",
        "docs/deep/er/archive",
    )
    assert result.skipped == ()


def test_an_excluded_path_is_that_directory_alone(tmp_path: Path) -> None:
    """An entry with a slash counts from the corpus root, by whole names."""
    corpus = make_corpus(
        tmp_path,
        {
            "docs/postcards/p.md": "x",
            "docs/postcards/deep/p.md": "x",
            "docs/postcards.md": "x",
            "docs/postcards-2/p.md": "x",
            "docs/more/docs/postcards/p.md": "x",
        },
        exclude_dirs=["docs/postcards/"],
    )
    result = scan(corpus)

    assert paths(result) == [
        "docs/more/docs/postcards/p.md",
        "docs/postcards-2/p.md",
        "docs/postcards.md",
    ]
    assert result.unmatched == ()


def test_exclusion_never_looks_above_the_corpus(tmp_path: Path) -> None:
    """A corpus that lies below a directory of that name is not left out."""
    corpus = make_corpus(
        tmp_path / "archive",
        {"docs/page.md": "x", "docs/archive/old.md": "x"},
        exclude_dirs=["archive", "demo", "corpus"],
    )
    result = scan(corpus)

    assert paths(result) == ["docs/page.md"]
    assert result.unmatched == ("exclude_dirs: demo", "exclude_dirs: corpus")


def test_exclusion_is_about_directories_and_never_about_files(tmp_path: Path) -> None:
    """An entry that happens to be the name of a file excludes nothing, and says so."""
    corpus = make_corpus(
        tmp_path,
        {"README.md": "x", "docs/a.md": "x"},
        top_files=["README.md"],
        roots=["docs"],
        exclude_dirs=["README.md", "a.md"],
    )
    result = scan(corpus)

    assert paths(result) == ["README.md", "docs/a.md"]
    assert result.unmatched == (
        "exclude_dirs: README.md (is a file, not a directory)",
        "exclude_dirs: a.md",
    )


def test_taking_an_exclusion_away_brings_the_files_back(tmp_path: Path) -> None:
    """The scope is what the configuration says now, and nothing else."""
    files = {"docs/now.md": "x", "docs/legacy/then.md": "x"}
    found = [
        paths(scan(make_corpus(tmp_path, files, exclude_dirs=names)))
        for names in ([], ["legacy"], [])
    ]

    everything = ["docs/legacy/then.md", "docs/now.md"]
    assert found == [everything, ["docs/now.md"], everything]


@pytest.mark.parametrize(
    ("config", "unmatched"),
    [
        ({"roots": ["guide"]}, "roots: guide"),
        ({"roots": ["docs/none/deep"]}, "roots: docs/none/deep"),
        ({"roots": ["empty"]}, "roots: empty"),
        (
            {"roots": ["README.md"]},
            "roots: README.md (is a file: list it under top_file",
        ),
        ({"roots": ["README.md/x"]}, "roots: README.md/x"),
        ({"roots": ["Docs"]}, 'roots: Docs (there is "docs")'),
        ({"top_files": ["AGENTS.md"]}, "top_files: AGENTS.md"),
        ({"top_files": ["readme.md"]}, 'top_files: readme.md (there is "README.md")'),
        ({"top_files": ["docs"]}, "top_files: docs (is a directory: list it under roo"),
        (
            {"top_files": ["LICENSE"]},
            "top_files: LICENSE (only .md is indexed: see ext",
        ),
        ({"top_files": ["x.mdx"]}, "top_files: x.mdx (only .md is indexed: see extens"),
        ({"top_files": ["gone.md"]}, "top_files: gone.md (broken link)"),
        ({"top_files": ["pipe.md"]}, "top_files: pipe.md (not a regular file)"),
        ({"doc_root_files": ["README.md"]}, "doc_root_files: README.md"),
        ({"exclude_dirs": ["old"]}, "exclude_dirs: old"),
        ({"exclude_dirs": ["docs/old"]}, "exclude_dirs: docs/old"),
        ({"exclude_dirs": ["docs/a.md"]}, "exclude_dirs: docs/a.md (is a file, not a"),
        (
            {"roots": ["docs/hide"], "exclude_dirs": ["hide"]},
            "roots: docs/hide (is inside a directory of exclude_dirs)",
        ),
        (
            {"doc_root_files": ["hide/h.md"], "exclude_dirs": ["docs/hide"]},
            "doc_root_files: hide/h.md (is inside a directory of exclude_dirs)",
        ),
    ],
)
def test_an_entry_that_matches_nothing_is_reported(
    config: dict[str, list[str]], unmatched: str, tmp_path: Path
) -> None:
    """By key and entry, with the reason where there is one to tell."""
    files = {"README.md": "r", "LICENSE": "l", "x.mdx": "x", "docs/a.md": "a"}
    kept = {"roots": ["docs", *config.pop("roots", [])], **config}
    corpus = make_corpus(tmp_path, {**files, "docs/hide/h.md": "h"}, **kept)
    (corpus.directory / "empty").mkdir()
    (corpus.directory / "gone.md").symlink_to("nowhere.md")
    os.mkfifo(corpus.directory / "pipe.md")
    result = scan(corpus)

    assert len(result.unmatched) == 1
    assert result.unmatched[0].startswith(unmatched)
    label = result.unmatched[0].partition(" (")[0]
    assert result.matched[label] == ()


def test_an_entry_whose_files_cannot_be_indexed_has_matched_nothing(
    tmp_path: Path,
) -> None:
    """A root with nothing but a binary is reported, beside the skipped file."""
    corpus = make_corpus(
        tmp_path, {"docs/a.md": "a", "bin/b.md": b"\xff\0\xff"}, roots=["docs", "bin"]
    )
    result = scan(corpus)

    assert result.unmatched == ("roots: bin",)
    assert [row.path for row in result.skipped] == ["bin/b.md"]


def test_a_rename_of_case_only_shows_the_new_name_alone(tmp_path: Path) -> None:
    """The path is the one in the directory listing, whatever was there before."""
    corpus = make_corpus(tmp_path, {"docs/config.md": "x"})
    before = scan(corpus)
    os.rename(corpus.directory / "docs/config.md", corpus.directory / "docs/Config.md")
    after = scan(corpus)

    assert (paths(before), paths(after)) == (["docs/config.md"], ["docs/Config.md"])
    assert before.documents[0].sha256 == after.documents[0].sha256


@pytest.mark.parametrize(("written", "on_disk"), [(NFC, NFD), (NFD, NFC), (NFD, NFD)])
def test_composed_and_decomposed_names_are_the_same_name(
    written: str, on_disk: str, tmp_path: Path
) -> None:
    """Entries match in either form; the path keeps the form that opens the file."""
    corpus = make_corpus(
        tmp_path,
        {
            f"{on_disk}.md": "x",
            f"{on_disk}/a.md": "x",
            f"d/{on_disk}/b.md": "x",
            "d/c.md": "x",
        },
        top_files=[f"{written}.md"],
        roots=[written, "d"],
        exclude_dirs=[f"d/{written}"],
    )
    result = scan(corpus)

    assert result.unmatched == ()
    assert set(paths(result)) == {f"{on_disk}.md", f"{on_disk}/a.md", "d/c.md"}
    assert all(document.absolute.read_text() == "x" for document in result.documents)


def test_a_root_that_is_a_link_is_read_under_its_name(tmp_path: Path) -> None:
    """A link such as current -> versions/3 may be the root; out of the corpus not."""
    corpus = make_corpus(
        tmp_path, {"versions/3/a.md": "x"}, roots=["current", "elsewhere"]
    )
    (corpus.directory / "current").symlink_to("versions/3")
    (corpus.directory / "elsewhere").symlink_to(tmp_path)
    result = scan(corpus)

    assert paths(result) == ["current/a.md"]
    assert result.unmatched == ("roots: elsewhere (link that leaves the corpus)",)
    assert [row.path for row in result.skipped] == ["elsewhere"]


@settings(max_examples=40, deadline=None)
@given(st.permutations(["docs", "docs/guide", ".", "docs/deep/er"]), st.data())
def test_the_order_of_entries_does_not_matter(
    roots: list[str], data: st.DataObject
) -> None:
    """The same entries in another order give the same documents and matches."""
    some = data.draw(st.lists(st.sampled_from(roots), min_size=1))
    files = {
        "a.md": "",
        "docs/b.md": "",
        "docs/guide/c.md": "",
        "docs/deep/er/d.md": "",
    }
    with tempfile.TemporaryDirectory() as folder:
        one = scan(make_corpus(Path(folder), files, roots=some))
        other = scan(make_corpus(Path(folder), files, roots=sorted(some)))

    assert paths(one) == paths(other)
    assert one.matched == other.matched
