"""
The outermost ASGI layer: nothing reaches the application but what may pass.

Every request is judged from its head, its body is read here within the limits, its
answer is stamped, and one line of it goes to the log ``docs_rag.access``.
"""

import asyncio
import json
import logging
import time
from collections import Counter
from urllib.parse import quote

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from docs_rag.admission import (
    Head,
    Limits,
    Policy,
    Refusal,
    Route,
    RouteKind,
    inner_headers,
    judge,
    leaves_body_unread,
    too_large,
)
from docs_rag.records import Secret

access = logging.getLogger("docs_rag.access")

# Set in the state of a scope by the listener: this connection is one too many.
OVER_LIMIT = "docs_rag.over_limit"

_LOGGED_PATH_MAX_CHARS = 200
_LOGGED_METHOD_MAX_CHARS = 16
# The client was gone before an answer began; a convention of access logs, never sent.
_STATUS_CLIENT_LEFT = 499
_STATUS_CRASHED = 500
_STAMP = (
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
)
# Stamped here, so not to be sent twice; or better not sent at all.
_UNSENT = frozenset({b"cache-control", b"x-content-type-options", b"server"})
_UNSENT_PREFIX = b"access-control-"

_RETRY = (("retry-after", "1"),)
_BUSY = Refusal(503, "Service Unavailable: busy, try again", "too many calls", _RETRY)
_FULL = Refusal(
    503,
    "Service Unavailable: too many connections, try again",
    "too many connections",
    _RETRY,
    closes=True,
)
_CALL_TIMEOUT = Refusal(
    503, "Service Unavailable: the call took too long", "call timed out", _RETRY
)
_BODY_TIMEOUT = Refusal(408, "Request Timeout", "body too slow", closes=True)


class Guard:
    """Wraps an ASGI application so that it only sees what the policy lets pass."""

    def __init__(self, app: ASGIApp, policy: Policy) -> None:
        self._app = app
        self._policy = policy
        self._in_flight: Counter[str] = Counter()

    @property
    def policy(self) -> Policy:
        """The policy in force."""
        return self._policy

    def rotate(self, token: Secret) -> None:
        """Put a new token in force; a weak one raises and leaves the old one."""
        self._policy = self._policy.with_token(token)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one scope: HTTP is guarded, a WebSocket refused."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            exchange = _Exchange(scope, send)
            try:
                await self._serve(scope, receive, exchange)
            except Exception:
                exchange.status = exchange.status or _STATUS_CRASHED
                raise
            finally:
                exchange.log(self._policy)
        else:
            await send({"type": "websocket.close", "code": 1008})

    async def _serve(
        self, scope: Scope, receive: Receive, exchange: "_Exchange"
    ) -> None:
        policy = self._policy
        head = _read_head(scope)
        is_too_many = scope.get("state", {}).get(OVER_LIMIT, False)
        verdict = _FULL if is_too_many else judge(policy, head)
        if isinstance(verdict, Refusal):
            is_unread = leaves_body_unread(head, policy.limits)
            await exchange.refuse(verdict, closes=is_unread)
            return
        body = await _read_body(receive, policy.limits)
        if isinstance(body, Refusal):
            await exchange.refuse(body)
        elif body is not None:
            scope = dict(scope)
            scope["headers"] = inner_headers(policy, head)
            scope["path"] = verdict.path
            scope["raw_path"] = verdict.path.encode()
            await self._call(verdict, scope, _Replay(body, receive), exchange)

    async def _call(
        self, route: Route, scope: Scope, receive: Receive, exchange: "_Exchange"
    ) -> None:
        if route.kind is RouteKind.PROBE:
            await self._app(scope, receive, exchange.send)
            return
        limits = self._policy.limits
        if self._in_flight[route.path] >= limits.max_calls:
            await exchange.refuse(_BUSY)
            return
        self._in_flight[route.path] += 1
        is_stream = route.kind is RouteKind.STREAM
        try:
            async with asyncio.timeout(
                None if is_stream else limits.call_seconds
            ) as deadline:
                await self._app(scope, receive, exchange.send)
        except TimeoutError:
            if not deadline.expired():
                raise
            await exchange.refuse(_CALL_TIMEOUT)
        finally:
            self._in_flight[route.path] -= 1


class _Exchange:
    """One request and its answer: stamps what is sent, and remembers it for the log."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self._scope = scope
        self._send = send
        self._started_at = time.monotonic()
        self._detail = ""
        self.status = 0

    async def send(self, message: Message) -> None:
        """Pass on a message of the answer, with the headers that every answer has."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message = {**message, "headers": _stamped(message.get("headers", ()))}
        await self._send(message)

    async def refuse(self, refusal: Refusal, closes: bool = False) -> None:
        """Answer with a refusal, unless an answer has begun: that one stays cut off."""
        self._detail = refusal.detail
        if self.status:
            return
        body = refusal.message.encode()
        headers = [
            (b"content-type", b"text/plain; charset=utf-8"),
            (b"content-length", str(len(body)).encode()),
            *((name.encode(), value.encode()) for name, value in refusal.headers),
        ]
        if closes or refusal.closes:
            headers.append((b"connection", b"close"))
        start = {"type": "http.response.start", "status": refusal.status}
        await self.send({**start, "headers": headers})
        await self.send({"type": "http.response.body", "body": body})

    def log(self, policy: Policy) -> None:
        """Write the one line of this request: no query, no header, no token."""
        method = self._scope["method"][:_LOGGED_METHOD_MAX_CHARS]
        path = policy.mask(self._scope["path"])[:_LOGGED_PATH_MAX_CHARS]
        milliseconds = (time.monotonic() - self._started_at) * 1000
        line = (
            f"method={quote(method, errors='replace')}"
            f" path={quote(path, errors='replace')}"
            f" status={self.status or _STATUS_CLIENT_LEFT}"
            f" ms={milliseconds:.1f} peer={_peer(self._scope)}"
        )
        if self._detail:
            line += f" refused={json.dumps(self._detail)}"
        access.info("%s", line)


class _Replay:
    """A ``receive`` that hands out a body that was read, then what comes later."""

    def __init__(self, body: bytes, receive: Receive) -> None:
        self._body: bytes | None = body
        self._receive = receive

    async def __call__(self) -> Message:
        if self._body is None:
            return await self._receive()
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}


async def _read_body(receive: Receive, limits: Limits) -> bytes | Refusal | None:
    """Read the whole body, or say why not; None when the client left."""
    body = bytearray()
    try:
        async with asyncio.timeout(limits.body_seconds):
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    return None
                body += message.get("body", b"")
                if len(body) > limits.max_body_bytes:
                    return too_large(limits)
                if not message.get("more_body", False):
                    return bytes(body)
    except TimeoutError:
        return _BODY_TIMEOUT


def _read_head(scope: Scope) -> Head:
    headers = tuple((bytes(name), bytes(value)) for name, value in scope["headers"])
    size_bytes = len(scope.get("raw_path") or b"") + len(scope["query_string"])
    size_bytes += sum(len(name) + len(value) + 4 for name, value in headers)
    local_address = (scope.get("server") or ("",))[0]
    return Head(scope["method"], scope["path"], headers, local_address, size_bytes)


def _stamped(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    kept = [
        (name, value)
        for name, value in headers
        if name.lower() not in _UNSENT and not name.lower().startswith(_UNSENT_PREFIX)
    ]
    return [*kept, *_STAMP]


def _peer(scope: Scope) -> str:
    if not scope.get("client"):
        return "unix"
    host, port = scope["client"]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
