"""A server under crowds and nonsense: it refuses, forgets, and answers the next."""

import asyncio
import contextlib
import http.client
import json
import os
import random
import socket
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import httpx2
import project as kit
import pytest
from fake_endpoint import FakeEndpoint, fake_endpoint, healthy

CROWD = 500
ROUNDS = 4
NONSENSE = 10_000
THREADS = 4
MEBIBYTE = 1 << 20
NEEDS_PROC = pytest.mark.skipif(
    not os.path.exists("/proc/self/fd"), reason="reads /proc"
)


@pytest.fixture(scope="module")
def indexed(tmp_path_factory):
    project = kit.make_project(tmp_path_factory.mktemp("endurance"))
    project.index()
    return project


@pytest.fixture
def site(indexed):
    with indexed.serving() as running:
        kit.retrieve(running.url, "lamp")
        yield running


def resident_bytes(running) -> int:
    with open(f"/proc/{running.process.pid}/status") as status:
        (line,) = [line for line in status if line.startswith("VmRSS:")]
    return int(line.split()[1]) * 1024


def descriptors(running) -> int:
    return len(os.listdir(f"/proc/{running.process.pid}/fd"))


# -- crowds -----------------------------------------------------------------------


async def crowd(url: str) -> Counter:
    """Send many requests at once, half of them handshakes; count the statuses."""
    limits = httpx2.Limits(max_connections=CROWD)
    headers = {"accept": "application/json, text/event-stream"}
    tool = {"name": "retrieve", "arguments": {"query": "lamp"}}
    call = kit.request("tools/call", tool)

    async with httpx2.AsyncClient(
        trust_env=False, timeout=60, limits=limits, headers=headers
    ) as client:

        async def ask(number: int) -> int:
            message = call if number % 2 else kit.initialize()
            return (await client.post(url, json=message)).status_code

        return Counter(await asyncio.gather(*map(ask, range(CROWD))))


@pytest.mark.slow
@NEEDS_PROC
def test_crowds_are_served_or_turned_away(site):
    """Of 500 requests at once each is answered or gets 503, and nothing stays."""
    idle = descriptors(site)
    asyncio.run(crowd(site.url))
    after_first = resident_bytes(site)
    counts = [asyncio.run(crowd(site.url)) for _ in range(ROUNDS)]

    assert all(set(count) <= {200, 503} for count in counts), counts
    assert all(count[200] >= 64 for count in counts), counts
    kit.eventually(lambda: descriptors(site) <= idle + 8, "file descriptors returned")
    assert resident_bytes(site) - after_first < 30 * MEBIBYTE
    assert kit.retrieve(site.url, "lamp")["hits"]


# -- nonsense ---------------------------------------------------------------------

HONEST = json.dumps(
    kit.request("tools/call", {"name": "retrieve", "arguments": {"query": "lamp"}})
).encode()
MODERN = {
    "mcp-protocol-version": "2026-07-28",
    "mcp-method": "tools/call",
    "mcp-name": "retrieve",
}
BODIES = (
    b"",
    b"{",
    b"null",
    b"[]",
    b'"text"',
    b"[" * 100_000,
    b'{"a":' * 20_000,
    b"1" * 5_000,
    b"\xff\xfe\x00",
    b"\xef\xbb\xbf" + HONEST,
    b"[" + HONEST + b"]",
    HONEST + HONEST,
    HONEST.replace(b'"2.0"', b'"1.0"'),
    HONEST.replace(b'"id": 1', b'"id": null'),
    HONEST.replace(b'"id": 1', b'"id": {"a": 1}'),
    HONEST.replace(b'"id": 1', b'"id": ' + b"9" * 4_000),
    HONEST.replace(b"tools/call", b"tools/steal"),
    HONEST.replace(b"tools/call", b"resources/read"),
    HONEST.replace(b"retrieve", b"../../etc/passwd"),
    HONEST.replace(b'{"query": "lamp"}', b"[1, 2]"),
    HONEST.replace(b'"lamp"', b'{"$ne": null}'),
    HONEST.replace(b'"lamp"', b'"\\ud800"'),
    HONEST.replace(b'"lamp"', b'"\\u0000"'),
    HONEST.replace(b'"lamp"', b'"' + b'(\\"*^:' * 3_000 + b'"'),
    HONEST.replace(b'"lamp"', b"1e999"),
    json.dumps(
        kit.request("resources/read", {"uri": "docs-rag://wexcombe/../x"})
    ).encode(),
    json.dumps({"jsonrpc": "2.0", "method": "notifications/cancelled"}).encode(),
    HONEST,
)
HEADERS = (
    {},
    {"content-type": "text/plain"},
    {"accept": "*/*"},
    {"accept": ""},
    {"mcp-protocol-version": "2099-01-01"},
    {"mcp-protocol-version": ""},
    {"mcp-session-id": "x" * 2_000},
    {"mcp-session-id": "stale"},
    {"last-event-id": "7"},
    {"origin": "http://evil.example"},
    {"host": "evil.example"},
    {"content-encoding": "gzip"},
    {"x-forwarded-for": "1.2.3.4"},
    {"traceparent": "00-zz"},
    MODERN,
    {**MODERN, "mcp-method": "\xff"},
)
METHODS = ("POST",) * 12 + ("GET", "DELETE", "PUT", "OPTIONS", "PATCH", "TRACE")
PATHS = ("/mcp",) * 12 + ("/mcp/", "/healthz", "/readyz", "/%2e%2e/", "/mcp?x=1", "//")
GARBAGE = (
    b"\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"GET / HTTP/9.9\r\n\r\n",
    b"POST /mcp HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    b"POST /mcp HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
    b"POST /mcp HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"A" * 20_000 + b"\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
)


