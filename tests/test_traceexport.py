"""Rules of the export: spans that OpenTelemetry's own parser takes, each once."""

import base64
import json
import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trace_samples import (
    NOW,
    make_call,
    make_line,
    read_json_lines,
    receiver,
    write_lines,
)

from docs_rag.errors import ConfigError, DocsRagError, StorageError
from docs_rag.records import Secret
from docs_rag.traceexport import (
    BATCH_BYTES,
    BATCH_SPANS,
    export_file,
    export_http,
    parse_headers,
)
from docs_rag.tracereader import parse_record
from docs_rag.tracespans import attributes, request, span
from docs_rag.tracing import Caller, TraceWriter

TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse_official(message: dict[str, Any]) -> Any:
    """Parse a request with OpenTelemetry's protobuf classes; unknown names fail."""
    trace_service = pytest.importorskip(
        "opentelemetry.proto.collector.trace.v1.trace_service_pb2"
    )
    json_format = pytest.importorskip("google.protobuf.json_format")
    message = json.loads(json.dumps(message))
    for resource in message["resourceSpans"]:
        for scope in resource["scopeSpans"]:
            for one in scope["spans"]:
                # OTLP writes ids in hex where protobuf's own mapping has base64.
                for key in {"traceId", "spanId", "parentSpanId"} & set(one):
                    raw = bytes.fromhex(one[key])
                    one[key] = base64.b64encode(raw).decode()
    empty = trace_service.ExportTraceServiceRequest()
    return json_format.ParseDict(message, empty)


def the_span(line: str) -> dict[str, Any]:
    record = parse_record(line.encode())
    assert record is not None
    made = span(record)
    assert made is not None
    return made


def spans_in(path: Path) -> list[dict[str, Any]]:
    return [
        one
        for line in read_json_lines(path)
        for one in line["resourceSpans"][0]["scopeSpans"][0]["spans"]
    ]


def test_the_official_parser_takes_what_the_writer_wrote(tmp_path: Path) -> None:
    """From a call to OpenTelemetry's own classes nothing is lost or renamed."""
    writer = TraceWriter(tmp_path, "book", content=True, clock=lambda: NOW)
    writer.record(make_call(traceparent=TRACEPARENT, facts={"a_ms": 1.5, "on": True}))
    writer.record(make_call(error_type="QueryError", match=None))
    writer.record(make_call(caller=Caller.CLI, query="\ud800 x", also=("y", "z")))
    target = tmp_path / "spans.jsonl"

    exported = export_file(writer.traces_path, target)

    requests = [parse_official(line) for line in read_json_lines(target)]
    assert exported.spans == len(requests) == 3
    (resource,) = requests[0].resource_spans
    names = {a.key: a.value.string_value for a in resource.resource.attributes}
    assert names["service.name"] == "docs-rag" and names["service.version"]
    (scope,) = resource.scope_spans
    assert scope.schema_url.startswith("https://opentelemetry.io/schemas/")
    (first,) = scope.spans
    assert first.trace_id.hex() == TRACEPARENT.split("-")[1]
    assert first.parent_span_id.hex() == TRACEPARENT.split("-")[2]
    assert first.flags == 0x301
    assert (first.name, first.kind) == ("tools/call retrieve", 2)
    assert first.end_time_unix_nano - first.start_time_unix_nano == 12_500_000
    assert first.end_time_unix_nano == int((NOW - EPOCH).total_seconds()) * 10**9
    values = {a.key: a.value for a in first.attributes}
    assert values["docs_rag.k"].int_value == 5
    assert values["docs_rag.a_ms"].double_value == 1.5
    assert values["docs_rag.on"].bool_value is True
    paths = values["docs_rag.paths"].array_value.values
    assert [path.string_value for path in paths] == ["docs/lock.md", "docs/weir.md"]
    second = requests[1].resource_spans[0].scope_spans[0].spans[0]
    assert (second.status.code, first.status.code) == (2, 0)


@pytest.mark.parametrize(
    ("duration_ms", "width_ns"),
    [(600_000, 600_000_000_000), (0, 0), (-5, 0), (0.001, 1_000), (12.345, 12_345_000)],
)
def test_a_span_is_as_wide_as_its_call(duration_ms: float, width_ns: int) -> None:
    """End minus start is the duration; a clock set back makes it zero, not less."""
    made = the_span(make_line(duration_ms=duration_ms))

    start, end = int(made["startTimeUnixNano"]), int(made["endTimeUnixNano"])
    assert end - start == width_ns
    assert start == int((NOW - EPOCH).total_seconds()) * 10**9


