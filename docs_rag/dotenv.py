"""
A ``.env`` file as names and values.

Nothing is expanded and nothing reaches the process environment. A message never
shows the text of a line, because that text may be a secret.
"""

import re
from pathlib import Path

from docs_rag.errors import ConfigError

_ASSIGNMENT = re.compile(
    r"(?:export\s+)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)\s*=\s*(?P<value>.*)"
)
_DOUBLE_QUOTED = re.compile(r'"(?P<value>(?:[^"\\]|\\.)*)"\s*(?:#.*)?')
_SINGLE_QUOTED = re.compile(r"'(?P<value>[^']*)'\s*(?:#.*)?")
_TRAILING_COMMENT = re.compile(r"(?:^|\s+)#.*")
_ESCAPE = re.compile(r"\\(.)")
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\", "$": "$"}


def read_dotenv(path: Path) -> dict[str, str]:
    """
    Return what ``path`` assigns; the last assignment of a name counts.

    An absent file assigns nothing, and neither does a directory: ``.env`` is also
    what some tools call a virtual environment.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return {}
    except OSError as error:
        raise ConfigError(
            f"{path}: cannot be read ({error.strerror}): make it readable, or remove it"
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is not UTF-8: save it as UTF-8") from error
    return parse_dotenv(text, path)


def parse_dotenv(text: str, path: Path) -> dict[str, str]:
    """Return the assignments in ``text``; ``path`` is only named in messages."""
    values: dict[str, str] = {}
    for number, line in enumerate(re.split(r"\r\n|\r|\n", text), start=1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        if "\0" in line:
            raise ConfigError(f"{path}:{number}: holds a NUL byte: remove it")
        assignment = _ASSIGNMENT.fullmatch(stripped)
        if assignment is None:
            raise ConfigError(
                f"{path}:{number}: is not an assignment: write NAME=value, "
                "or put # in front of a comment"
            )
        value = _value(assignment["value"])
        if value is None:
            raise ConfigError(
                f"{path}:{number}: {assignment['name']} has a quote that does not end "
                "the value: close the quote, and put nothing but a # comment behind it"
            )
        values[assignment["name"]] = value
    return values


def _value(text: str) -> str | None:
    """Take quotes, escapes and a trailing comment off; None where quotes are off."""
    if text.startswith('"'):
        quoted = _DOUBLE_QUOTED.fullmatch(text)
        return quoted and _ESCAPE.sub(_unescape, quoted["value"])
    if text.startswith("'"):
        quoted = _SINGLE_QUOTED.fullmatch(text)
        return quoted and quoted["value"]
    return _TRAILING_COMMENT.sub("", text)


def _unescape(match: re.Match[str]) -> str:
    return _ESCAPED.get(match[1], match[0])