def mangled(body: bytes, dice: random.Random) -> bytes:
    """Return ``body`` with a few bytes changed, now and then."""
    changed = bytearray(body[:2_000] if len(body) > 2_000 else body)
    for _ in range(dice.choice((0, 0, 1, 3))):
        if changed:
            changed[dice.randrange(len(changed))] = dice.randrange(256)
    return bytes(changed) if dice.random() < 0.5 else body


def talk_nonsense(port: int, seed: int, count: int) -> Counter:
    """Send nonsense over as few connections as the server allows."""
    dice = random.Random(seed)
    statuses: Counter = Counter()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    for _ in range(count):
        if dice.random() < 0.02:
            statuses["garbage"] += 1
            babble(port, dice.choice(GARBAGE))
            continue
        headers = {
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
            **dice.choice(HEADERS),
        }
        body = mangled(dice.choice(BODIES), dice)
        try:
            connection.request(dice.choice(METHODS), dice.choice(PATHS), body, headers)
            answer = connection.getresponse()
            answer.read()
            statuses[answer.status] += 1
        except (http.client.HTTPException, OSError):
            statuses["closed"] += 1
            connection.close()
    connection.close()
    return statuses


def babble(port: int, garbage: bytes) -> None:
    """Send bytes that are no HTTP, and leave."""
    with (
        socket.create_connection(("127.0.0.1", port), timeout=60) as client,
        contextlib.suppress(OSError),
    ):
        client.sendall(garbage)
        client.shutdown(socket.SHUT_WR)
        client.recv(65536)


@pytest.mark.slow
@NEEDS_PROC
def test_nonsense_is_refused_and_the_next_question_answered(site):
    """Of 10,000 malformed requests none is answered by a 5xx, hangs, or leaks."""
    idle = descriptors(site)
    talk_nonsense(site.port, seed=0, count=500)
    before = resident_bytes(site)
    share = NONSENSE // THREADS
    with ThreadPoolExecutor(THREADS) as pool:
        parts = pool.map(
            lambda seed: talk_nonsense(site.port, seed, share), range(1, THREADS + 1)
        )
        statuses = sum(parts, Counter())

    assert statuses.total() == NONSENSE
    assert statuses["closed"] < NONSENSE * 0.02
    assert not [s for s in statuses if isinstance(s, int) and s >= 500], statuses
    assert len(statuses) > 8, statuses
    assert "Traceback" not in site.log
    assert kit.retrieve(site.url, "what does LAMP-0502 mean?")["hits"]
    kit.eventually(lambda: descriptors(site) <= idle + 8, "file descriptors returned")
    assert resident_bytes(site) - before < 30 * MEBIBYTE


# -- leaving ----------------------------------------------------------------------


@pytest.mark.parametrize("headers", [{}, MODERN], ids=["handshake", "modern"])
def test_callers_who_hang_up_hold_nobody_up(tmp_path, headers):
    """Clients that disconnect in a call that hangs give their turns to the next."""
    project = kit.make_project(tmp_path)
    with fake_endpoint() as endpoint:
        settings = {
            "RAG_EMBED_BACKEND": "openai",
            "LMSTUDIO_BASE_URL": endpoint.base_url,
            "EMBED_MODEL": "fake",
        }
        project.index(**settings)
        with project.serving(**settings) as running:
            kit.retrieve(running.url, "lamp")
            hanging = Hanging(endpoint)
            clients = [hang_up_later(running.port, headers) for _ in range(4)]
            kit.eventually(lambda: hanging.count == 4, "four calls hanging")
            for client in clients:
                client.close()
            assert kit.retrieve(running.url, "how is a lamp changed?")["hits"]
            assert hanging.count == 4
            endpoint.stopping.set()


class Hanging:
    """Makes the endpoint hang on texts that say so, and counts them."""

    def __init__(self, endpoint: FakeEndpoint) -> None:
        self.count = 0
        self._lock = threading.Lock()
        self._endpoint = endpoint
        endpoint.rule = self

    def __call__(self, call):
        if any("never mind" in text for text in call.texts):
            with self._lock:
                self.count += 1
            self._endpoint.stopping.wait(kit.PATIENCE_SECONDS)
        return healthy(call)


def hang_up_later(port: int, headers: dict) -> socket.socket:
    """Send a call that will hang; return the connection."""
    tool = {"name": "retrieve", "arguments": {"query": "never mind"}}
    if headers:
        tool["_meta"] = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        }
    body = json.dumps(kit.request("tools/call", tool)).encode()
    head = [
        "POST /mcp HTTP/1.1",
        f"host: 127.0.0.1:{port}",
        "content-type: application/json",
        "accept: application/json, text/event-stream",
        f"content-length: {len(body)}",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    client = socket.create_connection(("127.0.0.1", port), timeout=60)
    client.sendall("\r\n".join(head).encode() + b"\r\n\r\n" + body)
    return client