@pytest.mark.parametrize(
    "ids",
    [
        {},
        {"trace_id": "0" * 32, "span_id": "b7ad6b7169203331"},
        {"trace_id": "0af7651916cd43dd8448eb211c80319c", "span_id": "0" * 16},
        {"trace_id": "0af7651916cd43dd", "span_id": "b7ad6b7169203331"},
        {"trace_id": "0AF7651916CD43DD8448EB211C80319C", "span_id": "b" * 16},
        {"trace_id": 5, "span_id": None},
    ],
    ids=["none", "zero-trace", "zero-span", "short", "upper-case", "no-text"],
)
def test_a_record_without_good_ids_gets_some(ids: dict[str, Any]) -> None:
    """Ids have 32 and 16 hex digits, are not zero, and are the same each time."""
    first, second = (json.loads(make_line(k=k)) | ids for k in (1, 2))

    made = [the_span(json.dumps(record)) for record in (first, first, second)]

    for one in made:
        assert int(one["traceId"], 16) and len(bytes.fromhex(one["traceId"])) == 16
        assert int(one["spanId"], 16) and len(bytes.fromhex(one["spanId"])) == 8
        assert one["traceId"] == one["traceId"].lower()
    assert made[0] == made[1]
    assert made[0]["spanId"] != made[2]["spanId"]


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(codec=None), max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=120, deadline=None)
@given(st.dictionaries(st.text(st.characters(codec=None), max_size=6), JSON_VALUES))
def test_any_attributes_become_valid_otlp(values: dict[str, Any]) -> None:
    """Whatever a record holds, the official parser takes the span made of it."""
    record = json.loads(make_line())
    line = json.dumps(record | {"attributes": values})

    parsed = parse_official(request([the_span(line)]))

    assert len(parsed.resource_spans[0].scope_spans[0].spans) == 1


def test_values_without_a_type_in_otlp_are_left_out() -> None:
    """Infinities, huge integers and endless nesting do not spoil a span."""
    deep: Any = "bottom"
    for _ in range(500):
        deep = [deep]

    kept = attributes({"a": math.inf, "b": 2**70, "c": None, "d": deep, "e": 1})

    assert [pair["key"] for pair in kept] == ["d", "e"]


def test_records_without_a_time_are_counted(tmp_path: Path) -> None:
    """A span needs a time; records without one are left out and counted."""
    lines = [make_line(), make_line().replace("2031", "soon"), make_line()]
    source = write_lines(tmp_path / "traces-a.jsonl", [*lines, "half"])

    exported = export_file(source, tmp_path / "out.jsonl")

    assert (exported.spans, exported.undated) == (2, 1)
    assert exported.files[0].partial == 1
    assert len(spans_in(tmp_path / "out.jsonl")) == 2


@pytest.mark.parametrize("content", ["not spans\n", make_line()])
def test_an_export_overwrites_only_spans(content: str, tmp_path: Path) -> None:
    """A file that is no span file is refused as a target and left alone."""
    source = write_lines(tmp_path / "traces-a.jsonl", [make_line()])
    other = write_lines(tmp_path / "traces-b.jsonl", [content])
    target = tmp_path / "spans.jsonl"

    with pytest.raises(StorageError, match="no span file"):
        export_file(source, other)
    export_file(source, target)
    export_file(source, target)

    assert other.read_text(encoding="utf-8") == content
    assert len(spans_in(target)) == 1
    assert target.stat().st_mode & 0o777 == 0o600
    with pytest.raises(StorageError):
        export_file(source, source)


def test_a_missing_source_leaves_no_target(tmp_path: Path) -> None:
    """Where nothing can be read nothing is written, and the source is named."""
    with pytest.raises(StorageError, match="nowhere"):
        export_file(tmp_path / "nowhere.jsonl", tmp_path / "spans.jsonl")

    assert list(tmp_path.iterdir()) == []


def test_a_target_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    """A missing folder is one line that names the target."""
    source = write_lines(tmp_path / "traces-a.jsonl", [make_line()])

    with pytest.raises(StorageError, match="nowhere"):
        export_file(source, tmp_path / "nowhere" / "spans.jsonl")


def test_a_collector_gets_every_span_once(tmp_path: Path) -> None:
    """Spans arrive in bounded batches, as JSON that the official parser takes."""
    count = BATCH_SPANS * 2 + 3
    source = write_lines(
        tmp_path / "traces-a.jsonl", (make_line(k=n) for n in range(count))
    )

    with receiver() as server:
        exported = export_http(server.url, [source], {"X-Key": Secret("k1")})

    sizes = []
    for path, headers, body in server.requests:
        assert path == "/v1/traces"
        assert headers["content-type"] == "application/json"
        assert headers["x-key"] == "k1"
        parsed = parse_official(body)
        sizes.append(len(parsed.resource_spans[0].scope_spans[0].spans))
    assert sizes == [BATCH_SPANS, BATCH_SPANS, 3]
    assert (exported.spans, exported.rejected) == (count, 0)


