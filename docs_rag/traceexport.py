"""
Spans on their way out: into a file, or to a collector over HTTP.

A file appears complete or not at all, and never in the place of something that is no
span file. A collector gets batches, is asked again where it says it is busy, and what
it refuses is counted.
"""

import contextlib
import http.client
import json
import time
import urllib.parse
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from docs_rag.errors import ConfigError, DocsRagError, StorageError
from docs_rag.records import Secret
from docs_rag.tracefile import replacing
from docs_rag.tracereader import FileTally, read_records
from docs_rag.tracespans import request, span

BATCH_SPANS = 500
BATCH_BYTES = 2_000_000
_TIMEOUT_SECONDS = 10.0
_ATTEMPTS = 4
_MAX_PAUSE_SECONDS = 30.0
# What the protocol lists as "ask again"; any other refusal is final.
_BUSY = {429, 502, 503, 504}
_MAX_ANSWER_BYTES = 65_536
_SPAN_FILE_START = b'{"resourceSpans"'
_HEAD, _TAIL = (
    json.dumps(request(()), separators=(",", ":")).encode().split(b'"spans":[]')
)


@dataclass(slots=True)
class Exported:
    """What went out; ``undated`` records have no time to place a span at."""

    files: list[FileTally] = field(default_factory=list)
    spans: int = 0
    undated: int = 0
    rejected: int = 0
    reason: str = ""


def export_file(source: Path, target: Path) -> Exported:
    """Write each record of ``source`` as one line of OTLP JSON to ``target``."""
    exported = Exported()
    try:
        _check_target(source, target)
        with replacing(target) as stream:
            for encoded in _encoded_spans([source], exported):
                stream.write(_body([encoded]) + b"\n")
            if exported.files[0].problem and not exported.spans:
                raise StorageError(f"{source}: {exported.files[0].problem}")
    except OSError as error:
        raise StorageError(
            f"cannot write {target} ({error.strerror}): free the disk, or name another"
        ) from error
    return exported


def export_http(
    url: str,
    sources: Iterable[Path],
    headers: Mapping[str, Secret],
    sleep: Callable[[float], None] = time.sleep,
) -> Exported:
    """Post the records to an OTLP collector, in batches."""
    exported = Exported()
    with contextlib.closing(Collector(url, headers, sleep)) as collector:
        for batch in _batches(_encoded_spans(sources, exported)):
            rejected, reason = collector.post(_body(batch))
            exported.rejected += rejected
            exported.reason = reason or exported.reason
    return exported


class Collector:
    """
    The receiving end of OTLP over HTTP.

    Redirects are not followed and proxies not used: the spans go where the URL says.
    """

    def __init__(
        self, url: str, headers: Mapping[str, Secret], sleep: Callable[[float], None]
    ) -> None:
        kind, host, port, path, query = _endpoint(url)
        self._connection = kind(host, port, timeout=_TIMEOUT_SECONDS)
        self._target = path + (f"?{query}" if query else "")
        self._headers = headers
        self._sleep = sleep
        self.name = f"{host}:{self._connection.port}{path}"

    def post(self, body: bytes) -> tuple[int, str]:
        """Send one request; return how many spans were refused, and why."""
        for attempt in range(1, _ATTEMPTS + 1):
            pause = min(0.5 * 2**attempt, _MAX_PAUSE_SECONDS)
            try:
                status, retry_after, answer = self._send(body)
            except (OSError, http.client.HTTPException) as error:
                self._connection.close()
                trouble = str(error) or type(error).__name__
            else:
                if 200 <= status < 300:
                    return _partial_success(answer)
                trouble = f"HTTP status {status}"
                if status not in _BUSY:
                    break
                pause = _pause_asked_for(retry_after, pause)
            if attempt < _ATTEMPTS:
                self._sleep(pause)
        raise DocsRagError(
            f"the collector at {self.name} did not take the spans ({trouble}): "
            "check that it runs and receives OTLP over HTTP there"
        )

    def close(self) -> None:
        """Hang up."""
        self._connection.close()

    def _send(self, body: bytes) -> tuple[int, str | None, bytes]:
        headers = {name: value.reveal() for name, value in self._headers.items()}
        headers["Content-Type"] = "application/json"
        self._connection.request("POST", self._target, body, headers)
        response = self._connection.getresponse()
        answer = response.read(_MAX_ANSWER_BYTES)
        if response.read(1):
            self._connection.close()
        return response.status, response.getheader("Retry-After"), answer


