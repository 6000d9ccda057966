"""Rules of proposing a corpus for a folder, and of writing the proposal."""

import json
import os
import resource
import stat
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from layouts import configure, lay_out, ordinary_user

from docs_rag.config import load_settings
from docs_rag.corpus import scan
from docs_rag.errors import ConfigError, StorageError
from docs_rag.records import Scan
from docs_rag.scaffold import Proposal, propose, write


def scan_proposal(proposal: Proposal, rag_dir: Path) -> Scan:
    """Write the proposal, load it the way every command does, and scan."""
    write(rag_dir / "corpora.json", proposal)
    environ = {"RAG_DIR": str(rag_dir), "RAG_CORPUS": proposal.name}
    return scan(load_settings(environ).chosen())


LAYOUTS = [
    pytest.param(
        [
            "README.md",
            "AGENTS.md",
            "CHANGELOG.md",
            "docs/a.md",
            "docs/b/c.md",
            "src/x.py",
        ],
        {"top_files": ["AGENTS.md", "README.md"], "roots": ["docs"]},
        id="repository",
    ),
    pytest.param(["README.md"], {"top_files": ["README.md"]}, id="only-a-readme"),
    pytest.param(["docs/a.md"], {"roots": ["docs"]}, id="only-docs"),
    pytest.param(
        ["book/src/a.md", "book/src/b/c.md", "book/theme/x.css"],
        {"roots": ["book/src"]},
        id="book",
    ),
    pytest.param(
        ["website/docs/a.mdx", "website/docs/b.md", "website/node_modules/p/README.md"],
        {"roots": ["website/docs"], "extensions": [".md", ".mdx"]},
        id="website",
    ),
    pytest.param(
        [
            "docs/a.md",
            "docs/archive/b.md",
            "docs/x/Old/c.md",
            "docs/node_modules/d.md",
            "vendor/e.md",
            "old/f.md",
        ],
        {"roots": ["docs"], "exclude_dirs": ["archive", "Old", "node_modules"]},
        id="archives",
    ),
    pytest.param(
        [
            "packages/a/README.md",
            "packages/b/README.md",
            "tests/fixtures/x.md",
            ".github/y.md",
            "tools/only/deep/z.md",
        ],
        {"roots": ["packages", "tools/only/deep"]},
        id="stray-folders",
    ),
    pytest.param(
        [f"note {n}.md" for n in range(20)]
        + ["inbox/a.md", "archive/b.md", "tests/c.md"],
        {"roots": ["."], "exclude_dirs": ["tests", "archive"]},
        id="folder-of-notes",
    ),
    pytest.param(["archive/a.md"], {"roots": ["archive"]}, id="only-an-archive"),
    pytest.param(["CHANGELOG.md"], {"roots": ["."]}, id="only-a-changelog"),
    pytest.param(["tests/a.md"], {"roots": ["."]}, id="only-among-tests"),
    pytest.param(
        ["docs/a.markdown"],
        {"roots": ["docs"], "extensions": [".md", ".markdown"]},
        id="other-extension",
    ),
    pytest.param(
        ["README.MD", "wh*t?.md", "a\\b/c.md", "docs/d.md"],
        {"top_files": ["README.MD"], "roots": ["docs"]},
        id="names-no-entry-can-hold",
    ),
    pytest.param(
        ["src/intro.md", "src/deep/er/b.md", "src/lib.rs"], {"roots": ["src"]}, id="src"
    ),
]


@pytest.mark.parametrize(("files", "scope"), LAYOUTS)
def test_a_proposal_fits_what_is_there(
    files: list[str], scope: dict[str, object], tmp_path: Path
) -> None:
    """Each layout gets its scope; every entry of it matches, and says why it is."""
    folder = lay_out(tmp_path / "My Repo", {name: "# x" for name in files})
    proposal = propose(folder)
    result = scan_proposal(proposal, tmp_path / "rag")

    expected = {"corpus_dir": str(folder), "data_dir": "data-my-repo", **scope}
    assert proposal.config == expected
    assert proposal.name == "my-repo"
    assert result.documents
    assert result.unmatched == ()
    assert proposal.reasons