def test_batches_are_bounded_in_bytes(tmp_path: Path) -> None:
    """Large spans make small batches."""
    text = "x" * (BATCH_BYTES // 3)
    source = write_lines(
        tmp_path / "traces-a.jsonl", [make_line(text=text) for _ in range(5)]
    )

    with receiver() as server:
        export_http(server.url, [source], {})

    assert len(server.requests) == 3


def test_a_path_in_the_url_is_kept(tmp_path: Path) -> None:
    """A URL with a path is used as it is, query included."""
    source = write_lines(tmp_path / "traces-a.jsonl", [make_line()])

    with receiver() as server:
        export_http(f"{server.url}/otlp/in?tenant=1", [source], {})

    assert [path for path, _, _ in server.requests] == ["/otlp/in?tenant=1"]


def test_a_busy_collector_is_asked_again(tmp_path: Path) -> None:
    """503 and 429 are retried, after the time asked for where there is one."""
    source = write_lines(tmp_path / "traces-a.jsonl", [make_line()])
    pauses: list[float] = []

    with receiver((503, {"Retry-After": "7"}, b""), (429, {}, b"")) as server:
        exported = export_http(server.url, [source], {}, sleep=pauses.append)

    assert (exported.spans, len(server.requests)) == (1, 3)
    assert pauses == [7.0, 2.0]


@pytest.mark.parametrize(
    ("status", "headers", "attempts"),
    [
        (400, {}, 1),
        (401, {}, 1),
        (307, {"Location": "http://127.0.0.1:9/steal"}, 1),
        (502, {}, 4),
    ],
)
def test_a_refusal_is_an_error(
    status: int, headers: dict[str, str], attempts: int, tmp_path: Path
) -> None:
    """A final refusal is not repeated, a redirect not followed, and both are said."""
    source = write_lines(tmp_path / "traces-a.jsonl", [make_line()])
    answers = [(status, headers, b"")] * attempts

    with (
        receiver(*answers) as server,
        pytest.raises(DocsRagError, match=f"HTTP status {status}") as caught,
    ):
        export_http(server.url, [source], {"X": Secret("k1")}, sleep=lambda _: None)

    assert len(server.requests) == attempts
    assert "k1" not in str(caught.value)


def test_nobody_listening_is_an_error(tmp_path: Path) -> None:
    """A collector that is not there is named, after a few tries."""
    source = write_lines(tmp_path / "traces-a.jsonl", [make_line()])
    with receiver() as server:
        url = server.url
    pauses: list[float] = []

    with pytest.raises(DocsRagError, match="did not take the spans"):
        export_http(url, [source], {}, sleep=pauses.append)

    assert len(pauses) == 3


@pytest.mark.parametrize(
    ("answer", "rejected", "reason"),
    [
        (b'{"partialSuccess":{"rejectedSpans":"1","errorMessage":"old"}}', 1, "old"),
        (b'{"partialSuccess":{}}', 0, ""),
        (b"{}", 0, ""),
        (b"", 0, ""),
        (b"<html>", 0, ""),
    ],
    ids=["rejected", "empty", "none", "nothing", "no-json"],
)
def test_what_a_collector_drops_is_counted(
    answer: bytes, rejected: int, reason: str, tmp_path: Path
) -> None:
    """An accepted request may lose spans all the same; they are counted."""
    source = write_lines(tmp_path / "traces-a.jsonl", [make_line()])

    with receiver((200, {}, answer)) as server:
        exported = export_http(server.url, [source], {})

    assert (exported.rejected, exported.reason) == (rejected, reason)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://127.0.0.1/x",
        "127.0.0.1:4318",
        "http://",
        "http://user:hush@127.0.0.1",
        "http://127.0.0.1:port",
        "http://[::1",
        "http://127.0.0.1/a b",
        "",
    ],
)
def test_a_bad_url_is_refused(url: str, tmp_path: Path) -> None:
    """Only http and https URLs without credentials will do; none are shown."""
    with pytest.raises(ConfigError) as caught:
        export_http(url, [tmp_path / "none"], {})

    assert "hush" not in str(caught.value)


def test_headers_are_read_as_opentelemetry_has_them() -> None:
    """Pairs are split at commas and percent-decoded, and never shown."""
    headers = parse_headers("Authorization=Bearer%20t0ps3cret, x-tenant = a,")

    revealed = {name: value.reveal() for name, value in headers.items()}
    assert revealed == {"Authorization": "Bearer t0ps3cret", "x-tenant": "a"}
    assert "t0ps3cret" not in repr(headers)
    for bad in ("no value\nx", "a b=c", "x=line%0Abreak", "x=%FF"):
        with pytest.raises(ConfigError) as caught:
            parse_headers(bad)
        assert "break" not in str(caught.value)