def _endpoint(
    url: str,
) -> tuple[type[http.client.HTTPConnection], str, int | None, str, str]:
    """Take a URL apart; without a path of its own it gets the protocol's."""
    kinds = {
        "http": http.client.HTTPConnection,
        "https": http.client.HTTPSConnection,
    }
    try:
        parts = urllib.parse.urlsplit(url)
        kind, port = kinds[parts.scheme], parts.port
        usable = bool(parts.hostname) and "@" not in parts.netloc
    except (KeyError, ValueError):
        usable = False
    if not usable or not url.isascii() or not url.isprintable() or " " in url:
        raise ConfigError(
            "the collector's URL is not usable: write http(s)://host:port[/path], "
            "and give credentials in OTEL_EXPORTER_OTLP_HEADERS"
        )
    path = parts.path if parts.path.strip("/") else "/v1/traces"
    return kind, parts.hostname or "", port, path, parts.query


def parse_headers(text: str) -> dict[str, Secret]:
    """Read ``name=value,name=value`` with percent-escapes, as OpenTelemetry has it."""
    headers = {}
    for pair in filter(None, map(str.strip, text.split(","))):
        name, _, value = pair.partition("=")
        decoded = urllib.parse.unquote(value.strip())
        name = name.strip()
        if not (name.replace("-", "").isalnum() and name.isascii()) or not (
            decoded.isascii() and decoded.isprintable()
        ):
            raise ConfigError(
                "OTEL_EXPORTER_OTLP_HEADERS is not usable: write name=value pairs "
                "with commas between them"
            )
        headers[name] = Secret(decoded)
    return headers


def _encoded_spans(sources: Iterable[Path], exported: Exported) -> Iterator[bytes]:
    for source in sources:
        tally = FileTally(str(source))
        exported.files.append(tally)
        for record in read_records(source, tally):
            one = span(record)
            if one is None:
                exported.undated += 1
                continue
            exported.spans += 1
            yield json.dumps(one, separators=(",", ":")).encode()


def _batches(encoded: Iterable[bytes]) -> Iterator[list[bytes]]:
    batch: list[bytes] = []
    size = 0
    for one in encoded:
        if batch and (len(batch) == BATCH_SPANS or size + len(one) > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(one)
        size += len(one)
    if batch:
        yield batch


def _body(encoded: Iterable[bytes]) -> bytes:
    return b'%b"spans":[%b]%b' % (_HEAD, b",".join(encoded), _TAIL)


def _partial_success(answer: bytes) -> tuple[int, str]:
    """Return how many spans an accepted request lost all the same, and why."""
    try:
        partial = json.loads(answer)["partialSuccess"]
        return int(partial.get("rejectedSpans", 0)), str(
            partial.get("errorMessage", "")
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return 0, ""


def _pause_asked_for(retry_after: str | None, pause: float) -> float:
    asked = retry_after or ""
    return min(float(asked), _MAX_PAUSE_SECONDS) if asked.isdecimal() else pause


def _check_target(source: Path, target: Path) -> None:
    """Refuse to write over anything that this export did not write."""
    if not target.is_file():
        return
    with target.open("rb") as stream:
        start = stream.read(len(_SPAN_FILE_START))
    if start not in (b"", _SPAN_FILE_START) or target.samefile(source):
        raise StorageError(
            f"{target} exists and is no span file: name another file to write to"
        )
