"""Rules of reading: every record is found, everything else is counted."""

import gzip
import json
import os
import threading
import tracemalloc
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trace_samples import make_line, write_lines

from docs_rag import tracereader
from docs_rag.tracereader import (
    FileTally,
    Record,
    log_files,
    parse_moment,
    parse_record,
    read_records,
    trace_files,
)

GOOD = make_line().encode()


def read(path: Path) -> tuple[list[Record], FileTally]:
    tally = FileTally(str(path))
    return list(read_records(path, tally)), tally


@pytest.mark.parametrize(
    ("content", "records", "unreadable", "partial"),
    [
        (b"", 0, 0, 0),
        (GOOD, 1, 0, 0),
        (b"\xef\xbb\xbf" + GOOD, 1, 0, 0),
        (GOOD.replace(b"\n", b"\r\n") * 2, 2, 0, 0),
        (b"\n\n" + GOOD + b"  \n", 1, 0, 0),
        (GOOD + GOOD.rstrip(), 2, 0, 0),
        (GOOD + GOOD[:40], 1, 0, 1),
        (GOOD + GOOD[:40] + b"\n" + GOOD, 2, 1, 0),
        (GOOD + GOOD.replace(b"retrieve", b"re\xfftrieve") + GOOD, 2, 1, 0),
        (GOOD + '{"name": "café'.encode()[:-1], 1, 0, 1),
        (GOOD.replace(b"}\n", b"} trailing\n") + GOOD, 1, 1, 0),
        (b'{"resourceSpans": []}\n[1]\n5\nnull\n"x"\n', 0, 5, 0),
        (b"[" * 100_000 + b"\n" + GOOD, 1, 1, 0),
        (GOOD.replace(b"10.0", b"NaN") + GOOD.replace(b"10.0", b'"10"'), 0, 2, 0),
        (GOOD.replace(b"10.0", b"9" * 5000) + GOOD, 1, 1, 0),
        (GOOD.replace(b"10.0", b"true") + GOOD, 1, 1, 0),
        (b"\x00" * 5000 + b"\n" + GOOD, 1, 1, 0),
    ],
    ids=[
        "empty",
        "one",
        "byte-order-mark",
        "crlf",
        "blank-lines",
        "no-last-newline",
        "half-at-the-end",
        "half-in-the-middle",
        "not-utf8",
        "half-a-character",
        "trailing-text",
        "other-json",
        "deep-nesting",
        "not-a-duration",
        "huge-integer",
        "bool-is-no-number",
        "nul-bytes",
    ],
)
def test_what_is_no_record_is_counted(
    content: bytes, records: int, unreadable: int, partial: int, tmp_path: Path
) -> None:
    """Records are yielded, half a last line and other bad lines are counted apart."""
    path = tmp_path / "traces-a.jsonl"
    path.write_bytes(content)

    found, tally = read(path)

    assert len(found) == tally.records == records
    assert (tally.unreadable, tally.partial) == (unreadable, partial)
    assert tally.problem is None


@settings(max_examples=100, deadline=None)
@given(
    pieces=st.lists(
        st.one_of(st.just(GOOD), st.binary(max_size=60), st.just(b"\n")), max_size=12
    )
)
def test_reading_never_fails(pieces: list[bytes]) -> None:
    """Whatever the bytes are, each line is a record, or counted, or blank."""
    for line in b"".join(pieces).splitlines(keepends=True):
        record = parse_record(line)
        assert record is None or record.tool == "retrieve"


@pytest.mark.parametrize("name", ["traces-a.jsonl.1", "traces-a.jsonl.2.gz", "odd"])
def test_rotated_files_are_read(name: str, tmp_path: Path) -> None:
    """A file is unpacked if its content says gzip, whatever it is called."""
    path = tmp_path / name
    packed = name != "traces-a.jsonl.1"
    path.write_bytes(gzip.compress(GOOD * 3) if packed else GOOD * 3)

    found, tally = read(path)

    assert len(found) == 3
    assert tally.compressed == packed