@pytest.mark.parametrize(
    ("left_out", "word"),
    [("CHANGELOG.md", "top_files"), ("LICENSE.md", "top_files"), ("tests", "roots")],
)
def test_what_is_left_out_is_mentioned_with_the_way_to_add_it(
    left_out: str, word: str, tmp_path: Path
) -> None:
    """Nothing disappears without a word."""
    names = ["README.md", "CHANGELOG.md", "LICENSE.md", "tests/a.md"]
    proposal = propose(lay_out(tmp_path, {name: "x" for name in names}))

    (reason,) = [reason for reason in proposal.reasons if left_out in reason]
    assert reason.startswith(f"left out: {left_out}")
    assert f"add it to {word}" in reason


@pytest.mark.parametrize(
    ("files", "state"),
    [
        pytest.param({"a.txt": "x", "b/c.rst": "x"}, "holds no markdown", id="none"),
        pytest.param({".hidden/a.md": "x"}, "holds no markdown", id="hidden-only"),
        pytest.param({}, "holds no markdown", id="empty"),
    ],
)
def test_a_folder_without_markdown_is_an_error(
    files: dict[str, str], state: str, tmp_path: Path
) -> None:
    """The message names the folder, what was looked for, and what to do."""
    with pytest.raises(ConfigError) as caught:
        propose(lay_out(tmp_path, files))

    message = str(caught.value)
    assert message.startswith(f"{tmp_path}: {state} (.md, .markdown, .mdx): ")
    assert "name a folder" in message


def test_a_folder_that_cannot_be_listed_is_an_error(tmp_path: Path) -> None:
    """Missing, a file, and forbidden are told apart."""
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="does not exist: name a folder"):
        propose(tmp_path / "none")
    with pytest.raises(ConfigError, match="is not a directory: name a folder"):
        propose(tmp_path / "file")


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("docs", "docs"),
        ("Größe & Co", "gr-e-co"),
        ("...", "docs"),
        ("a" * 90, "a" * 64),
    ],
)
def test_the_name_comes_from_the_folder(folder: str, name: str, tmp_path: Path) -> None:
    """Reduced to what a corpus may be called."""
    directory = lay_out(tmp_path / folder, {"a.md": "x"})

    assert propose(directory).name == name


def test_a_name_may_be_given_and_must_be_valid(tmp_path: Path) -> None:
    """A bad name is refused before anything is written."""
    lay_out(tmp_path, {"a.md": "x"})

    assert propose(tmp_path, "Mine").config["data_dir"] == "data-Mine"
    with pytest.raises(ConfigError, match=r"is not a corpus name: use 1 to 64"):
        propose(tmp_path, "../x")


def test_the_folder_may_be_given_through_a_link(tmp_path: Path) -> None:
    """The entry holds the place itself, which outlives the link."""
    folder = lay_out(tmp_path / "real", {"a.md": "x"})
    (tmp_path / "link").symlink_to("real")

    assert propose(tmp_path / "link").config["corpus_dir"] == str(folder)


def test_a_linked_page_is_proposed_once(tmp_path: Path) -> None:
    """CLAUDE.md -> AGENTS.md is one page."""
    lay_out(tmp_path, {"AGENTS.md": "x"})
    (tmp_path / "CLAUDE.md").symlink_to("AGENTS.md")

    assert propose(tmp_path).config["top_files"] == ["AGENTS.md"]


@settings(max_examples=40, deadline=None)
@given(
    st.sets(
        st.lists(
            st.sampled_from(
                ["docs", "old", "tests", "src", "vendor", "a b", "Archive"]
            ),
            max_size=3,
        ).map(tuple),
        min_size=1,
        max_size=6,
    ),
    st.sampled_from(["page.md", "README.md", "CHANGELOG.md", "x.mdx"]),
)
def test_any_folder_with_markdown_gets_a_scope_that_matches(
    directories: set[tuple[str, ...]], page: str
) -> None:
    """Whatever the layout, the proposal loads, matches files, and has no dead entry."""
    with tempfile.TemporaryDirectory() as folder:
        files = {"/".join([*parts, page]): "x" for parts in directories}
        top = lay_out(Path(folder) / "top", files)
        result = scan_proposal(propose(top), Path(folder) / "rag")

    assert result.documents
    assert result.unmatched == ()


PROPOSAL = Proposal("demo", {"corpus_dir": "/srv/docs", "roots": ["docs"]}, ())


def test_writing_creates_the_file_and_its_folder(tmp_path: Path) -> None:
    """A first entry makes RAG_DIR and a readable file that ends with a line end."""
    path = tmp_path / "new" / "rag" / "corpora.json"
    write(path, PROPOSAL)

    assert path.read_text() == PROPOSAL.as_json()
    assert path.read_text().endswith("}\n")
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert os.listdir(path.parent) == ["corpora.json"]


