"""
Trace files as records, one after another in constant memory.

A line that is no record is counted, never fatal: half a line left by a crash, bytes
that are not UTF-8, another program's JSON. What was read of each file, and what
stopped the reading, is in its tally.
"""

import gzip
import json
import math
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

# Longer lines are skipped without being held in memory.
MAX_LINE_BYTES = 16 * 1024 * 1024
_BUFFER_BYTES = 1024 * 1024
_GZIP_MAGIC = b"\x1f\x8b"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_LOG_NAME = re.compile(
    r"(traces-.+\.jsonl|queries-.+\.log)([.-]\d[\d.T:_-]*)?(\.gz)?"
).fullmatch
_UTC_TIME = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|\+00:00)", re.ASCII
).fullmatch
_decode_json = json.JSONDecoder().raw_decode


class Record(NamedTuple):
    """One call as it was traced; ``fields`` is the whole object."""

    timestamp: str
    name: str
    duration_ms: float
    failed: bool
    attributes: dict[str, object]
    fields: dict[str, object]

    @property
    def tool(self) -> str:
        """The tool that was called."""
        return str(self.attributes.get("gen_ai.tool.name") or self.name)

    @property
    def error_type(self) -> str:
        """Why the call failed, as far as the record says."""
        attributes = self.attributes
        return str(
            attributes.get("docs_rag.error.type")
            or attributes.get("error.type")
            or "unknown"
        )


@dataclass(slots=True)
class FileTally:
    """What was read of one file; ``problem`` says why it was not read to its end."""

    path: str
    compressed: bool = False
    size_bytes: int = 0
    records: int = 0
    unreadable: int = 0
    partial: int = 0
    missing: bool = False
    problem: str | None = None


def read_records(path: Path, tally: FileTally) -> Iterator[Record]:
    """Yield the records of a plain or gzip file and count everything in ``tally``."""
    try:
        with open_lines(path) as (stream, compressed):
            tally.compressed = compressed
            for line in iterate_lines(stream):
                tally.size_bytes += len(line)
                record = parse_record(line)
                if record is not None:
                    tally.records += 1
                    yield record
                elif not line.endswith(b"\n"):
                    tally.partial += 1
                elif not line.isspace():
                    tally.unreadable += 1
    except (EOFError, gzip.BadGzipFile, zlib.error):
        tally.problem = "the gzip data is damaged or ends early"
    except FileNotFoundError:
        tally.missing, tally.problem = True, "there is no such file"
    except OSError as error:
        tally.problem = (error.strerror or type(error).__name__).lower()


@contextmanager
def open_lines(path: Path) -> Iterator[tuple[BinaryIO, bool]]:
    """Open a file for reading, unpacked where its first bytes say gzip."""
    with path.open("rb", buffering=_BUFFER_BYTES) as stream:
        # Peeked at, not read and sought back: a pipe cannot go back.
        start = cast(BufferedReader, stream).peek(len(_BYTE_ORDER_MARK))
        if start.startswith(_GZIP_MAGIC):
            with gzip.GzipFile(fileobj=stream) as unpacked:
                yield cast(BinaryIO, unpacked), True
        else:
            if start.startswith(_BYTE_ORDER_MARK):
                stream.read(len(_BYTE_ORDER_MARK))
            yield stream, False


def iterate_lines(stream: BinaryIO) -> Iterator[bytes]:
    """Yield lines with their ends; of a line too long, only its start."""
    while line := stream.readline(MAX_LINE_BYTES):
        if len(line) == MAX_LINE_BYTES and not line.endswith(b"\n"):
            rest = line
            while rest and not rest.endswith(b"\n"):
                rest = stream.readline(MAX_LINE_BYTES)
            line = line[:64] + b"\n"
        yield line


def parse_record(line: bytes) -> Record | None:
    """Return the record that a line holds, or None."""
    try:
        text = line.decode().strip()
        fields, end = _decode_json(text)
    except (ValueError, RecursionError):
        return None
    if end != len(text) or type(fields) is not dict:
        return None
    timestamp = fields.get("timestamp")
    duration = fields.get("duration_ms")
    attributes = fields.get("attributes")
    if (
        type(timestamp) is not str
        or (type(duration) is not float and type(duration) is not int)
        or type(attributes) is not dict
        or not math.isfinite(duration)
    ):
        return None
    failed = fields.get("status") == "error" or "error.type" in attributes
    name = fields.get("name")
    return Record(
        timestamp,
        name if type(name) is str else "unnamed",
        duration,
        failed,
        attributes,
        fields,
    )


def parse_moment(timestamp: str) -> datetime | None:
    """Return an ISO 8601 time in UTC; one without an offset is taken to be UTC."""
    try:
        moment = datetime.fromisoformat(timestamp)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def utc_second(timestamp: str) -> str:
    """Return a time in UTC to the second, comparable as text; "" if it is none."""
    if _UTC_TIME(timestamp):
        return timestamp[:19]
    moment = parse_moment(timestamp)
    return moment.isoformat()[:19] if moment else ""


def trace_files(directory: Path) -> list[Path]:
    """Return the trace files in ``directory``, rotated and packed ones included."""
    return [path for path in log_files(directory) if path.name.startswith("traces-")]


def log_files(directory: Path) -> list[Path]:
    """Return the trace and metering files in ``directory``, whatever rotated them."""
    return [path for path in sorted(directory.glob("*")) if _LOG_NAME(path.name)]
