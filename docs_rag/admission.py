"""
May this request pass: a pure verdict on its head, before a byte of its body is read.

The order is fixed: Host, Origin, token, route, size. What comes first hides what
comes later, so a stranger learns nothing but that this is not the server he named.
"""

import enum
import hashlib
import hmac
import re
from dataclasses import dataclass, replace

from docs_rag.authority import (
    Authority,
    Origin,
    address_host,
    parse_authority,
    parse_origin,
)
from docs_rag.netguard import Binding, Exposure, require_token, shown
from docs_rag.records import Secret

_WEB_SCHEMES = ("http", "https")
# More digits than a length can have, yet few enough to convert in no time.
_LENGTH = re.compile(r"[0-9]{1,19}")
# Clients that were asked for a token look for OAuth here. A second demand for a
# token would send some of them round in circles; "not found" ends the search.
_OAUTH_PATHS = ("/authorize", "/register", "/token")
_OAUTH_PREFIX = "/.well-known/"
# What was judged is settled, and what a hop in front claims was never believed:
# the application gets neither.
_WITHHELD = frozenset({b"authorization", b"forwarded", b"host", b"origin"})
_WITHHELD_PREFIX = b"x-forwarded-"


@dataclass(frozen=True, slots=True)
class Limits:
    """What one client may use up: bytes, seconds, and shares of the server."""

    max_body_bytes: int = 1 << 20
    max_head_bytes: int = 16_384
    head_seconds: float = 10.0
    body_seconds: float = 10.0
    call_seconds: float = 60.0
    max_calls: int = 64
    max_connections: int = 256
    keep_alive_seconds: int = 5
    shutdown_seconds: int = 5


class RouteKind(enum.StrEnum):
    """What a request to a route costs, and so which limits hold for it."""

    PROBE = "probe"
    CALL = "call"
    STREAM = "stream"


@dataclass(frozen=True, slots=True)
class Route:
    """A path that exists. With and without a slash at its end it is the same."""

    path: str
    methods: tuple[str, ...]
    kind: RouteKind

    def answers(self, path: str) -> bool:
        """Tell whether ``path`` is this route in either spelling."""
        return path in (self.path, self.path.removesuffix("/"), self.path + "/")


_PROBES = (
    Route("/healthz", ("GET", "HEAD"), RouteKind.PROBE),
    Route("/readyz", ("GET", "HEAD"), RouteKind.PROBE),
)
HTTP_ROUTES = (Route("/mcp", ("POST",), RouteKind.CALL), *_PROBES)
SSE_ROUTES = (
    Route("/sse", ("GET",), RouteKind.STREAM),
    Route("/messages/", ("POST",), RouteKind.CALL),
    *_PROBES,
)


@dataclass(frozen=True, slots=True)
class Policy:
    """Everything that a verdict depends on. An unsafe one cannot be made."""

    binding: Binding
    port: int
    token: Secret | None = None
    routes: tuple[Route, ...] = HTTP_ROUTES
    limits: Limits = Limits()

    def __post_init__(self) -> None:
        require_token(self.binding.exposure, self.binding.host, self.token)

    @property
    def inner_host(self) -> str:
        """The one Host that the application behind the guard ever sees."""
        return f"127.0.0.1:{self.port}"

    @property
    def inner_origin(self) -> str:
        """The one Origin that the application behind the guard ever sees."""
        return f"http://{self.inner_host}"

    def with_token(self, token: Secret) -> "Policy":
        """Return this policy under a new token; raise if the token is weak."""
        return replace(self, token=token)

    def mask(self, text: str) -> str:
        """Return what a client sent without the token, wherever he put it."""
        if self.token is None:
            return text
        return text.replace(self.token.reveal(), str(self.token))

    def answers_to(self, named: Authority, local_address: str) -> bool:
        """Tell whether a client that asks for ``named`` means this server."""
        for name in self.binding.names:
            ports = (None, name.port or self.port)
            if named.host == name.host and named.port in ports:
                return True
        # Behind a wildcard the machine's addresses are not known beforehand, but each
        # connection knows which one it came in by. No page of another site can have
        # an address of this machine for its name.
        return (
            self.binding.exposure is Exposure.EXPOSED
            and named.host == address_host(local_address)
            and named.port in (None, self.port)
        )


@dataclass(frozen=True, slots=True)
class Head:
    """A request before its body; ``local_address`` is where it arrived."""

    method: str
    path: str
    headers: tuple[tuple[bytes, bytes], ...]
    local_address: str = ""
    size_bytes: int = 0

    def values(self, name: bytes) -> list[str]:
        """Return every value of a header, in order."""
        return [v.decode("latin-1") for key, v in self.headers if key == name]


@dataclass(frozen=True, slots=True)
class Refusal:
    """
    Why a request goes no further.

    ``message`` is for the client and tells nothing of the server; ``detail`` is for
    the log. ``closes`` means that the rest of the request is not worth reading.
    """

    status: int
    message: str
    detail: str
    headers: tuple[tuple[str, str], ...] = ()
    closes: bool = False


_NOT_FOUND = Refusal(404, "Not Found", "no such path")


