"""
A running server, checked as an agent would use it: handshake, tools, a question.

Speaks through the official client over HTTP, with the token if one is set.
"""

import datetime
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import anyio
import httpx2
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult

from docs_rag.errors import ConfigError, ProbeError
from docs_rag.records import Secret
from docs_rag.tools import CORPUS_STATUS, RETRIEVE, TOOLS

_STATUS_HINTS = {
    401: "the server wants a token: set RAG_AUTH_TOKEN to the one it was started with",
    403: "the server refuses this Origin",
    404: "there is no MCP endpoint at this path: the URL ends in /mcp",
    405: "this is no streamable HTTP endpoint: the URL ends in /mcp",
    421: "the server does not answer to this host name: list it in RAG_ALLOWED_HOSTS",
    503: "the server is busy or still loading: try again",
}

_REQUIRED = {
    tool.name: frozenset((tool.output_schema or {}).get("required", ()))
    for tool in TOOLS
}


@dataclass(slots=True)
class ProbeReport:
    """What the server answered, step by step, and how long each took."""

    url: str
    server: str = ""
    version: str = ""
    protocol: str = ""
    tools: tuple[str, ...] = ()
    status: dict[str, Any] = field(default_factory=dict)
    answer: dict[str, Any] = field(default_factory=dict)
    text: str = ""
    milliseconds: dict[str, float] = field(default_factory=dict)


def probe(
    url: str, query: str | None, k: int, token: Secret | None, timeout_seconds: float
) -> ProbeReport:
    """
    Check the server at ``url``: handshake, tools, status, one question.

    Without a ``query`` it asks for the title of a document that the server has.

    Raises ``ProbeError`` naming what failed and what to look at, ``ConfigError``
    where the arguments make no sense.
    """
    if not url.startswith(("http://", "https://")):
        raise ConfigError(
            f"{url}: is no http or https URL: give one such as "
            "http://127.0.0.1:8765/mcp"
        )
    if not 0 < timeout_seconds < math.inf:
        raise ConfigError(
            f"--timeout-seconds must be a number above 0, not {timeout_seconds:g}"
        )
    statuses: list[int] = []
    try:
        return anyio.run(_probe, url, query, k, token, timeout_seconds, statuses)
    except ProbeError:
        raise
    except Exception as error:
        reason = _explained(error, timeout_seconds, statuses)
        raise ProbeError(f"{url}: {reason}") from error


def require_fresh(report: ProbeReport, max_age_hours: float) -> None:
    """
    Raise ``ProbeError`` where the last indexing run is longer ago than that.

    What counts is when the corpus was last looked at, whether or not it had changed.
    """
    checked_at = report.status.get("checked_at")
    try:
        at = datetime.datetime.fromisoformat(str(checked_at))
    except ValueError:
        raise ProbeError(f"{report.url}: no indexing run has finished yet") from None
    hours = (datetime.datetime.now(datetime.UTC) - at).total_seconds() / 3600
    if hours > max_age_hours:
        raise ProbeError(
            f"{report.url}: the last indexing run was {hours:.1f} hours ago "
            f"({checked_at}), more than {max_age_hours:g}: is the refresh running?"
        )


async def _probe(
    url: str,
    query: str | None,
    k: int,
    token: Secret | None,
    timeout_seconds: float,
    statuses: list[int],
) -> ProbeReport:
    """Go through the steps; ``statuses`` gets the HTTP status of each answer."""
    report = ProbeReport(url)
    lap = _Laps(report.milliseconds)

    async def note(response: httpx2.Response) -> None:
        # The client turns them all into errors of the protocol, without the number.
        if response.request.method == "POST":
            statuses.append(response.status_code)

    # A proxy of the environment has no business between this machine and itself.
    http = httpx2.AsyncClient(
        headers={"Authorization": f"Bearer {token.reveal()}"} if token else {},
        timeout=timeout_seconds,
        trust_env=False,
        event_hooks={"response": [note]},
    )
    with anyio.fail_after(timeout_seconds):
        async with (
            http,
            Client(streamable_http_client(url, http_client=http)) as client,
        ):
            info = client.server_info
            report.server = info.name if info else ""
            report.version = info.version if info else ""
            report.protocol = client.protocol_version
            lap("handshake")
            listed = await client.list_tools()
            report.tools = tuple(tool.name for tool in listed.tools)
            _require_tools(report)
            lap("tools")
            status = await client.call_tool(CORPUS_STATUS, {})
            report.status, _ = _content(report, CORPUS_STATUS, status)
            lap("status")
            asked = query or await _title_of_a_document(client)
            answer = await client.call_tool(RETRIEVE, {"query": asked, "k": k})
            report.answer, report.text = _content(report, RETRIEVE, answer)
            lap("retrieve")
    return report


async def _title_of_a_document(client: Client) -> str:
    """Return what this corpus answers, so that a probe is no miss in its traces."""
    listed = (await client.list_resources()).resources
    return (listed[0].title or listed[0].name) if listed else "documentation"


def _require_tools(report: ProbeReport) -> None:
    missing = {RETRIEVE, CORPUS_STATUS} - set(report.tools)
    if missing:
        raise ProbeError(
            f"{report.url}: the server {report.server!r} has no tool "
            f"{', '.join(sorted(missing))}: is this a docs-rag server?"
        )


def _content(
    report: ProbeReport, tool: str, result: CallToolResult
) -> tuple[dict[str, Any], str]:
    text = "".join(getattr(block, "text", "") for block in result.content)
    if result.is_error:
        raise ProbeError(f"{report.url}: {tool} failed: {text}")
    content = dict(result.structured_content or {})
    missing = sorted(_REQUIRED[tool] - set(content))
    if missing:
        raise ProbeError(
            f"{report.url}: the result of {tool} lacks {', '.join(missing)}: is this "
            "a docs-rag server, and of this version?"
        )
    return content, text


class _Laps:
    """Notes how long each step took, in milliseconds."""

    def __init__(self, milliseconds: dict[str, float]) -> None:
        self._milliseconds = milliseconds
        self._last = time.perf_counter()

    def __call__(self, step: str) -> None:
        now = time.perf_counter()
        self._milliseconds[step] = round((now - self._last) * 1000, 1)
        self._last = now


def _explained(
    error: BaseException, timeout_seconds: float, statuses: list[int]
) -> str:
    """Return the root cause in words; the client raises groups of groups."""
    status = statuses[-1] if statuses else 200
    if status >= 300:
        return (
            f"HTTP {status}: {_STATUS_HINTS.get(status, 'see the log of the server')}"
        )
    causes = list(_leaves(error))
    for cause in causes:
        if isinstance(cause, httpx2.ConnectError):
            return "nothing answers there: is the server running, on this port?"
        if isinstance(cause, TimeoutError | httpx2.TimeoutException):
            return f"no answer within {timeout_seconds:g} seconds"
        if isinstance(cause, MCPError):
            said = " ".join(str(cause).split())
            return f"is this an MCP server? What came back: {said}"
    return f"{type(causes[0]).__name__}: {causes[0]}"


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error
        if error.__cause__ is not None:
            yield from _leaves(error.__cause__)
