"""Rules of recording: what a call leaves behind, and what it never does."""

import dataclasses
import fcntl
import hashlib
import json
import logging
import os
import subprocess
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trace_samples import NOW, make_call, read_json_lines

from docs_rag.errors import ConfigError
from docs_rag.tracing import (
    Caller,
    Tool,
    TraceWriter,
    metering_line,
    printable,
    trace_record,
)

TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def make_writer(directory: Path, *, content: bool = False) -> TraceWriter:
    return TraceWriter(directory, "book", content=content, clock=lambda: NOW)


def attributes_of(content: bool = False, **changes: Any) -> dict[str, Any]:
    record = trace_record(make_call(**changes), "book", NOW, content=content)
    attributes = json.loads(json.dumps(record))["attributes"]
    assert isinstance(attributes, dict)
    return attributes


def metering_cells(line: str) -> dict[str, str]:
    return dict(cell.split("=", 1) for cell in line.rstrip("\n").split("\t"))


def test_nothing_is_made_before_the_first_call(tmp_path: Path) -> None:
    """A writer that never wrote leaves no folder; the first call makes it, private."""
    writer = make_writer(tmp_path / "a" / "logs")
    assert list(tmp_path.iterdir()) == []

    writer.record(make_call())

    assert (tmp_path / "a" / "logs").stat().st_mode & 0o777 == 0o700
    for path in (writer.traces_path, writer.metering_path):
        assert path.stat().st_mode & 0o777 == 0o600
    assert writer.traces_path.name == "traces-book.jsonl"
    assert writer.metering_path.name == "queries-book.log"


def test_a_record_is_a_span(tmp_path: Path) -> None:
    """A record has a start, a width, ids of the right lengths and a status."""
    writer = make_writer(tmp_path)
    writer.record(make_call(latency_ms=1500.0))
    (record,) = read_json_lines(writer.traces_path)

    assert datetime.fromisoformat(record["timestamp"]) == NOW - timedelta(seconds=1.5)
    assert record["timestamp"].endswith("+00:00")
    assert record["duration_ms"] == 1500.0
    assert (record["name"], record["kind"]) == ("tools/call retrieve", "server")
    assert record["status"] == "ok"
    assert len(bytes.fromhex(record["trace_id"])) == 16
    assert len(bytes.fromhex(record["span_id"])) == 8
    assert "parent_span_id" not in record


def test_a_record_says_what_the_service_knows() -> None:
    """Corpus, generation, verdict, counts, transport and facts are all in it."""
    facts = {
        "embed_ms": 1.25,
        "rankers": {"vector_ms": np.float32(2.5), "words": np.int64(3)},
        "cache": True,
        "stale_hits": 1,
    }

    attributes = attributes_of(facts=facts, client_name="Some Agent/2")

    expected = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "retrieve",
        "gen_ai.data_source.id": "book",
        "gen_ai.request.model": "stub",
        "gen_ai.usage.input_tokens": 6,
        "mcp.method.name": "tools/call",
        "network.transport": "tcp",
        "docs_rag.corpus": "book",
        "docs_rag.generation": 7,
        "docs_rag.k": 5,
        "docs_rag.hits": 3,
        "docs_rag.match": "strong",
        "docs_rag.caller": "mcp",
        "docs_rag.transport": "streamable-http",
        "docs_rag.client.name": "Some_Agent/2",
        "docs_rag.paths": ["docs/lock.md", "docs/weir.md"],
        "docs_rag.embed_ms": 1.25,
        "docs_rag.rankers.vector_ms": 2.5,
        "docs_rag.rankers.words": 3,
        "docs_rag.cache": True,
        "docs_rag.stale_hits": 1,
    }
    assert expected.items() <= attributes.items()
    assert None not in attributes.values()


