"""
A labelled question set: one JSON object a line, checked as it is read.

A bad line names itself; nothing is skipped in silence.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from docs_rag.errors import GoldenError

# The family whose questions the corpus does not answer.
OFF = "off"


@dataclass(frozen=True, slots=True)
class Case:
    """
    One question and where its answer stands.

    Any of ``expected`` counts; none for a question that the corpus does not answer.
    ``evidence`` maps a path to a phrase of the passage that answers.
    """

    id: str
    family: str
    query: str
    expected: tuple[str, ...]
    evidence: Mapping[str, str]
    also: tuple[str, ...] = ()

    @property
    def is_answerable(self) -> bool:
        """Whether the corpus answers it."""
        return bool(self.expected)


def read_golden(path: Path) -> list[Case]:
    """Return the cases of a golden file. Raises ``GoldenError``."""
    cases: dict[str, Case] = {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise GoldenError(f"{path}: cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise GoldenError(f"{path}: is not UTF-8: save it as UTF-8") from error
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.lstrip().startswith("//"):
            continue
        where = f"{path}:{number}"
        case = _case(line, where)
        if case.id in cases:
            raise GoldenError(f"{where}: id {case.id!r} is taken by an earlier line")
        cases[case.id] = case
    if not cases:
        raise GoldenError(f"{path}: no questions")
    return list(cases.values())


def _case(line: str, where: str) -> Case:
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise GoldenError(f"{where}: not JSON ({error})") from error
    except (RecursionError, ValueError) as error:
        # Python refuses to convert numbers of more than 4300 digits.
        raise GoldenError(
            f"{where}: brackets are nested too deeply, or a number is too long"
        ) from error
    if not isinstance(row, dict):
        raise GoldenError(f"{where}: an object is wanted, not {type(row).__name__}")
    expected = _strings(row, "expected", where)
    if "expected" not in row:
        raise GoldenError(f"{where}: 'expected' is missing")
    return Case(
        id=_string(row, "id", where),
        family=_string(row, "family", where) if "family" in row else "all",
        query=_string(row, "query", where),
        expected=expected,
        evidence=_evidence(row, expected, where),
        also=_strings(row, "also", where),
    )


def _string(row: Mapping[str, object], key: str, where: str) -> str:
    value = row.get(key)
    if not isinstance(value, str) or not value.strip():
        raise GoldenError(f"{where}: {key!r} must be a string that is not blank")
    return value


def _strings(row: Mapping[str, object], key: str, where: str) -> tuple[str, ...]:
    value = row.get(key, [])
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list) or not all(
        isinstance(one, str) and one.strip() for one in values
    ):
        raise GoldenError(f"{where}: {key!r} must be a string or a list of strings")
    return tuple(values)


def _evidence(
    row: Mapping[str, object], expected: tuple[str, ...], where: str
) -> dict[str, str]:
    by_path = row.get("evidence_by_path", {})
    if not isinstance(by_path, dict):
        raise GoldenError(f"{where}: 'evidence_by_path' must be an object")
    if set(by_path) - set(expected):
        raise GoldenError(f"{where}: 'evidence_by_path' names a path not expected")
    phrase = row.get("evidence", "")
    if not isinstance(phrase, str):
        raise GoldenError(f"{where}: 'evidence' must be a string")
    first = {expected[0]: phrase} if expected and phrase else {}
    return {**first, **{str(path): str(text) for path, text in by_path.items()}}
