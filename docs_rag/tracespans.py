"""
A trace record as an OpenTelemetry span, in OTLP's JSON encoding.

Ids are hex, nanoseconds and integers are strings. Pure: the same record always
becomes the same span, so that exporting it twice does not make two of it.
"""

import hashlib
import math
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta

from docs_rag import __version__
from docs_rag.tracereader import Record, parse_moment

# The last core release that defines the GenAI and MCP names; they have moved to a
# repository of their own since, which publishes no schema yet.
SCHEMA_URL = "https://opentelemetry.io/schemas/1.41.1"
_KINDS = {"internal": 1, "server": 2, "client": 3}
_STATUS_ERROR = 2
_FLAG_REMOTE_KNOWN = 0x100
_FLAG_REMOTE = 0x200
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_MAX_INT64 = 2**63 - 1
_MAX_DEPTH = 8
_TRACE_ID = re.compile(r"(?!0{32})[0-9a-f]{32}")
_SPAN_ID = re.compile(r"(?!0{16})[0-9a-f]{16}")


def span(record: Record) -> dict[str, object] | None:
    """Return the span of a record; None where the record has no usable time."""
    started = parse_moment(record.timestamp)
    if started is None or started < _EPOCH:
        return None
    start_ns = (started - _EPOCH) // _MICROSECOND * 1000
    # A clock set back may have left a negative duration.
    width_ns = round(max(record.duration_ms, 0.0) * 1_000_000)
    fields = record.fields
    return {
        **_ids(record),
        "name": record.name,
        "kind": _KINDS.get(str(fields.get("kind")), _KINDS["internal"]),
        "startTimeUnixNano": str(start_ns),
        "endTimeUnixNano": str(start_ns + width_ns),
        "attributes": attributes(record.attributes),
        "status": {"code": _STATUS_ERROR} if record.failed else {},
    }


def request(spans: Iterable[Mapping[str, object]]) -> dict[str, object]:
    """Return spans as one OTLP export request."""
    resource = {"service.name": "docs-rag", "service.version": __version__}
    scope = {
        "scope": {"name": "docs_rag", "version": __version__},
        "spans": list(spans),
        "schemaUrl": SCHEMA_URL,
    }
    return {
        "resourceSpans": [
            {"resource": {"attributes": attributes(resource)}, "scopeSpans": [scope]}
        ]
    }


def attributes(
    values: Mapping[str, object], depth: int = _MAX_DEPTH
) -> list[dict[str, object]]:
    """Return key-value pairs; what OTLP has no type for is left out."""
    return [
        {"key": _encodable(key), "value": converted}
        for key, value in values.items()
        if (converted := _any_value(value, depth)) is not None
    ]


def _any_value(value: object, depth: int) -> dict[str, object] | None:
    match value:
        case bool():
            return {"boolValue": value}
        case str():
            return {"stringValue": _encodable(value)}
        case int() if abs(value) <= _MAX_INT64:
            return {"intValue": str(value)}
        case float() if math.isfinite(value):
            return {"doubleValue": value}
        case list() if depth:
            items = [_any_value(item, depth - 1) for item in value]
            return {"arrayValue": {"values": [item for item in items if item]}}
        case dict() if depth:
            return {"kvlistValue": {"values": attributes(value, depth - 1)}}
    return None


def _encodable(text: str) -> str:
    """Replace lone surrogates, which protobuf strings cannot hold."""
    return text.encode("utf-8", "replace").decode()


def _ids(record: Record) -> dict[str, object]:
    """Return the ids of a record, made from its content where it has none."""
    fields = record.fields
    trace_id, span_id = str(fields.get("trace_id")), str(fields.get("span_id"))
    if not (_TRACE_ID.fullmatch(trace_id) and _SPAN_ID.fullmatch(span_id)):
        content = (record.timestamp, record.duration_ms, attributes(record.attributes))
        made = hashlib.sha256(repr(content).encode("utf-8", "replace")).hexdigest()
        return {"traceId": made[:32], "spanId": made[32:48]}
    ids: dict[str, object] = {"traceId": trace_id, "spanId": span_id}
    parent = str(fields.get("parent_span_id"))
    if _SPAN_ID.fullmatch(parent):
        ids["parentSpanId"] = parent
        flags = fields.get("trace_flags")
        sampled = flags & 0xFF if isinstance(flags, int) else 0
        ids["flags"] = sampled | _FLAG_REMOTE_KNOWN | _FLAG_REMOTE
    return ids