@pytest.mark.parametrize(
    ("caller", "tool", "transport", "name", "kind", "operation"),
    [
        ("mcp", "retrieve", "stdio", "tools/call retrieve", "server", "execute_tool"),
        ("cli", "retrieve", None, "retrieval book", "internal", "retrieval"),
        (
            "cli",
            "corpus_status",
            None,
            "execute_tool corpus_status",
            "internal",
            "execute_tool",
        ),
    ],
    ids=["agent", "shell-query", "shell-status"],
)
def test_spans_are_named_by_the_conventions(
    caller: str, tool: str, transport: str | None, name: str, kind: str, operation: str
) -> None:
    """A tool call of an agent is a server span; a shell query is a retrieval."""
    call = make_call(caller=Caller(caller), tool=Tool(tool), transport=transport)

    record = trace_record(call, "book", NOW, content=False)

    attributes: Any = record["attributes"]
    assert (record["name"], record["kind"]) == (name, kind)
    assert attributes["gen_ai.operation.name"] == operation
    assert ("mcp.method.name" in attributes) == (caller == "mcp")
    assert attributes.get("network.transport") == {"stdio": "pipe"}.get(transport or "")


def test_every_name_is_in_the_conventions() -> None:
    """All names but those below ``docs_rag.`` are OpenTelemetry's own."""
    conventions = pytest.importorskip("opentelemetry.semconv")
    known = set()
    for path in Path(conventions.__file__ or "").parent.rglob("*_attributes.py"):
        known |= {
            line.split('"')[1]
            for line in path.read_text(encoding="utf-8").splitlines()
            if ": Final = " in line
        }
    # Younger than the generated package: the conventions' new repository has it.
    known.add("gen_ai.retrieval.top_k")
    record = attributes_of(
        content=True,
        output_tokens=1,
        error_type="QueryError",
        protocol_version="2025-11-25",
    )

    names = {name for name in record if not name.startswith("docs_rag.")}
    assert len(names) == 15
    assert names - known == set()


def test_a_failed_call_names_its_error() -> None:
    """An error is a status and a type, in the convention's words and in ours."""
    call = make_call(error_type="EmbeddingError", match=None, hits=None)
    record = trace_record(call, "book", NOW, content=False)
    by_shell = attributes_of(caller=Caller.CLI, error_type="EmbeddingError")

    attributes: Any = record["attributes"]
    assert record["status"] == "error"
    assert attributes["error.type"] == "tool_error"
    assert attributes["docs_rag.error.type"] == "EmbeddingError"
    assert by_shell["error.type"] == "EmbeddingError"
    assert not {"docs_rag.match", "docs_rag.hits"} & set(attributes)


def test_texts_are_kept_as_digests_only(tmp_path: Path) -> None:
    """By default no text of query, phrasings, answer or error is in any file."""
    secrets = {
        "query": "zinc zeppelin",
        "also": ("amber anvil", "ochre"),
        "answer_text": "cobalt corvette",
        "error_type": "QueryError: magenta mangrove",
        "traceparent": "Bearer crimson-token",
        "facts": {
            "echo": "zinc zeppelin",
            "words": ["ochre", "fine"],
            "note": "indigo iguana speaks",
            "engine": "resident",
        },
    }
    writer = make_writer(tmp_path)
    writer.record(make_call(**secrets))

    written = b"".join(path.read_bytes() for path in tmp_path.iterdir()).decode()
    for text in ("zinc", "amber", "ochre", "cobalt", "magenta", "crimson", "indigo"):
        assert text not in written
    (record,) = read_json_lines(writer.traces_path)
    attributes = record["attributes"]
    digest = hashlib.sha256(b"zinc zeppelin").hexdigest()
    assert attributes["docs_rag.query.sha256"] == digest
    assert attributes["docs_rag.query.chars"] == 13
    assert len(attributes["docs_rag.also.sha256"]) == 2
    assert attributes["docs_rag.answer.chars"] == 15
    assert attributes["docs_rag.engine"] == "resident"
    assert attributes["docs_rag.error.type"] == "_OTHER"


@settings(max_examples=60, deadline=None)
@given(query=st.text(min_size=6, max_size=60), answer=st.text(min_size=6, max_size=60))
def test_no_text_is_left_in_a_default_line(query: str, answer: str) -> None:
    """Whatever the texts are, a line without content is the same but for digests."""
    neutral = make_call(query="q", answer_text="a", also=())
    call = dataclasses.replace(neutral, query=query, answer_text=answer)

    def masked(call: Any) -> str:
        line = json.dumps(trace_record(call, "b", NOW, content=False)["attributes"])
        line += metering_line(call, NOW, content=False)
        for text in (call.query, call.answer_text):
            digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
            line = line.replace(digest, "D").replace(
                f'chars": {len(text)}', 'chars": N'
            )
        return line

    assert masked(call) == masked(neutral)


