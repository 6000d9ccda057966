"""Rules of ``corpora.json``."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docs_rag.corpora import (
    CORPUS_KEYS,
    CorpusConfig,
    did_you_mean,
    one_line,
    parse_corpora,
    printable,
    resolve_corpora,
)
from docs_rag.errors import ConfigError

PATH = Path("/srv/rag/corpora.json")
HOME = Path("/home/ada")


def problems_of(content: object) -> str:
    """Return the message that ``content`` is refused with."""
    with pytest.raises(ConfigError) as caught:
        parse_corpora(json.dumps(content), PATH)
    return str(caught.value)


def parse_one(**config: object) -> CorpusConfig:
    """Return the corpus "demo" with these keys."""
    return parse_corpora(json.dumps({"demo": config}), PATH)["demo"]


@pytest.mark.parametrize(
    ("config", "key", "words"),
    [
        pytest.param(
            {"roots": "docs"},
            "roots",
            'is text, not a list: write "roots": ["docs"]',
            id="text-for-list",
        ),
        pytest.param(
            {"roots": {"a": 1}}, "roots", "is an object, not a list: write", id="object"
        ),
        pytest.param({"roots": None}, "roots", "is null, not a list", id="null"),
        pytest.param(
            {"roots": ["docs", 7]}, "roots", "entry 2 is a number, not text", id="entry"
        ),
        pytest.param(
            {"root": ["docs"]},
            "root",
            'is not a known key: did you mean "roots"?',
            id="slip",
        ),
        pytest.param(
            {"roots": ["d"], "Top_Files": []},
            "Top_Files",
            'did you mean "top_files"?',
            id="case",
        ),
        pytest.param(
            {"roots": ["d"], "zzz": 1},
            "zzz",
            "known keys are corpus_dir, data_dir",
            id="unknown",
        ),
        pytest.param(
            {"roots": ["d"], "corpus_dir": 3},
            "corpus_dir",
            "is a number, not text: put",
            id="number-for-text",
        ),
        pytest.param(
            {"roots": ["d"], "server_name": ["x"]},
            "server_name",
            "is a list, not text: put it in double quotes",
            id="list-for-text",
        ),
        pytest.param(
            {"roots": ["../x"]}, "roots", '"../x" leaves the corpus', id="parent"
        ),
        pytest.param(
            {"roots": ["a/../../x"]}, "roots", "leaves the corpus", id="inner-parent"
        ),
        pytest.param(
            {"top_files": ["/etc/x.md"]},
            "top_files",
            '"/etc/x.md" is not relative: give a path below corpus_dir',
            id="absolute",
        ),
        pytest.param(
            {"doc_root_files": ["~/x.md"]},
            "doc_root_files",
            "is not relative",
            id="home",
        ),
        pytest.param({"roots": ["~"]}, "roots", "is not relative", id="bare-home"),
        pytest.param({"roots": ["C:/docs"]}, "roots", "is not relative", id="drive"),
        pytest.param(
            {"roots": ["a\\b"]}, "roots", "separate directories with /", id="backslash"
        ),
        pytest.param({"roots": ["docs/*"]}, "roots", "is a pattern", id="pattern"),
        pytest.param({"roots": [" "]}, "roots", "is blank: remove", id="blank"),
        pytest.param({"roots": ["a\nb"]}, "roots", "cannot be printed", id="control"),
        pytest.param(
            {"roots": ["a\udcf6"]}, "roots", "cannot be printed", id="surrogate"
        ),
        pytest.param(
            {"top_files": ["."]}, "top_files", "names corpus_dir itself", id="dot"
        ),
        pytest.param(
            {"roots": ["d"], "exclude_dirs": ["./"]},
            "exclude_dirs",
            "names corpus_dir itself",
            id="exclude-all",
        ),
        pytest.param(
            {"roots": ["d"], "exclude_dirs": ["../archive"]},
            "exclude_dirs",
            "leaves the corpus",
            id="exclude-parent",
        ),
        pytest.param(
            {"roots": ["d"], "exclude_dirs": ["/archive"]},
            "exclude_dirs",
            "is not relative",
            id="exclude-absolute",
        ),
        pytest.param(
            {"roots": ["d"], "exclude_dirs": ["**/archive"]},
            "exclude_dirs",
            "is a pattern",
            id="exclude-pattern",
        ),
        pytest.param(
            {"roots": ["d"], "extensions": ["md"]},
            "extensions",
            'is not a markdown extension: use ".md", ".markdown", ".mdx"',
            id="extension",
        ),
        pytest.param(
            {"roots": ["d"], "extensions": []},
            "extensions",
            'is empty: write "extensions": [".md"]',
            id="no-extension",
        ),
        pytest.param(
            {"roots": ["d"], "data_dir": "a\0b"},
            "data_dir",
            "cannot be printed: remove it",
            id="nul",
        ),
    ],
)
def test_a_bad_key_is_named_with_file_corpus_and_remedy(
    config: dict[str, object], key: str, words: str
) -> None:
    """Each refusal is one line: file, corpus, key, what is wrong, what to do."""
    message = problems_of({"demo": config})

    assert message.startswith(f'{PATH}: corpus "demo", key "{key}": ')
    assert words in message
    assert "\n" not in message


@pytest.mark.parametrize(
    "config",
    [{}, {"corpus_dir": "x"}, {"roots": [], "top_files": []}],
    ids=["no-key", "other-keys", "empty-lists"],
)
def test_a_corpus_must_declare_a_scope(config: dict[str, object]) -> None:
    """Without a single scope entry the keys to give are named."""
    message = problems_of({"demo": config})

    assert message.startswith(f'{PATH}: corpus "demo" declares no files')
    for key in ("top_files", "doc_root_files", "roots"):
        assert key in message


@pytest.mark.parametrize(
    "name", ["", "-a", "a b", "a/b", "..", "é", "a" * 65, "a\n"], ids=repr
)
def test_a_corpus_name_is_plain(name: str) -> None:
    """A name that could not be a part of a file name is refused."""
    message = problems_of({name: {"roots": ["docs"]}})

    assert f'corpus "{printable(name)}"' in message
    assert "use 1 to 64 letters, digits, - and _" in message
    assert "\n" not in message


def test_all_problems_of_a_file_come_in_one_error() -> None:
    """The first line counts them, then each has its line."""
    message = problems_of(
        {
            "one": {"roots": "docs", "top_file": []},
            "two": [],
            "good": {"roots": ["docs"]},
            "three": {"roots": ["/x", "../y"]},
        }
    )

    first, *rest = message.splitlines()
    assert first == f"{PATH}: 5 problems:"
    assert [line.split(":")[0].strip() for line in rest] == [
        'corpus "one", key "roots"',
        'corpus "one", key "top_file"',
        'corpus "two" is a list',
        'corpus "three", key "roots"',
        'corpus "three", key "roots"',
    ]


def test_a_key_or_corpus_given_twice_is_refused() -> None:
    """JSON parsers keep one of two; which one, nobody could tell."""
    text = '{"a": {"roots": ["x"], "roots": ["y"]}, "b": {}, "b": {"roots": ["z"]}}'

    with pytest.raises(ConfigError) as caught:
        parse_corpora(text, PATH)

    assert 'corpus "b" is configured twice: keep one' in str(caught.value)
    assert 'corpus "a", key "roots": is given twice: keep one' in str(caught.value)


def test_names_that_begin_with_an_underscore_are_comments() -> None:
    """A comment may hold anything, twice even."""
    text = '{"_": 1, "_comment": ["x"], "_": {"roots": 3}, "a": {"roots": ["docs"]}}'

    assert list(parse_corpora(text, PATH)) == ["a"]


def test_a_corpus_without_its_name_around_it_is_recognised() -> None:
    """The commonest slip of a first file gets its own words."""
    message = problems_of({"corpus_dir": "x", "roots": ["docs"]})

    assert message.startswith(f"{PATH}: has the keys of a corpus where names")
    assert '{"my-docs": {...}}' in message


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("docs/", "docs"),
        ("./docs", "docs"),
        ("docs//a", "docs/a"),
        ("[slug]", "[slug]"),
    ],
)
def test_entries_take_their_plain_form(written: str, expected: str) -> None:
    """A trailing slash, a leading ./ and doubled slashes mean nothing."""
    config = parse_one(roots=[written], exclude_dirs=[written], top_files=[written])

    assert (config.roots, config.exclude_dirs, config.top_files) == ((expected,),) * 3


def test_a_file_whose_name_begins_with_a_tilde_is_no_home() -> None:
    """Only a path that a shell would expand is taken for one."""
    assert parse_one(top_files=["~draft.md"]).top_files == ("~draft.md",)


def test_places_default_below_the_folder_of_the_file() -> None:
    """corpus/<name> and data-<name>, next to corpora.json; the rest has defaults."""
    corpus = resolve_corpora({"demo": parse_one(roots=["docs"])}, PATH, HOME)["demo"]

    assert corpus.directory == Path("/srv/rag/corpus/demo")
    assert corpus.index_path == Path("/srv/rag/data-demo/index.sqlite")
    assert corpus.lock_path == Path("/srv/rag/data-demo/.index.lock")
    assert corpus.extensions == (".md",)
    assert corpus.server_name == "demo-docs-rag"
    assert corpus.system_note == ""
    assert corpus.git_origin_repo is None
    assert corpus.embed_model is None


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("mirror", "/srv/rag/mirror"),
        ("a/../mirror", "/srv/rag/mirror"),
        ("/var/docs", "/var/docs"),
        ("~/docs", "/home/ada/docs"),
        ("~", "/home/ada"),
        (" ", "/srv/rag/corpus/demo"),
    ],
)
def test_a_place_is_relative_absolute_or_at_home(written: str, expected: str) -> None:
    """Relative to the file, absolute wins, ~ is home, blank is the default."""
    config = parse_one(roots=["docs"], corpus_dir=written)

    assert resolve_corpora({"demo": config}, PATH, HOME)["demo"].directory == Path(
        expected
    )


def test_an_entry_given_twice_counts_once() -> None:
    """Repeated entries, in whatever spelling, are one entry."""
    config = parse_one(roots=["docs", "docs/", "./docs"], exclude_dirs=["a/", "a"])
    corpus = resolve_corpora({"demo": config}, PATH, HOME)["demo"]

    assert corpus.roots == ("docs",)
    assert corpus.exclude_dirs == ("a",)


def test_two_corpora_never_share_an_index(tmp_path: Path) -> None:
    """Two ways to the same data_dir are found, also through a link."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    config = {"roots": ["docs"]}
    configs = parse_corpora(
        json.dumps(
            {
                "a": config | {"data_dir": "real"},
                "b": config | {"data_dir": "link"},
                "c": config | {"data_dir": "c/../real/"},
            }
        ),
        PATH,
    )

    with pytest.raises(ConfigError) as caught:
        resolve_corpora(configs, tmp_path / "corpora.json", HOME)

    first, *rest = str(caught.value).splitlines()
    assert first == f"{tmp_path / 'corpora.json'}: 2 problems:"
    for line, name in zip(rest, "bc", strict=True):
        assert f'corpus "{name}", key "data_dir": {tmp_path / "real"} is also' in line
        assert 'of corpus "a": give each corpus its own' in line


