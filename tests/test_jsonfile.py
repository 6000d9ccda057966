"""Rules of reading a JSON object that a person edits."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docs_rag.errors import ConfigError
from docs_rag.jsonfile import kind_of, parse_object, read_object

PATH = Path("/srv/rag/corpora.json")


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        pytest.param(
            '{\n "a": 1,\n}', "line 2, column 8", "comma too many", id="comma"
        ),
        pytest.param('{"a": [1, ]}', "line 1, column 9", "comma too many", id="list"),
        pytest.param(
            '{"a":1,,"b":2}', "line 1, column 7", "comma too", id="two-commas"
        ),
        pytest.param("{\n'a': 1}", "line 2, column 1", "double quotes", id="single"),
        pytest.param(
            "{\"a\": 'x'}", "line 1, column 7", "double quotes", id="single-2"
        ),
        pytest.param("{a: 1}", "line 1, column 2", "double quotes", id="bare-key"),
        pytest.param('{"a": docs}', "line 1, column 7", "without quotes", id="bare"),
        pytest.param('{"a" 1}', "line 1, column 6", "colon is missing", id="colon"),
        pytest.param(
            '{"a": 1\n "b": 2}', "line 2, column 2", "comma or", id="no-comma"
        ),
        pytest.param('{"a": "x}', "line 1, column 7", "closing double", id="open-text"),
        pytest.param('{"a": "x\ny"}', "line 1, column 9", "line end", id="line-end"),
        pytest.param(
            '{"a": "C:\\docs"}', "line 1, column 10", "backslash", id="escape"
        ),
        pytest.param('{"a": 1} x', "line 1, column 10", "follows", id="extra"),
        pytest.param('{"a": 1', "line 1, column 8", "ends too early", id="cut"),
        pytest.param('{"a":\n', "line 2, column 1", "ends too early", id="cut-2"),
        pytest.param("// x\n{}", "line 1, column 1", "_comment", id="comment"),
        pytest.param('{"a": 1 # x\n}', "line 1, column 9", "_comment", id="comment-2"),
    ],
)
def test_a_syntax_error_names_file_line_column_and_mistake(
    text: str, place: str, words: str
) -> None:
    """What is wrong is said in words, on one line, with the place to look at."""
    with pytest.raises(ConfigError) as caught:
        parse_object(text, PATH)

    message = str(caught.value)
    assert message.startswith(f"{PATH}: {place}: ")
    assert words in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("", "the file is empty: write", id="empty"),
        pytest.param(" \r\n\t", "the file is empty: write", id="blank"),
        pytest.param("[{}]", "holds a list where an object is expected", id="list"),
        pytest.param('"x"', "holds text where an object is expected", id="text"),
        pytest.param("7", "holds a number where an object is expected", id="number"),
        pytest.param("true", "holds true or false where", id="boolean"),
        pytest.param("null", "holds null where an object is expected", id="null"),
        pytest.param("[" * 100_000, "brackets are nested too deeply", id="deep"),
        pytest.param('{"a": ' + "1" * 5000 + "}", "a number is too long", id="number"),
    ],
)
def test_anything_but_an_object_is_refused(text: str, words: str) -> None:
    """A file that holds something else says so, with its name."""
    with pytest.raises(ConfigError) as caught:
        parse_object(text, PATH)

    assert str(caught.value).startswith(f"{PATH}: {words}")


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b'\xef\xbb\xbf{"a": [1]}', id="byte-order-mark"),
        pytest.param(b'{"a":\r\n [1]}\r\n', id="crlf"),
    ],
)
def test_marks_and_line_ends_of_other_systems_are_accepted(
    raw: bytes, tmp_path: Path
) -> None:
    """A byte order mark and CR LF change nothing."""
    path = tmp_path / "corpora.json"
    path.write_bytes(raw)

    assert read_object(path) == {"a": [1]}


def test_unreadable_files_are_named_with_the_cause(tmp_path: Path) -> None:
    """A directory in place of the file, or other bytes than UTF-8, are errors."""
    odd = tmp_path / "odd.json"
    odd.write_bytes(b'{"a": "\xff"}')

    with pytest.raises(ConfigError, match=r"cannot be read \(Is a directory\)"):
        read_object(tmp_path)
    with pytest.raises(ConfigError, match=r"odd\.json: is not UTF-8: save it as"):
        read_object(odd)


def test_a_repeated_key_is_remembered_at_every_level() -> None:
    """The parser keeps one of two equal keys; the object knows of the other."""
    outer = parse_object('{"a": {"x": 1, "x": 2, "y": 3}, "b": 1, "b": 2}', PATH)

    inner = outer["a"]
    assert outer.repeated == ["b"]
    assert getattr(inner, "repeated", None) == ["x"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "null"),
        (False, "true or false"),
        (1.5, "a number"),
        ("", "text"),
        ([], "a list"),
        ({}, "an object"),
    ],
    ids=str,
)
def test_kinds_have_plain_names(value: object, expected: str) -> None:
    """Messages speak of text and lists, not of types of a programming language."""
    assert kind_of(value) == expected


@given(st.text(max_size=60))
def test_any_text_is_an_object_or_one_line_of_error(text: str) -> None:
    """Nothing but ConfigError comes out, and its message is one line."""
    try:
        value = parse_object(text, PATH)
    except ConfigError as error:
        assert str(error).startswith(str(PATH))
        assert "\n" not in str(error)
    else:
        assert kind_of(value) == "an object"