def test_content_is_kept_where_asked_for() -> None:
    """With content, the texts are in the record under the convention's names."""
    attributes = attributes_of(content=True, query="q1", also=("q2",), answer_text="a")

    assert attributes["gen_ai.retrieval.query.text"] == "q1"
    assert attributes["docs_rag.also.text"] == ["q2"]
    assert attributes["gen_ai.tool.call.result"] == "a"


HOSTILE = '\n\r\t\x00\x0b\x1b\x7f\x85\u2028\u2029\u202e\ud800"\\=§文'


@settings(max_examples=60, deadline=None)
@given(query=st.text(st.sampled_from(HOSTILE + "ab "), max_size=40))
def test_one_call_is_one_line(query: str) -> None:
    """Whatever a query holds, it starts no line and no cell, and JSON keeps it."""
    call = make_call(query=query, also=(query,), answer_text=query)

    line = metering_line(call, NOW, content=True)
    record = json.dumps(trace_record(call, "book", NOW, content=True))

    assert line.endswith("\n") and len(line.splitlines()) == 1
    assert line[:-1].isprintable() or set(line[:-1]) & set("\t")
    assert len(metering_cells(line)) == line.count("\t") + 1 == 10
    assert len(record.splitlines()) == 1 and record.isascii()
    text = json.loads(record)["attributes"].get("gen_ai.retrieval.query.text")
    assert text == query


def test_a_forged_line_stays_inside_its_line(tmp_path: Path) -> None:
    """A query that looks like log lines adds one line to each file, and none of its."""
    forged = 'grog\nretrieve k=99 forged\r\n{"name":"forged"}\u2028x'
    writer = make_writer(tmp_path, content=True)
    writer.record(make_call(query=forged))

    for path in (writer.traces_path, writer.metering_path):
        text = path.read_text(encoding="utf-8")
        assert len(text.splitlines()) == 1
        assert not text.startswith(("retrieve", '{"name"'))
        assert "\n" not in text[:-1]


def test_the_metering_line_is_cells() -> None:
    """A line has time, caller, tool, k, hits, verdict, time taken and a digest."""
    cells = metering_cells(metering_line(make_call(), NOW, content=False))
    failed = make_call(match=None, hits=None, error_type="QueryError", query=None)

    assert cells["ts"] == "2031-05-20T12:00:00.000+00:00"
    assert (cells["caller"], cells["tool"], cells["k"]) == ("mcp", "retrieve", "5")
    assert (cells["hits"], cells["match"], cells["ms"]) == ("3", "strong", "12.5")
    assert len(cells["query_sha256"]) == 64 and "query" not in cells
    line = metering_line(failed, NOW, content=True)
    assert metering_cells(line)["error"] == "QueryError"
    assert metering_cells(line)["query_sha256"] == "-"


@pytest.mark.parametrize(
    ("traceparent", "valid"),
    [
        (TRACEPARENT, True),
        (TRACEPARENT[:-2] + "00", True),
        ("01" + TRACEPARENT[2:] + "-what-the-future-brings", True),
        (TRACEPARENT + "-more", False),
        ("ff" + TRACEPARENT[2:], False),
        (TRACEPARENT.upper(), False),
        (TRACEPARENT.replace("0af7651916cd43dd8448eb211c80319c", "0" * 32), False),
        (TRACEPARENT.replace("b7ad6b7169203331", "0" * 16), False),
        (TRACEPARENT + "\n", False),
        (TRACEPARENT[:-1], False),
        ("", False),
        ("x" * 5000, False),
    ],
    ids=[
        "good",
        "unsampled",
        "later-version",
        "version-00-has-no-more",
        "version-ff",
        "upper-case",
        "zero-trace",
        "zero-span",
        "newline",
        "short",
        "empty",
        "long",
    ],
)
def test_a_valid_traceparent_makes_a_child(traceparent: str, valid: bool) -> None:
    """A caller's trace is joined; a malformed one is ignored and a new one begun."""
    call = make_call(traceparent=traceparent)
    record = trace_record(call, "book", NOW, content=False)

    joined = record["trace_id"] == TRACEPARENT.split("-")[1]
    assert joined == valid == ("parent_span_id" in record)
    assert record["span_id"] != record.get("parent_span_id")
    if valid:
        assert record["trace_flags"] == int(traceparent.split("-")[3], 16)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -3.0, 0.0])