def test_an_index_does_not_lie_loose_in_the_documents() -> None:
    """A mirror that deletes what is not at its source would delete the index."""
    config = parse_one(roots=["docs"], corpus_dir="x", data_dir="./x")

    with pytest.raises(
        ConfigError, match=r'corpus "demo", key "data_dir": .*corpus_dir'
    ):
        resolve_corpora({"demo": config}, PATH, HOME)


def test_presentation_is_one_bounded_line() -> None:
    """Name and note are collapsed, stripped of control characters and cut."""
    config = parse_one(
        roots=["docs"], server_name=" my\n docs\x1b ", system_note="a \t\n" * 400
    )
    corpus = resolve_corpora({"demo": config}, PATH, HOME)["demo"]

    assert corpus.server_name == "my docs"
    assert corpus.system_note == ("a " * 250).strip()


def test_the_example_file_loads() -> None:
    """What users copy is valid, and shows each key the file may have."""
    path = Path(__file__).parent.parent / "corpora.example.json"
    configs = parse_corpora(path.read_text(), path)
    resolve_corpora(configs, path, HOME)

    shown = {key for config in configs.values() for key in config.written}
    assert "example" in configs
    assert shown == set(CORPUS_KEYS)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain ünïcode", "plain ünïcode"),
        ("b\udcf6rse", "b\\xf6rse"),
        ("a\x1b[31m\n", "a\\x1b[31m\\x0a"),
        ("a\u2028b\ud800", "a\\u2028b\\ud800"),
    ],
    ids=["plain", "bytes", "control", "others"],
)
def test_what_cannot_be_printed_is_escaped(text: str, expected: str) -> None:
    """Bytes that are not UTF-8 and control characters show as escapes."""
    assert printable(text) == expected


