"""A guarded server on loopback sockets, and a client that sends any bytes."""

import asyncio
import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest
import uvicorn

from docs_rag.admission import HTTP_ROUTES, Limits, Policy
from docs_rag.guard import Guard
from docs_rag.listener import listening, uvicorn_options
from docs_rag.netguard import decide_binding
from docs_rag.records import Secret

TOKEN = Secret("correct-horse-battery-staple-0123456789")
OTHER_TOKEN = Secret("another-horse-battery-staple-0123456789")
PATIENCE_SECONDS = 20.0


def _has_ipv6_loopback():
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


needs_ipv6 = pytest.mark.skipif(
    not _has_ipv6_loopback(), reason="this machine has no IPv6 loopback address"
)


@dataclass
class Application:
    """The guarded application: answers what it saw, or does what ``x-do`` says."""

    scopes: list = field(default_factory=list)
    events: list = field(default_factory=list)

    async def __call__(self, scope, receive, send):
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        self.scopes.append(scope)
        body = (await receive())["body"]
        order = dict(scope["headers"]).get(b"x-do", b"").decode()
        if order == "wait":
            self.events.append((await receive())["type"])
        elif order == "crash":
            raise RuntimeError("the application crashed")
        elif order == "time out":
            raise TimeoutError("of the application's own")
        elif order == "stream":
            await self._stream(receive, send)
        else:
            await self._echo(scope, body, send)

    async def _live(self, receive, send):
        for phase in ("startup", "shutdown"):
            self.events.append((await receive())["type"])
            await send({"type": f"lifespan.{phase}.complete"})

    async def _echo(self, scope, body, send):
        seen = {
            "method": scope["method"],
            "path": scope["path"],
            "raw_path": scope["raw_path"].decode(),
            "headers": [[k.decode(), v.decode()] for k, v in scope["headers"]],
            "body_bytes": len(body),
        }
        headers = [
            (b"content-type", b"application/json"),
            (b"Server", b"inner"),
            (b"cache-control", b"public"),
            (b"Access-Control-Allow-Origin", b"*"),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": json.dumps(seen).encode()})

    async def _stream(self, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        piece = {"type": "http.response.body", "body": b"x" * 65536}
        leaving = asyncio.ensure_future(receive())
        try:
            while not leaving.done():
                await send({**piece, "more_body": True})
                await asyncio.sleep(0)
        finally:
            leaving.cancel()
            self.events.append("stream ended")


@dataclass(frozen=True)
class Answer:
    """A status, the headers in lower case, and the body."""

    status: int
    headers: list
    body: bytes

    def values(self, name):
        return [value for key, value in self.headers if key == name]

    def value(self, name):
        (only,) = self.values(name)
        return only


@dataclass
class Site:
    """A running server and what a test wants to know of it."""

    port: int
    family: int
    address: object
    guard: Guard
    server: uvicorn.Server
    thread: threading.Thread
    application: Application

    def connect(self):
        return connect(self.family, self.address)

    def ask(self, method="POST", path="/mcp", *, host="127.0.0.1:PORT", **more):
        """Send one request and return the answer; PORT stands for the port."""
        with self.connect() as client:
            client.sendall(self.request(method, path, host=host, **more))
            return read_answer(client, method)

    def request(
        self, method="POST", path="/mcp", *, host="127.0.0.1:PORT", headers=(), body=b""
    ):
        """Return the bytes of a request; ``host`` None leaves that header out."""
        lines = [f"{method} {path} HTTP/1.1"]
        lines += [f"Host: {host}"] if host is not None else []
        lines += [f"{name}: {value}" for name, value in headers]
        lines += [f"Content-Length: {len(body)}"] if body else []
        head = "\r\n".join(lines).replace("PORT", str(self.port))
        return head.encode("latin-1") + b"\r\n\r\n" + body

    def connections(self):
        return len(self.server.server_state.connections)


@contextmanager
def serving(
    host="localhost",
    token=None,
    *,
    listen_on=None,
    allowed_hosts=(),
    allowed_origins=(),
    routes=HTTP_ROUTES,
    **limits,
) -> Iterator[Site]:
    """Run a guarded server; ``listen_on`` keeps an exposed one off the network."""
    binding = decide_binding(host, token, allowed_hosts, allowed_origins)
    place = decide_binding(listen_on, None) if listen_on else binding
    application = Application()
    with listening(place, 0) as sockets:
        address = sockets[0].getsockname()
        port = address[1] if isinstance(address, tuple) else 8765
        policy = Policy(binding, port, token, routes, Limits(**limits))
        guard = Guard(application, policy)
        server = uvicorn.Server(uvicorn.Config(guard, **uvicorn_options(policy)))
        thread = threading.Thread(target=server.run, args=(sockets,))
        thread.start()
        try:
            eventually(lambda: server.started or not thread.is_alive())
            family = sockets[0].family
            yield Site(port, family, address, guard, server, thread, application)
        finally:
            server.should_exit = True
            thread.join()


def connect(family, address):
    """Return a connected socket that waits long, but not for ever."""
    client = socket.socket(family, socket.SOCK_STREAM)
    client.settimeout(PATIENCE_SECONDS)
    try:
        client.connect(address)
    except OSError:
        client.close()
        raise
    return client


def read_answer(client, method="POST") -> Answer:
    """Read one answer from a socket."""
    with http.client.HTTPResponse(client, method=method) as response:
        response.begin()
        body = response.read()
        headers = [(name.lower(), value) for name, value in response.getheaders()]
        return Answer(response.status, headers, body)


def read_to_end(client) -> bytes:
    """Read until the server closes, politely or not."""
    received = bytearray()
    try:
        while chunk := client.recv(65536):
            received += chunk
    except ConnectionError:
        pass
    return bytes(received)


def eventually(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds; fail if it does not for a long time."""
    give_up_at = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < give_up_at, "it never came true"
        time.sleep(0.01)