def test_a_clock_gone_wrong_leaves_a_valid_record(value: float) -> None:
    """A latency that is no number or negative is recorded as none."""
    record = trace_record(make_call(latency_ms=value), "book", NOW, content=False)

    assert record["duration_ms"] == 0.0
    json.dumps(record, allow_nan=False)


@pytest.mark.parametrize("corpus", ["", "a/b", "../up", "a\nb", "a\x00b"])
def test_a_corpus_cannot_name_a_file_elsewhere(corpus: str, tmp_path: Path) -> None:
    """A corpus whose name is no file name is refused."""
    with pytest.raises(ConfigError):
        TraceWriter(tmp_path, corpus)


def file_in_the_way(directory: Path) -> None:
    directory.write_text("a file", encoding="utf-8")


def full_device(directory: Path) -> None:
    directory.mkdir()
    for name in ("traces-book.jsonl", "queries-book.log"):
        (directory / name).symlink_to("/dev/full")


def folder_in_the_way(directory: Path) -> None:
    (directory / "traces-book.jsonl").mkdir(parents=True)


@pytest.mark.parametrize(
    "spoil",
    [
        file_in_the_way,
        folder_in_the_way,
        pytest.param(
            full_device,
            marks=pytest.mark.skipif(
                not Path("/dev/full").exists(), reason="no /dev/full"
            ),
        ),
    ],
)
def test_a_failing_write_is_counted_and_warned_of_once(
    spoil: Callable[[Path], None], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Each lost call counts once, one warning is logged, and nothing is raised."""
    directory = tmp_path / "logs"
    spoil(directory)
    writers = [make_writer(directory), make_writer(directory)]

    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            writers[0].record(make_call(query="zinc"))
        writers[1].record(make_call())

    assert [writer.dropped for writer in writers] == [3, 1]
    (message,) = [record.getMessage() for record in caplog.records]
    assert str(directory) in message and "RAG_TRACE_DIR" in message
    assert "zinc" not in message


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting takes root")
def test_a_full_file_system_loses_calls_but_no_line(tmp_path: Path) -> None:
    """On a full disk what is in the file is whole, and what is missing is counted."""
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(tmp_path)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no tmpfs can be mounted here")
    try:
        writer = make_writer(tmp_path)
        for _ in range(200):
            writer.record(make_call())
        traces = len(read_json_lines(writer.traces_path))
        metering = writer.metering_path.read_bytes()
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)

    assert 0 < traces < 200 and metering.endswith(b"\n")
    assert writer.dropped == 200 - min(traces, metering.count(b"\n"))


def test_writing_goes_on_when_the_disk_is_back(tmp_path: Path) -> None:
    """A writer that dropped calls records the next one that can be written."""
    directory = tmp_path / "logs"
    file_in_the_way(directory)
    writer = make_writer(directory)
    writer.record(make_call())
    directory.unlink()

    writer.record(make_call())

    assert writer.dropped == 1
    assert len(read_json_lines(writer.traces_path)) == 1


def test_a_stuck_lock_slows_one_call_at_most(tmp_path: Path) -> None:
    """While someone sits on the lock, calls are dropped and hardly delayed."""
    writer = make_writer(tmp_path)
    writer.record(make_call())
    with writer.traces_path.open("rb") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        writer.record(make_call())
        started = time.monotonic()
        for _ in range(20):
            writer.record(make_call())
        elapsed = time.monotonic() - started

    assert writer.dropped == 21
    assert elapsed < 20 * 0.25


@settings(max_examples=100, deadline=None)
@given(text=st.text(max_size=40))
def test_printable_text_is_printable_and_distinct(text: str) -> None:
    """Escaped text is printable and says exactly what it stood for."""
    shown = printable(text)

    assert shown.isprintable()
    unescaped = shown.replace("\\\\", "\\x5c").encode("ascii", "backslashreplace")
    assert unescaped.decode("unicode_escape") == text
