"""
One call becomes one trace record and one metering line.

Best effort is not silence: a write that fails is warned of once, counted, and leaves
the retrieval alone. Without leave to keep content, no text of a query or an answer
enters either file, only digests.
"""

import enum
import hashlib
import json
import logging
import math
import numbers
import re
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from docs_rag.errors import ConfigError
from docs_rag.tracefile import append_line

# A healthy writer holds the lock for some ten microseconds. The long wait outlives a
# holder that lost its turn on a busy machine; once it was in vain, only the short one
# is paid, so that a stuck holder cannot slow every call.
LOCK_WAIT_SECONDS = 0.25
LOCK_RETRY_SECONDS = 0.002

_TRACEPARENT = re.compile(
    r"(?!ff)(?P<version>[0-9a-f]{2})-(?P<trace>(?!0{32})[0-9a-f]{32})"
    r"-(?P<span>(?!0{16})[0-9a-f]{16})-(?P<flags>[0-9a-f]{2})(?P<more>-.*)?"
)
_TYPE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,79}")
_WORD = re.compile(r"[A-Za-z0-9_.:/@+-]{1,64}")
_NETWORK_TRANSPORTS = {"stdio": "pipe", "streamable-http": "tcp", "sse": "tcp"}

_logger = logging.getLogger(__name__)
_warned: set[Path] = set()
_drop_lock = threading.Lock()


class Tool(enum.StrEnum):
    """What was called."""

    RETRIEVE = "retrieve"
    CORPUS_STATUS = "corpus_status"


class Caller(enum.StrEnum):
    """By which door the call came in."""

    MCP = "mcp"
    CLI = "cli"
    EVAL = "eval"


@dataclass(frozen=True, slots=True)
class CallRecord:
    """
    What is known of one finished call.

    ``match`` is None where no verdict was given (an error, a status call); ``facts``
    are timings and counts; ``error_type`` names the exception's class, never its
    message.
    """

    tool: Tool
    caller: Caller
    latency_ms: float
    transport: str | None = None
    query: str | None = None
    also: tuple[str, ...] = ()
    k: int | None = None
    hits: int | None = None
    match: str | None = None
    generation: int | None = None
    model: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    error_type: str | None = None
    paths: tuple[str, ...] = ()
    answer_text: str | None = None
    facts: Mapping[str, object] = field(default_factory=dict)
    traceparent: str | None = None
    client_name: str | None = None
    client_version: str | None = None
    protocol_version: str | None = None