def test_writing_keeps_everything_else(tmp_path: Path) -> None:
    """Other corpora, comments, their order and the mode of the file stay."""
    before = {
        "_comment": ["größer", 1],
        "other": {"roots": ["src"], "server_name": "x"},
        "_later": {"demo": {}},
    }
    path = configure(tmp_path, before)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    path.chmod(0o640)
    write(path, PROPOSAL)

    after = json.loads(path.read_text("utf-8"))
    assert list(after.items()) == [*before.items(), ("demo", PROPOSAL.config)]
    assert "größer" in path.read_text("utf-8")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_corpus_of_the_same_name_is_not_overwritten_unasked(tmp_path: Path) -> None:
    """The refusal names file, corpus and both ways out; the file stays as it was."""
    path = configure(tmp_path, {"demo": {"roots": ["mine"]}})
    before = path.read_bytes()

    with pytest.raises(ConfigError) as caught:
        write(path, PROPOSAL)

    assert str(caught.value) == (
        f'{path}: already has a corpus "demo": choose another name with --name, '
        "or replace it with --replace"
    )
    assert path.read_bytes() == before


def test_replacing_keeps_the_place_in_the_file(tmp_path: Path) -> None:
    """With replace the entry is new, also where the old one was broken."""
    path = configure(
        tmp_path, {"a": {"roots": ["x"]}, "demo": {"rots": 1}, "b": {"roots": ["y"]}}
    )
    write(path, PROPOSAL, replace=True)

    after = json.loads(path.read_text())
    assert list(after) == ["a", "demo", "b"]
    assert after["demo"] == PROPOSAL.config


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param("{'a': 1}", "line 1, column 2: single quotes", id="syntax"),
        pytest.param(
            '{"a": {"rots": []}}', 'corpus "a", key "rots"', id="other-broken"
        ),
        pytest.param(
            '{"a": {"roots": ["x"]}, "a": {"roots": ["y"]}}',
            "configured twice",
            id="twice",
        ),
        pytest.param(
            '{"a": {"roots": ["x"], "data_dir": "data-demo"}}',
            'data_dir of corpus "a": give each corpus its own',
            id="shared-index",
        ),
    ],
)
def test_a_file_that_would_not_load_is_never_written(
    content: str, words: str, tmp_path: Path
) -> None:
    """What is wrong in the file is for its owner to mend; nothing is lost."""
    path = configure(tmp_path, content)

    with pytest.raises(ConfigError) as caught:
        write(path, PROPOSAL)

    assert str(caught.value).startswith(f"{path}: ")
    assert words in str(caught.value)
    assert path.read_text() == content


def test_a_bad_proposal_is_never_written(tmp_path: Path) -> None:
    """A proposal is held to the rules of the file."""
    path = tmp_path / "corpora.json"

    with pytest.raises(ConfigError, match='corpus "x", key "roots"'):
        write(path, Proposal("x", {"roots": ["../y"]}, ()))

    assert not path.exists()


def test_a_link_to_the_file_stays_a_link(tmp_path: Path) -> None:
    """Configuration kept elsewhere is written there."""
    real = configure(tmp_path / "kept", {"a": {"roots": ["x"]}})
    path = tmp_path / "corpora.json"
    path.symlink_to(real)
    write(path, PROPOSAL)

    assert path.is_symlink()
    assert list(json.loads(real.read_text())) == ["a", "demo"]


def test_a_disk_that_refuses_is_a_storage_error(tmp_path: Path) -> None:
    """The message names the file and the cause, and no part is left behind."""
    tmp_path.joinpath("rag").write_text("a file where a folder should be")

    with pytest.raises(StorageError, match=r"corpora\.json: cannot be written \("):
        write(tmp_path / "rag" / "corpora.json", PROPOSAL)


def test_a_folder_without_permission_is_a_storage_error(tmp_path: Path) -> None:
    """Nothing but the refusal happens."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o555)
        with ordinary_user(), pytest.raises(StorageError, match="Permission denied"):
            write(Path(folder) / "corpora.json", PROPOSAL)

        assert os.listdir(folder) == []


def test_a_full_disk_leaves_file_and_folder_as_they_were(tmp_path: Path) -> None:
    """A write that fails half way is a refusal, not half a file."""
    path = configure(tmp_path, {"a": {"roots": ["x"]}})
    before = path.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, hard))
    try:
        with pytest.raises(StorageError, match="check the folder and the space"):
            write(path, PROPOSAL)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["corpora.json"]