def test_a_gzip_file_of_several_members_is_read(tmp_path: Path) -> None:
    """What was packed day by day and joined is read to its end."""
    path = tmp_path / "traces-a.jsonl.gz"
    path.write_bytes(gzip.compress(GOOD) + gzip.compress(GOOD))

    assert len(read(path)[0]) == 2


@pytest.mark.parametrize("cut", [20, -12, -4], ids=["early", "late", "checksum"])
def test_damaged_gzip_is_named(cut: int, tmp_path: Path) -> None:
    """What can be unpacked is read, and the tally says that there was more."""
    path = tmp_path / "traces-a.jsonl.gz"
    path.write_bytes(gzip.compress(GOOD * 2000)[:cut])

    _, tally = read(path)

    assert tally.problem is not None and "gzip" in tally.problem


def test_what_cannot_be_opened_is_named(tmp_path: Path) -> None:
    """A missing file and a folder have a problem rather than records."""
    missing = read(tmp_path / "nowhere.jsonl")[1]
    folder = read(tmp_path)[1]

    assert missing.missing and missing.problem
    assert not folder.missing and folder.problem == "is a directory"


def test_a_pipe_is_read(tmp_path: Path) -> None:
    """What another program unpacks can be piped in."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    feeder = threading.Thread(target=path.write_bytes, args=(GOOD * 3,))
    feeder.start()

    found, tally = read(path)
    feeder.join()

    assert (len(found), tally.problem) == (3, None)


def test_a_line_without_end_is_not_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line over the limit is skipped in bounded memory, and reading goes on."""
    monkeypatch.setattr(tracereader, "MAX_LINE_BYTES", 100_000)
    path = tmp_path / "traces-a.jsonl"
    path.write_bytes(GOOD + b"x" * 20_000_000 + b"\n" + GOOD)

    tracemalloc.start()
    found, tally = read(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert (len(found), tally.unreadable) == (2, 1)
    assert peak < 5_000_000


@pytest.mark.parametrize(
    ("timestamp", "moment"),
    [
        ("2031-05-20T12:00:00Z", datetime(2031, 5, 20, 12, tzinfo=UTC)),
        ("2031-05-20T12:00:00.5+00:00", datetime(2031, 5, 20, 12, 0, 0, 500_000, UTC)),
        ("2031-05-20T20:00:00+08:00", datetime(2031, 5, 20, 12, tzinfo=UTC)),
        ("2031-05-20 12:00:00", datetime(2031, 5, 20, 12, tzinfo=UTC)),
        ("yesterday", None),
        ("", None),
        ("0001-01-01T00:00:00+14:00", None),
    ],
)
def test_times_are_read_as_utc(timestamp: str, moment: datetime | None) -> None:
    """Any ISO 8601 time becomes UTC; what is none is None."""
    assert parse_moment(timestamp) == moment


def test_a_record_tells_tool_and_failure() -> None:
    """The tool falls back to the span's name, a failure to the status alone."""
    bare = {"timestamp": "t", "name": "odd", "duration_ms": 1, "attributes": {}}
    failed = parse_record(json.dumps(bare | {"status": "error"}).encode())
    typed = parse_record(make_line(**{"error.type": "QueryError"}).encode())

    assert failed is not None and failed.failed
    assert (failed.tool, failed.error_type) == ("odd", "unknown")
    assert typed is not None and typed.error_type == "QueryError"


def test_log_files_of_a_folder_include_rotated_ones(tmp_path: Path) -> None:
    """Logs are found under the names that rotation gives; other files are not logs."""
    traces = [
        "traces-a.jsonl",
        "traces-a.jsonl-20310520.gz",
        "traces-a.jsonl.1",
        "traces-b.jsonl.2.gz",
        "traces-b.jsonl.gz",
    ]
    metering = ["queries-a.log", "queries-a.log.3"]
    others = [".prune-x", "notes.txt", "traces-a.jsonl.html", "traces-a.jsonl.bak"]
    for name in [*traces, *metering, *others]:
        write_lines(tmp_path / name, [make_line(ago=timedelta(days=1))])

    assert [path.name for path in trace_files(tmp_path)] == traces
    assert {path.name for path in log_files(tmp_path)} == {*traces, *metering}
