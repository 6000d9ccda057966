"""
A JSON object read from a file that a person edits.

What is wrong is said in words, with file, line and column. A key given twice is
remembered, because JSON parsers silently keep only one of the two.
"""

import json
import re
from pathlib import Path

from docs_rag.errors import ConfigError

# The parser's words, by their beginning, in the order of its own checks.
_IN_PLAIN_WORDS = (
    ("Expecting property name", 'a key in double quotes is expected here, "name"'),
    ("Expecting value", "a value is missing here, or it is text without quotes"),
    ("Expecting ':'", "a colon is missing here, behind the key"),
    ("Expecting ','", "a comma or a closing bracket is missing here"),
    ("Unterminated string", "this text has no closing double quote"),
    ("Invalid control", "a line end or tab inside a text: write \\n or \\t"),
    ("Invalid \\", "a single backslash: write / in paths, or \\\\"),
    ("Extra data", "something follows the object: one object {...} is expected"),
)
_COMMA_THEN_BRACKET = re.compile(r",\s*[}\]]")


class JsonObject(dict[str, object]):
    """A parsed object that knows which of its keys were given more than once."""

    __slots__ = ("repeated",)

    def __init__(self, pairs: list[tuple[str, object]]) -> None:
        super().__init__(pairs)
        names = [name for name, _ in pairs]
        self.repeated = sorted({name for name in names if names.count(name) > 1})


def read_object(path: Path) -> JsonObject:
    """Read the object in ``path``; a byte order mark is accepted."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise ConfigError(
            f"{path}: cannot be read ({error.strerror}): make it a readable file"
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is not UTF-8: save it as UTF-8") from error
    return parse_object(text, path)


def parse_object(text: str, path: Path) -> JsonObject:
    """Return the object in ``text``; ``path`` is only named in messages."""
    if not text.strip():
        raise ConfigError(f"{path}: the file is empty: write a JSON object {{...}}")
    try:
        value = json.loads(text, object_pairs_hook=JsonObject)
    except json.JSONDecodeError as error:
        raise ConfigError(_explain(text, error, path)) from error
    except RecursionError as error:
        raise ConfigError(f"{path}: brackets are nested too deeply") from error
    except ValueError as error:
        # Python refuses to convert numbers of more than 4300 digits.
        raise ConfigError(f"{path}: a number is too long") from error
    if not isinstance(value, JsonObject):
        raise ConfigError(
            f"{path}: holds {kind_of(value)} where an object is expected: "
            'write {"name": {...}}'
        )
    return value


def kind_of(value: object) -> str:
    """Name the JSON type of ``value`` in words."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "text"
    return "an object" if isinstance(value, dict) else "a list"


def _explain(text: str, error: json.JSONDecodeError, path: Path) -> str:
    position, words = _diagnose(text, error)
    line = text.count("\n", 0, position) + 1
    column = position - text.rfind("\n", 0, position)
    return f"{path}: line {line}, column {column}: {words}"


def _diagnose(text: str, error: json.JSONDecodeError) -> tuple[int, str]:
    """
    Return where the mistake is, and what it is.

    The parser points one token too late for the commonest mistakes, and where
    depends on the Python version, so the text around the place decides first.
    """
    before = text[: error.pos].rstrip(" \t\r\n")
    position = error.pos + len(text[error.pos :]) - len(text[error.pos :].lstrip())
    rest = text[position:]
    if before.endswith(",") and rest[:1] in ("}", "]", ","):
        return len(before) - 1, "a comma too many: remove it"
    if _COMMA_THEN_BRACKET.match(rest):
        return position, "a comma too many: remove it"
    if rest.startswith("'"):
        return position, 'single quotes: JSON wants double quotes, "name"'
    if rest.startswith(("//", "/*", "#")):
        return position, 'JSON has no comments: use a key such as "_comment"'
    if not rest:
        return len(text), "the file ends too early: a closing bracket is missing"
    for beginning, words in _IN_PLAIN_WORDS:
        if error.msg.startswith(beginning):
            return error.pos, words
    return error.pos, error.msg
