"""Rules of the ``.env`` file."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docs_rag.dotenv import parse_dotenv, read_dotenv
from docs_rag.errors import ConfigError

PATH = Path("/srv/rag/.env")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        pytest.param("KEY=value", "value", id="plain"),
        pytest.param("  KEY = value  ", "value", id="spaces"),
        pytest.param("export KEY=value", "value", id="export"),
        pytest.param("export\tKEY=value", "value", id="export-tab"),
        pytest.param("KEY=", "", id="blank"),
        pytest.param('KEY=""', "", id="blank-quoted"),
        pytest.param("KEY=a=b==", "a=b==", id="equals-in-value"),
        pytest.param("KEY=value # why", "value", id="comment"),
        pytest.param("KEY=# why", "", id="only-comment"),
        pytest.param("KEY=a#b", "a#b", id="hash-in-value"),
        pytest.param('KEY="a # b" # why', "a # b", id="hash-in-quotes"),
        pytest.param("KEY='a\\n\"b'", 'a\\n"b', id="single-quotes-are-literal"),
        pytest.param(r'KEY="a\nb\t\"c\" \\d \x"', 'a\nb\t"c" \\d \\x', id="escapes"),
        pytest.param("KEY=$HOME/x", "$HOME/x", id="nothing-is-expanded"),
        pytest.param("KEY=it's", "it's", id="apostrophe-inside"),
        pytest.param("KEY=größe", "größe", id="unicode"),
    ],
)
def test_a_line_assigns_its_value(line: str, expected: str) -> None:
    """Quotes, escapes, comments and export are understood; nothing is expanded."""
    assert parse_dotenv(line, PATH) == {"KEY": expected}


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=["lf", "crlf", "cr"])
def test_line_ends_comments_and_blank_lines_do_not_matter(end: str) -> None:
    """Any line end separates lines; comments and blank lines assign nothing."""
    text = end.join(["# head", "", "A=1", "   ", "  # more", "B=2", ""])

    assert parse_dotenv(text, PATH) == {"A": "1", "B": "2"}


def test_the_last_assignment_of_a_name_counts() -> None:
    """A name may be assigned again, as in a shell."""
    assert parse_dotenv("A=1\nA=2", PATH) == {"A": "2"}


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param("hunter2", id="no-equals"),
        pytest.param("2KEY=hunter2", id="name-begins-with-digit"),
        pytest.param("MY-KEY=hunter2", id="dash-in-name"),
        pytest.param("KEY: hunter2", id="colon"),
        pytest.param('KEY="hunter2', id="open-double-quote"),
        pytest.param("KEY='hunter2", id="open-single-quote"),
        pytest.param('KEY="hunter2" tail', id="text-behind-quotes"),
        pytest.param('KEY="hunter2\\"', id="escaped-closing-quote"),
        pytest.param("KEY=hunter2\0", id="nul-byte"),
        pytest.param("KEY='\0hunter2'", id="nul-byte-in-quotes"),
    ],
)
def test_a_bad_line_is_named_and_never_shown(bad: str) -> None:
    """A line that is no assignment is an error with file, line and remedy only."""
    with pytest.raises(ConfigError) as caught:
        parse_dotenv(f"A=1\n# note\n{bad}\n", PATH)

    message = str(caught.value)
    assert message.startswith("/srv/rag/.env:3: ")
    assert any(
        remedy in message
        for remedy in ("write NAME=value", "close the quote", "remove it")
    )
    assert "hunter2" not in message
    assert "\n" not in message


def test_a_byte_order_mark_is_accepted(tmp_path: Path) -> None:
    """A file saved with a byte order mark reads as without it."""
    path = tmp_path / ".env"
    path.write_bytes(b"\xef\xbb\xbfA=1\r\n")

    assert read_dotenv(path) == {"A": "1"}


def test_absent_files_and_directories_assign_nothing(tmp_path: Path) -> None:
    """No .env is no error, nor is a virtual environment of that name."""
    (tmp_path / ".env").mkdir()

    assert read_dotenv(tmp_path / "none" / ".env") == {}
    assert read_dotenv(tmp_path / ".env") == {}


def test_a_file_that_is_not_utf8_is_refused_by_name(tmp_path: Path) -> None:
    """Bytes that are not UTF-8 are an error that names the file and the remedy."""
    path = tmp_path / ".env"
    path.write_bytes(b"A=\xff\xfehunter2")

    with pytest.raises(ConfigError, match=r"\.env: is not UTF-8: save it as UTF-8"):
        read_dotenv(path)


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0\r\n"), max_size=40))
def test_any_value_survives_double_quotes(value: str) -> None:
    """A value with quotes and backslashes escaped comes back as it was."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')

    assert parse_dotenv(f'KEY="{escaped}"', PATH) == {"KEY": value}