@given(st.text())
def test_printable_text_is_one_line_of_utf8(text: str) -> None:
    """Whatever a name holds, it can be put into a report."""
    shown = printable(text)

    shown.encode("utf-8")
    assert len(shown.splitlines()) <= 1
    assert printable(shown) == shown


@given(st.text(), st.integers(min_value=1, max_value=50))
def test_one_line_is_bounded_and_stable(text: str, max_chars: int) -> None:
    """The result has no line end, fits, and is its own result."""
    line = one_line(text, max_chars)

    assert len(line) <= max_chars
    assert len(line.splitlines()) <= 1
    assert one_line(line, max_chars) == line


def test_only_close_words_are_suggested() -> None:
    """A slip gets a hint, something else gets none."""
    assert did_you_mean("Exmaple", ["example", "book"]) == 'did you mean "example"? '
    assert did_you_mean("zebra", ["example", "book"]) == ""


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from([*CORPUS_KEYS, "x"]), inner, max_size=4)
        ),
        max_leaves=12,
    )
)
def test_any_json_is_a_configuration_or_a_config_error(value: object) -> None:
    """No content of the file raises anything but ConfigError."""
    try:
        configs = parse_corpora(json.dumps({"demo": value}), PATH)
        resolve_corpora(configs, PATH, HOME)
    except ConfigError as error:
        assert str(error).startswith(str(PATH))
