"""
What an embedding server answered, checked before anyone believes it.

Vectors come back in the order of the texts, however the server ordered them; one
that is unusable is named, and any doubt about which is whose refuses the reply.
"""

import base64
import binascii
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from docs_rag.backend import unit_rows
from docs_rag.errors import EmbeddingError

if TYPE_CHECKING:
    from docs_rag.records import Vectors


class ReplyError(Exception):
    """The reply as a whole is unusable; the message is a clause, not a sentence."""


@dataclass(frozen=True, slots=True)
class Reply:
    """
    One row a text; ``faults`` tells by position which rows are to be ignored, and why.

    ``width`` is None where no row is usable.
    """

    rows: "Vectors"
    width: int | None
    faults: dict[int, str] = field(default_factory=dict)
    tokens: int | None = None


def read_reply(body: bytes, expected_count: int) -> Reply:
    """Parse the body of a 200 answer to ``expected_count`` texts."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ReplyError("an answer that is not JSON") from error
    data = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(data, list):
        said = error_text(body)
        raise ReplyError(f'an answer without a "data" list{said and ": "}{said}')
    values = _in_order(data, expected_count)
    return _assemble(values, _tokens(answer))


def error_text(body: bytes) -> str:
    """Return the error message in ``body``, in the shapes servers use, on one line."""
    text = body[:20_000].decode("utf-8", "replace")
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError):
        answer = None
    for key in ("error", "detail", "message"):
        if isinstance(answer, dict) and key in answer:
            answer = answer[key]
    if answer:
        text = answer if isinstance(answer, str) else json.dumps(answer)
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def _in_order(data: list[object], expected_count: int) -> list[object]:
    """Return the embeddings sorted by index, each index exactly once."""
    if len(data) != expected_count:
        raise ReplyError(f"{len(data)} vectors for {expected_count} texts")
    by_index: dict[int, object] = {}
    for item in data:
        index = item.get("index") if isinstance(item, dict) else None
        if type(index) is not int or not 0 <= index < expected_count:
            raise ReplyError("a vector without a valid index")
        if index in by_index:
            raise ReplyError(f"two vectors with index {index}")
        by_index[index] = item.get("embedding") if isinstance(item, dict) else None
    return [by_index[index] for index in range(expected_count)]


def _assemble(values: list[object], tokens: int | None) -> Reply:
    rows: dict[int, Vectors] = {}
    faults: dict[int, str] = {}
    for position, value in enumerate(values):
        try:
            rows[position] = unit_rows([_numbers(value)])[0]
        except (ReplyError, EmbeddingError) as error:
            faults[position] = str(error)
    widths = {len(row) for row in rows.values()}
    if len(widths) > 1:
        raise ReplyError(f"vectors of different widths ({sorted(widths)})")
    width = next(iter(widths), None)
    matrix = np.zeros((len(values), width or 0), dtype=np.float32)
    for position, row in rows.items():
        matrix[position] = row
    return Reply(matrix, width, faults, tokens)


def _numbers(value: object) -> "list[float] | Vectors":
    """Return the numbers of one embedding: a JSON list, or base64 of float32."""
    if isinstance(value, str):
        return _decode(value)
    if not isinstance(value, list) or not value:
        raise ReplyError("the server returned no vector")
    # Checked one by one: numpy would read "1.0" and true as numbers.
    if not all(type(number) in (int, float) for number in value):
        raise ReplyError("the server returned a vector that holds null or text")
    try:
        return [float(number) for number in value]
    except OverflowError as error:
        raise ReplyError("the server returned a vector beyond all range") from error


def _decode(text: str) -> "Vectors":
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ReplyError("the server returned text for a vector") from error
    if not raw or len(raw) % 4:
        raise ReplyError("the server returned a truncated base64 vector")
    return np.frombuffer(raw, dtype="<f4").astype(np.float32)


def _tokens(answer: dict[str, object]) -> int | None:
    usage = answer.get("usage")
    for key in ("total_tokens", "prompt_tokens"):
        count = usage.get(key) if isinstance(usage, dict) else None
        if type(count) is int and count >= 0:
            return count
    return None