def judge(policy: Policy, head: Head) -> Route | Refusal:
    """Return the route that a request may take, or why it may not."""
    refusal = (
        _judge_host(policy, head)
        or _judge_origin(policy, head)
        or _judge_token(policy, head)
    )
    if refusal is not None:
        return refusal
    route = _find_route(policy, head)
    if isinstance(route, Refusal):
        return route
    return _judge_size(policy.limits, head) or route


def leaves_body_unread(head: Head, limits: Limits) -> bool:
    """
    Tell whether a refused request may still send more than it is worth to skip.

    A small body is skipped so that the connection can be used again. After
    ``Expect: 100-continue`` the client may send no body at all, and what it sends
    next would be taken for one.
    """
    if head.values(b"transfer-encoding") or head.values(b"expect"):
        return True
    lengths = head.values(b"content-length")
    return any(not _fits(length, limits.max_body_bytes) for length in lengths)


def inner_headers(policy: Policy, head: Head) -> list[tuple[bytes, bytes]]:
    """Return the headers for the application: one Host, one Origin, no credentials."""
    kept = [
        (name, value)
        for name, value in head.headers
        if name not in _WITHHELD and not name.startswith(_WITHHELD_PREFIX)
    ]
    kept.insert(0, (b"host", policy.inner_host.encode()))
    if head.values(b"origin"):
        kept.append((b"origin", policy.inner_origin.encode()))
    return kept


def too_large(limits: Limits) -> Refusal:
    """Return the refusal of a body over the limit, declared or received."""
    message = f"Content Too Large: the limit is {limits.max_body_bytes} bytes"
    return Refusal(413, message, "body too large", closes=True)


def _judge_host(policy: Policy, head: Head) -> Refusal | None:
    values = head.values(b"host")
    named = parse_authority(values[0]) if len(values) == 1 else None
    if named is not None and policy.answers_to(named, head.local_address):
        return None
    return Refusal(
        421,
        "Misdirected Request: this server does not answer to that Host",
        f"Host {shown(policy.mask(', '.join(values)))} is not in RAG_ALLOWED_HOSTS",
    )


def _judge_origin(policy: Policy, head: Head) -> Refusal | None:
    values = head.values(b"origin")
    if not values:
        return None
    origin = parse_origin(values[0]) if len(values) == 1 else None
    if origin is not None and (
        origin in policy.binding.origins or _is_own(policy, head, origin)
    ):
        return None
    return Refusal(
        403,
        "Forbidden: this server does not answer to that Origin",
        f"Origin {shown(policy.mask(', '.join(values)))} is not in RAG_ALLOWED_ORIGINS",
    )


def _is_own(policy: Policy, head: Head, origin: Origin) -> bool:
    if origin.scheme not in _WEB_SCHEMES:
        return False
    return policy.answers_to(origin.authority, head.local_address)


def _judge_token(policy: Policy, head: Head) -> Refusal | None:
    if policy.token is None:
        return None
    if head.path in _OAUTH_PATHS or head.path.startswith(_OAUTH_PREFIX):
        return _NOT_FOUND
    values = head.values(b"authorization")
    if len(values) == 1 and _holds_token(values[0], policy.token):
        return None
    challenge = 'Bearer realm="docs-rag"'
    if values:
        challenge += ', error="invalid_token"'
    return Refusal(
        401,
        "Unauthorized: send the header Authorization: Bearer <token>",
        "wrong token" if values else "no token",
        (("www-authenticate", challenge),),
    )


def _holds_token(value: str, token: Secret) -> bool:
    scheme, _, given = value.partition(" ")
    # Digests have one length, so the comparison takes one time, however much of the
    # token was guessed.
    actual = hashlib.sha256(given.strip(" ").encode("latin-1")).digest()
    expected = hashlib.sha256(token.reveal().encode()).digest()
    return scheme.lower() == "bearer" and hmac.compare_digest(actual, expected)


def _find_route(policy: Policy, head: Head) -> Route | Refusal:
    if any("websocket" in value.lower() for value in head.values(b"upgrade")):
        return Refusal(403, "Forbidden: no WebSocket here", "WebSocket upgrade")
    for route in policy.routes:
        if not route.answers(head.path):
            continue
        if head.method in route.methods:
            return route
        allow = (("allow", ", ".join(route.methods)),)
        return Refusal(405, "Method Not Allowed", "method not allowed", allow)
    return _NOT_FOUND


def _judge_size(limits: Limits, head: Head) -> Refusal | None:
    lengths = head.values(b"content-length")
    framings = len(lengths) + len(head.values(b"transfer-encoding"))
    if head.size_bytes > limits.max_head_bytes:
        message = "Request Header Fields Too Large"
        return Refusal(431, message, "head too large", closes=True)
    if framings > 1 or not all(map(_LENGTH.fullmatch, lengths)):
        return Refusal(400, "Bad Request", "contradictory body length", closes=True)
    if not all(_fits(length, limits.max_body_bytes) for length in lengths):
        return too_large(limits)
    return None


def _fits(length: str, max_bytes: int) -> bool:
    return bool(_LENGTH.fullmatch(length)) and int(length) <= max_bytes