class TraceWriter:
    """
    Appends each call to the two files of one corpus in ``directory``.

    Nothing is created before the first write. ``dropped`` counts the calls of this
    process of which a line could not be written.
    """

    def __init__(
        self,
        directory: Path,
        corpus: str,
        *,
        content: bool = False,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        if not corpus or "/" in corpus or not corpus.isprintable():
            raise ConfigError(
                f"corpus '{printable(corpus)}' cannot name a trace file: "
                "choose a name without slashes and control characters"
            )
        self.traces_path = directory / f"traces-{corpus}.jsonl"
        self.metering_path = directory / f"queries-{corpus}.log"
        self.dropped = 0
        self._directory = directory
        self._corpus = corpus
        self._content = content
        self._clock = clock
        self._stuck: set[Path] = set()

    def record(self, call: CallRecord) -> None:
        """Append the call to both files; never raises for what the disk does."""
        ended = self._clock().astimezone(UTC)
        record = trace_record(call, self._corpus, ended, content=self._content)
        trace = json.dumps(record, separators=(",", ":"), allow_nan=False) + "\n"
        metering = metering_line(call, ended, content=self._content)
        trace_error = self._try_append(self.traces_path, trace)
        error = self._try_append(self.metering_path, metering) or trace_error
        if error is not None:
            self._drop(error)

    def _try_append(self, path: Path, line: str) -> OSError | None:
        wait = LOCK_RETRY_SECONDS if path in self._stuck else LOCK_WAIT_SECONDS
        try:
            try:
                append_line(path, line.encode(), wait_seconds=wait)
            except FileNotFoundError:
                self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
                append_line(path, line.encode(), wait_seconds=wait)
        except BlockingIOError as error:
            self._stuck.add(path)
            return error
        except OSError as error:
            return error
        self._stuck.discard(path)
        return None

    def _drop(self, error: OSError) -> None:
        with _drop_lock:
            self.dropped += 1
            if self._directory in _warned:
                return
            _warned.add(self._directory)
        _logger.warning(
            "cannot write traces to %s (%s): calls go on without them and drops are "
            "counted; free the disk, or point RAG_TRACE_DIR at a writable folder",
            self._directory,
            error.strerror or type(error).__name__,
        )


def trace_record(
    call: CallRecord, corpus: str, ended: datetime, *, content: bool
) -> dict[str, object]:
    """Return the record of a call: a span, keyed as OpenTelemetry names things."""
    latency_ms = call.latency_ms if math.isfinite(call.latency_ms) else 0.0
    duration_ms = round(max(latency_ms, 0.0), 3)
    over_mcp = call.caller == Caller.MCP
    operation = _operation(call)
    target = corpus if operation == "retrieval" else call.tool
    attributes = {
        **_conventional(call, corpus),
        **_service(call, corpus),
        **(_texts(call) if content else {}),
    }
    present = {key: value for key, value in attributes.items() if value is not None}
    for key, value in _flatten("docs_rag", call.facts):
        if content or _reveals_nothing(value, call):
            present.setdefault(key, value)
    return {
        "timestamp": (ended - timedelta(milliseconds=duration_ms)).isoformat(
            timespec="microseconds"
        ),
        "name": f"{'tools/call' if over_mcp else operation} {target}",
        "kind": "server" if over_mcp else "internal",
        **_span_ids(call.traceparent),
        "duration_ms": duration_ms,
        "status": "error" if call.error_type else "ok",
        "attributes": present,
    }


def metering_line(call: CallRecord, ended: datetime, *, content: bool) -> str:
    """Return one tab-separated line; no cell can start another line or cell."""
    cells = {
        "ts": ended.isoformat(timespec="milliseconds"),
        "caller": call.caller,
        "tool": call.tool,
        "k": call.k,
        "hits": call.hits,
        "match": call.match,
        "ms": round(call.latency_ms, 1),
        "error": _type_name(call.error_type),
        "query_sha256": _digest(call.query),
    }
    shown = [f"{key}={'-' if cell is None else cell}" for key, cell in cells.items()]
    if content and call.query is not None:
        quoted = printable(call.query).replace('"', '\\"')
        shown.append(f'query="{quoted}"')
    return "\t".join(shown) + "\n"


def printable(text: str) -> str:
    """Escape all that a terminal or a line reader would act upon."""
    if text.isprintable() and "\\" not in text:
        return text
    return "".join(
        "\\\\" if c == "\\" else c if c.isprintable() else ascii(c)[1:-1] for c in text
    )


def _conventional(call: CallRecord, corpus: str) -> dict[str, object]:
    """Return what the OpenTelemetry conventions for GenAI and MCP have a name for."""
    over_mcp = call.caller == Caller.MCP
    failure = "tool_error" if over_mcp else _type_name(call.error_type)
    network = _NETWORK_TRANSPORTS.get(call.transport or "") if over_mcp else None
    return {
        "gen_ai.operation.name": _operation(call),
        "gen_ai.tool.name": call.tool,
        "gen_ai.tool.type": "datastore",
        "gen_ai.data_source.id": corpus,
        "gen_ai.request.model": call.model,
        "gen_ai.retrieval.top_k": call.k,
        "gen_ai.usage.input_tokens": call.input_tokens,
        "gen_ai.usage.output_tokens": call.output_tokens,
        "mcp.method.name": "tools/call" if over_mcp else None,
        "mcp.protocol.version": _word(call.protocol_version) if over_mcp else None,
        "network.transport": network,
        "network.protocol.name": "http" if network == "tcp" else None,
        "error.type": failure if call.error_type else None,
    }


def _operation(call: CallRecord) -> str:
    """A tool is executed for an agent; a shell query is a bare retrieval."""
    bare = call.caller != Caller.MCP and call.tool == Tool.RETRIEVE
    return "retrieval" if bare else "execute_tool"


def _service(call: CallRecord, corpus: str) -> dict[str, object]:
    """Return what only this service knows, under ``docs_rag.``."""
    return {
        "docs_rag.corpus": corpus,
        "docs_rag.generation": call.generation,
        "docs_rag.caller": call.caller,
        "docs_rag.transport": call.transport,
        "docs_rag.client.name": _word(call.client_name),
        "docs_rag.client.version": _word(call.client_version),
        "docs_rag.k": call.k,
        "docs_rag.hits": call.hits,
        "docs_rag.match": call.match,
        "docs_rag.error.type": _type_name(call.error_type),
        "docs_rag.paths": list(call.paths) or None,
        "docs_rag.query.sha256": _digest(call.query),
        "docs_rag.query.chars": _length(call.query),
        "docs_rag.also.sha256": [_digest(text) for text in call.also] or None,
        "docs_rag.answer.sha256": _digest(call.answer_text),
        "docs_rag.answer.chars": _length(call.answer_text),
    }


def _texts(call: CallRecord) -> dict[str, object]:
    """Return what is kept only where the operator asked for content."""
    return {
        "gen_ai.retrieval.query.text": call.query,
        "docs_rag.also.text": list(call.also) or None,
        "gen_ai.tool.call.result": call.answer_text,
    }


def _flatten(prefix: str, facts: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """Yield the facts as attributes; what JSON and OTLP cannot hold is left out."""
    for name, value in facts.items():
        key = f"{prefix}.{name}"
        if isinstance(value, Mapping):
            yield from _flatten(key, value)
        elif isinstance(value, list | tuple):
            scalars = [_scalar(item) for item in value]
            yield key, [item for item in scalars if item is not None]
        elif (scalar := _scalar(value)) is not None:
            yield key, scalar


def _scalar(value: object) -> str | bool | int | float | None:
    if isinstance(value, bool | str):
        return value
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real) and math.isfinite(value):
        return round(float(value), 6)
    return None


def _reveals_nothing(value: object, call: CallRecord) -> bool:
    """Whether a fact is numbers and names only, and none of the texts of the call."""
    values = value if isinstance(value, list) else [value]
    texts = [text for text in values if isinstance(text, str)]
    private = {call.query, call.answer_text, *call.also}
    return all(_WORD.fullmatch(text) and text not in private for text in texts)


def _type_name(name: str | None) -> str | None:
    """Return the name of an exception class; a message in its place is not kept."""
    if not name:
        return None
    return name if _TYPE_NAME.fullmatch(name) else "_OTHER"


def _word(text: str | None) -> str | None:
    """Return what a client says of itself, as one short word."""
    return re.sub(r"[^A-Za-z0-9_.:/@+-]+", "_", text)[:64] if text else None


def _length(text: str | None) -> int | None:
    return None if text is None else len(text)


def _digest(text: str | None) -> str | None:
    if text is None:
        return None
    # Lone surrogates have no UTF-8, yet a query may hold them.
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _span_ids(traceparent: str | None) -> dict[str, object]:
    """A valid W3C ``traceparent`` makes the call its child; any other is ignored."""
    found = _TRACEPARENT.fullmatch(traceparent) if traceparent else None
    if found is None or (found["version"] == "00" and found["more"]):
        return {"trace_id": _new_id(16), "span_id": _new_id(8)}
    return {
        "trace_id": found["trace"],
        "span_id": _new_id(8),
        "parent_span_id": found["span"],
        "trace_flags": int(found["flags"], 16),
    }


def _new_id(size_bytes: int) -> str:
    """Return a random id; one that is all zero would mean that there is none."""
    while not any(value := secrets.token_bytes(size_bytes)):
        pass
    return value.hex()
