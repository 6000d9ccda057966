import json
import logging
import re
import socket
import sys
from urllib.parse import quote

import pytest
from loopback import (
    OTHER_TOKEN,
    TOKEN,
    Application,
    eventually,
    needs_ipv6,
    read_answer,
    read_to_end,
    serving,
)

from docs_rag.admission import SSE_ROUTES, Policy
from docs_rag.errors import UnsafeBindingError
from docs_rag.guard import Guard
from docs_rag.netguard import decide_binding
from docs_rag.records import Secret

BEARER = ("Authorization", f"Bearer {TOKEN.reveal()}")
WRONG = ("Authorization", f"Bearer {OTHER_TOKEN.reveal()}")
PATHS = ["/mcp", "/mcp/", "/healthz", "/readyz", "/sse", "/messages/", "/unknown"]
PATHS += ["/.well-known/oauth-protected-resource"]
ACCESS_LINE = re.compile(
    r'method=\S+ path=\S* status=\d{3} ms=\d+\.\d peer=\S+( refused=".*")?'
)


needs_whole_loopback_net = pytest.mark.skipif(
    sys.platform == "darwin", reason="macOS has only the first loopback address"
)


@pytest.fixture(scope="module")
def site():
    with serving() as running:
        yield running


@pytest.fixture(scope="module")
def locked():
    with serving("0.0.0.0", TOKEN, listen_on="localhost") as running:
        yield running


@pytest.fixture(scope="module")
def sse():
    with serving(routes=SSE_ROUTES) as running:
        yield running


@pytest.fixture
def access(caplog):
    """Return the access lines that a server wrote so far, and no other server's."""
    caplog.set_level(logging.INFO, logger="docs_rag.access")
    return lambda server: [
        record.getMessage()
        for record in caplog.records
        if record.name == "docs_rag.access" and record.thread == server.thread.ident
    ]


@pytest.mark.parametrize("mode", ["site", "locked", "sse"])
@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "evil.example:PORT", "127.0.0.1.evil.example:PORT", ""),
        *("localhost.evil.example", "localhost:PORT.evil.com", "localhost:9"),
        *("127.0.0.1:PORT@evil.com", "[::1]evil.example:PORT", "[::1]:notaport"),
        *("[::1]:70000", "[::1, ::1]:PORT", "[::1", "::1]:PORT", "127.1:PORT"),
        *("2130706433:PORT", "127.0.0.1.nip.io:PORT", "0.0.0.0:PORT", "user@"),
    ],
)
def test_wrong_host(request, mode, host):
    """A wrong Host is misdirected on every path, and never a redirect or a crash."""
    server = request.getfixturevalue(mode)
    calls = len(server.application.scopes)

    for path in PATHS:
        for method in ("POST", "GET"):
            answer = server.ask(method, path, host=host, headers=[BEARER])
            assert answer.status == 421
    assert len(server.application.scopes) == calls


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1", "localhost", "[::1]", "127.0.0.1:PORT", "localhost:PORT"),
        *("[::1]:PORT", "LOCALHOST:PORT", "LocalHost", "localhost.:PORT"),
        *("[0:0:0:0:0:0:0:1]:PORT", "[::ffff:127.0.0.1]:PORT"),
    ],
)
def test_own_host(site, host):
    """Every spelling of loopback passes, and the application sees one spelling."""
    answer = site.ask(host=host, headers=[("Origin", "http://localhost:PORT")])

    assert answer.status == 200
    headers = dict(json.loads(answer.body)["headers"])
    assert headers["host"] == f"127.0.0.1:{site.port}"
    assert headers["origin"] == f"http://127.0.0.1:{site.port}"


@pytest.mark.parametrize(
    "spelling",
    [
        *("localhost", "127.0.0.1", "::ffff:127.0.0.1"),
        pytest.param("127.0.0.2", marks=needs_whole_loopback_net),
        pytest.param("::1", marks=needs_ipv6),
        pytest.param("[::1]", marks=needs_ipv6),
        pytest.param("0:0:0:0:0:0:0:1", marks=needs_ipv6),
    ],
)
def test_binding_answers_to_its_own_spelling(spelling):
    """Whoever connects to the very address that was configured is served."""
    written = (
        f"[{spelling}]" if spelling.count(":") and "[" not in spelling else spelling
    )
    host = f"{written}:PORT"
    with serving(spelling) as server:
        reached = spelling.strip("[]")
        with socket.create_connection((reached, server.port), timeout=10) as client:
            client.sendall(server.request(host=host))

            assert read_answer(client).status == 200


@needs_ipv6
def test_localhost_listens_on_both_addresses():
    """A client of localhost is served whether it tries IPv4 or IPv6."""
    with serving("localhost") as server:
        for address in ("127.0.0.1", "::1"):
            with socket.create_connection((address, server.port), 10) as client:
                client.sendall(server.request(host="localhost:PORT"))

                assert read_answer(client).status == 200


@pytest.mark.parametrize(
    "origin",
    [
        *("null", "", "http://evil.example", "http://[::1]evil.example"),
        *("https://localhost", "http://localhost", "http://localhost:1"),
        *("vscode-webview://x", "file://", "chrome-extension://abcdef"),
    ],
)
def test_foreign_origin(site, origin):
    """A foreign Origin is forbidden on every path, for a preflight as well."""
    for path in PATHS:
        for method in ("POST", "OPTIONS"):
            answer = site.ask(method, path, headers=[("Origin", origin)])
            assert answer.status == 403
            assert not [n for n, _ in answer.headers if n.startswith("access-control")]


def test_duplicate_headers(locked):
    """Of Host, Origin and Authorization there is one, or the request is refused."""
    own = ("Origin", "http://localhost:PORT")

    assert locked.ask(headers=[BEARER, own]).status == 200
    assert locked.ask(headers=[BEARER, ("Host", "127.0.0.1:PORT")]).status == 400
    assert locked.ask(headers=[BEARER, own, own]).status == 403
    assert locked.ask(headers=[BEARER, BEARER]).status == 401


def test_no_host(site):
    """A request without Host is refused, also in the HTTP version that allows it."""
    assert site.ask(host=None).status == 400
    with site.connect() as client:
        client.sendall(b"POST /mcp HTTP/1.0\r\n\r\n")

        assert read_answer(client).status == 421


@pytest.mark.parametrize(
    "raw",
    [
        b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n evil.example\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\nX: y\r\nHost: evil\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:PORT\x00\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:PORT\rX: y\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\nHost : 127.0.0.1:PORT\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\n Host: 127.0.0.1:PORT\r\n\r\n",
        b"POST http://evil.example/mcp HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n\r\n",
        b"POST /mcp\r\nX: y HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 40,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
    ids=lambda raw: ascii(raw[:40]),
)
def test_header_injection(site, raw):
    """Broken framing of a head is refused before the application, with no crash."""
    calls = len(site.application.scopes)
    with site.connect() as client:
        client.sendall(raw.replace(b"PORT", str(site.port).encode()))

        assert read_answer(client).status in (400, 404, 421)
    assert len(site.application.scopes) == calls


def test_token_on_every_route(locked):
    """Where a token is set, no route answers without it: not even the health check."""
    for path in ("/mcp", "/mcp/", "/healthz", "/readyz", "/unknown"):
        method = "POST" if "mcp" in path else "GET"
        bare = locked.ask(method, path)
        wrong = locked.ask(method, path, headers=[WRONG])
        right = locked.ask(method, path, headers=[BEARER])

        assert (bare.status, wrong.status) == (401, 401)
        assert bare.value("www-authenticate") == 'Bearer realm="docs-rag"'
        assert wrong.value("www-authenticate").endswith(', error="invalid_token"')
        assert right.status == (404 if path == "/unknown" else 200)
    assert locked.ask(path=f"/mcp?token={TOKEN.reveal()}").status == 401


def test_application_does_not_see_the_token(locked):
    """The token ends at the guard."""
    answer = locked.ask(headers=[BEARER])

    assert TOKEN.reveal().encode() not in answer.body


def test_well_known_paths(locked):
    """A search for OAuth metadata finds plain text that says no."""
    answer = locked.ask("GET", "/.well-known/oauth-protected-resource")

    assert answer.status == 404
    assert answer.body == b"Not Found"
    assert answer.value("content-type") == "text/plain; charset=utf-8"
    assert answer.values("www-authenticate") == []


def test_refusal_before_the_body():
    """A refusal does not wait for a body, and the application hears nothing of it."""
    with serving(token=TOKEN) as server:
        for head in (
            server.request(headers=[WRONG, ("Content-Length", "1000")]),
            server.request(host="evil", headers=[("Content-Length", "1000")]),
            server.request(headers=[WRONG, ("Transfer-Encoding", "chunked")]),
        ):
            with server.connect() as client:
                client.sendall(head)
                assert read_answer(client).status in (401, 421)

    assert server.application.scopes == []


def test_connection_goes_on_after_a_refusal():
    """A small body that a refusal left unread is skipped, and the next is served."""
    with serving(token=TOKEN) as server, server.connect() as client:
        client.sendall(server.request(headers=[WRONG, ("Content-Length", "1000")]))
        assert read_answer(client).status == 401
        client.sendall(b"x" * 1000 + server.request(headers=[BEARER], body=b"{}"))
        answer = read_answer(client)

    assert answer.status == 200
    assert json.loads(answer.body)["body_bytes"] == 2


@pytest.mark.parametrize(
    "header",
    [("Transfer-Encoding", "chunked"), ("Expect", "100-continue")],
    ids=["chunked", "expect"],
)
def test_connection_ends_after_a_refusal(locked, header):
    """Where the end of an unread body is unknown, the connection is closed."""
    headers = [WRONG, header]
    headers += [("Content-Length", "5")] if header[0] == "Expect" else []
    with locked.connect() as client:
        client.sendall(locked.request(headers=headers))
        answer = read_answer(client)
        rest = read_to_end(client)

    assert answer.status == 401
    assert answer.value("connection") == "close"
    assert rest == b""


def pour(client, prefix, piece, pieces):
    """Send as much as the server takes, and return how many bytes that was."""
    sent = 0
    try:
        client.sendall(prefix)
        for _ in range(pieces):
            client.sendall(piece)
            sent += len(piece)
    except ConnectionError:
        pass
    return sent


def test_large_declared_body(site):
    """A body that is declared too large is refused at once and not taken in."""
    head = site.request(headers=[("Content-Length", str(50 << 20))])
    with site.connect() as client:
        client.sendall(head)
        answer = read_answer(client)
    with site.connect() as client:
        sent = pour(client, head, b"x" * 65536, 800)

    assert answer.status == 413
    assert answer.value("connection") == "close"
    assert sent < 20 << 20


def test_large_chunked_body(site):
    """A body that turns out too large is refused there, and the rest not taken in."""
    calls = len(site.application.scopes)
    head = site.request(headers=[("Transfer-Encoding", "chunked")])
    chunk = b"10000\r\n" + b"x" * 65536 + b"\r\n"
    with site.connect() as client:
        client.sendall(head + chunk * 16)
        client.sendall(b"1\r\nx\r\n")
        answer = read_answer(client)
    with site.connect() as client:
        sent = pour(client, head, chunk, 800)

    assert answer.status == 413
    assert answer.value("connection") == "close"
    assert sent < 20 << 20
    assert len(site.application.scopes) == calls


def test_largest_body(site):
    """A body of exactly the limit arrives whole, declared or in chunks."""
    body = b"x" * (1 << 20)
    chunked = site.request(headers=[("Transfer-Encoding", "chunked")])
    declared = site.ask(body=body)
    with site.connect() as client:
        client.sendall(chunked + b"100000\r\n" + body + b"\r\n0\r\n\r\n")
        in_chunks = read_answer(client)

    for answer in (declared, in_chunks):
        assert answer.status == 200
        assert json.loads(answer.body)["body_bytes"] == 1 << 20


@pytest.mark.parametrize(
    "lengths",
    [
        ["5", "6"],
        ["-1"],
        ["+5"],
        ["5, 6"],
        ["0x5"],
        ["9" * 25],
        ["9" * 5000],
        ["٥"],
    ],
    ids=lambda lengths: ",".join(lengths)[:20].encode("unicode-escape").decode(),
)
def test_absurd_length(site, lengths):
    """Lengths that contradict each other, or are none, end the connection."""
    headers = [("Content-Length", length) for length in lengths]
    head = (
        site.request(headers=headers)
        if lengths != ["٥"]
        else (
            site.request(headers=[("Content-Length", "?")]).replace(b"?", "٥".encode())
        )
    )
    with site.connect() as client:
        client.sendall(head)
        answer = read_answer(client)

    assert answer.status == 400
    assert answer.value("connection") == "close"


def test_length_and_chunks(site):
    """A body that is framed twice is refused, and what follows is not a request."""
    inner = site.request(headers=[("X-Smuggled", "yes")])
    calls = len(site.application.scopes)
    framing = [
        ("Content-Length", str(5 + len(inner))),
        ("Transfer-Encoding", "chunked"),
    ]
    with site.connect() as client:
        client.sendall(site.request(headers=framing) + b"0\r\n\r\n" + inner)
        received = read_to_end(client)

    assert received.startswith(b"HTTP/1.1 400 ")
    assert received.count(b"HTTP/1.1") == 1
    assert len(site.application.scopes) == calls


def test_slow_body():
    """A body that does not arrive in time is given up, however it drips."""
    with serving(body_seconds=0.5) as server:
        for framing in (("Content-Length", "100"), ("Transfer-Encoding", "chunked")):
            with server.connect() as client:
                client.sendall(server.request(headers=[framing]))
                client.settimeout(0.1)
                received = b""
                for _ in range(100):
                    try:
                        client.sendall(b"1\r\nx\r\n")
                        received += client.recv(4096)
                        break
                    except TimeoutError:
                        continue

            assert received.startswith(b"HTTP/1.1 408 ")
            assert b"connection: close" in received
        eventually(lambda: server.connections() == 0)

    assert server.application.scopes == []


def test_client_that_leaves_while_sending(access):
    """A client that leaves in the middle of its body costs nothing but a line."""
    with serving() as server:
        with server.connect() as client:
            client.sendall(server.request(headers=[("Content-Length", "100")]) + b"x")
        eventually(lambda: len(access(server)) == 1)

    assert "status=499" in access(server)[0]
    assert server.application.scopes == []


def test_client_that_leaves_while_waiting():
    """The application is told when its client has left."""
    with serving() as server:
        with server.connect() as client:
            client.sendall(server.request(headers=[("X-Do", "wait")], body=b"{}"))
            eventually(lambda: server.application.scopes)
        eventually(lambda: "http.disconnect" in server.application.events)


def test_path_is_served_in_place(site):
    """Both spellings of a path are one path to the application, without a redirect."""
    for path in ("/mcp", "/mcp/", "/%6dcp", "/mcp?x=1"):
        answer = site.ask(path=path)

        assert answer.status == 200
        assert json.loads(answer.body)["path"] == "/mcp"
        assert json.loads(answer.body)["raw_path"] == "/mcp"
        assert answer.values("location") == []


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "PATCH", "OPTIONS", "HEAD"])
def test_only_post(site, method):
    """On the MCP endpoint every method but POST is refused with what is allowed."""
    for path in ("/mcp", "/mcp/"):
        answer = site.ask(method, path)

        assert answer.status == 405
        assert answer.value("allow") == "POST"


def test_every_answer_is_stamped(site, sse, locked):
    """No answer may be cached, sniffed, read across origins, or tell the software."""
    answers = [
        site.ask(),
        site.ask("GET", "/healthz"),
        site.ask("HEAD", "/healthz"),
        site.ask("GET"),
        site.ask("GET", "/unknown"),
        site.ask(host="evil"),
        site.ask(headers=[("Origin", "null")]),
        site.ask(headers=[("Content-Length", str(1 << 30))]),
        site.ask(headers=[("Cookie", "x" * 20_000)]),
        sse.ask("GET", "/sse"),
        locked.ask(),
    ]

    expected = [200, 200, 200, 405, 404, 421, 403, 413, 431, 200, 401]
    assert [answer.status for answer in answers] == expected
    for answer in answers:
        assert answer.value("cache-control") == "no-store"
        assert answer.value("x-content-type-options") == "nosniff"
        assert answer.values("server") == []
        assert not [n for n, _ in answer.headers if n.startswith("access-control")]


def test_websocket(site):
    """A WebSocket handshake is refused over the wire."""
    upgrade = [("Upgrade", "websocket"), ("Connection", "Upgrade")]
    upgrade += [("Sec-WebSocket-Key", "x"), ("Sec-WebSocket-Version", "13")]

    for path in ("/mcp", "/healthz"):
        assert site.ask("GET", path, headers=upgrade).status == 403


def test_other_scopes():
    """What is neither HTTP nor the lifespan is closed, and never reaches in."""
    sent = []

    async def send(message):
        sent.append(message)

    async def receive():
        return {"type": "websocket.connect"}

    application = Application()
    guard = Guard(application, Policy(decide_binding("localhost", None), 1))
    coroutine = guard({"type": "websocket"}, receive, send)
    with pytest.raises(StopIteration):
        coroutine.send(None)

    assert sent == [{"type": "websocket.close", "code": 1008}]
    assert application.scopes == []


def test_lifespan_reaches_the_application():
    """The application is started and stopped with the server."""
    with serving() as server:
        pass

    assert server.application.events == ["lifespan.startup", "lifespan.shutdown"]


def test_calls_over_the_limit():
    """One call too many is sent away with when to come back, and none is queued."""
    with serving(max_calls=2) as server:
        waiting = [server.connect() for _ in range(2)]
        for client in waiting:
            client.sendall(server.request(headers=[("X-Do", "wait")]))
        eventually(lambda: len(server.application.scopes) == 2)
        refused = server.ask()
        probe = server.ask("GET", "/healthz")
        for client in waiting:
            client.close()
        eventually(lambda: server.ask().status == 200)

    assert refused.status == 503
    assert refused.value("retry-after") == "1"
    assert probe.status == 200


def test_streams_do_not_use_up_the_calls():
    """Open SSE streams have a limit of their own, and no time limit."""
    limits = {"max_calls": 1, "call_seconds": 0.2}
    with serving(routes=SSE_ROUTES, **limits) as server, server.connect() as client:
        client.sendall(server.request("GET", "/sse", headers=[("X-Do", "wait")]))
        eventually(lambda: server.application.scopes)
        second = server.ask("GET", "/sse")
        call = server.ask("POST", "/messages/")
        client.settimeout(0.4)
        with pytest.raises(TimeoutError):
            client.recv(1)
    assert (second.status, call.status) == (503, 200)


def test_call_that_takes_too_long(access, caplog):
    """A call over its time is ended, with an answer if none has begun."""
    with serving(call_seconds=0.3, body_seconds=60) as server:
        unanswered = server.ask(headers=[("X-Do", "wait")])
        with server.connect() as client:
            client.sendall(server.request(headers=[("X-Do", "stream")]))
            received = read_to_end(client)

    assert unanswered.status == 503
    assert unanswered.value("retry-after") == "1"
    assert received.startswith(b"HTTP/1.1 200 ")
    assert not received.endswith(b"0\r\n\r\n")
    assert "stream ended" in server.application.events
    assert all('refused="call timed out"' in line for line in access(server))
    assert [" status=503 " in line for line in access(server)] == [True, False]
    assert "Exception in ASGI application" not in caplog.text


@pytest.mark.parametrize("fault", ["crash", "time out"])
def test_application_that_fails(access, caplog, fault):
    """A failure of the application is its own: logged, answered 500, slot freed."""
    with serving(max_calls=1) as server:
        statuses = [server.ask(headers=[("X-Do", fault)]).status for _ in range(2)]

    assert statuses == [500, 500]
    assert all(
        "status=500" in line and "refused" not in line for line in access(server)
    )
    assert "Exception in ASGI application" in caplog.text


def test_rotation():
    """A new token counts from the next request on; a weak one changes nothing."""
    with serving("0.0.0.0", TOKEN, listen_on="localhost") as server:
        server.guard.rotate(OTHER_TOKEN)
        old, new = server.ask(headers=[BEARER]), server.ask(headers=[WRONG])
        with pytest.raises(UnsafeBindingError):
            server.guard.rotate(Secret("short"))
        still = server.ask(headers=[WRONG])

        assert server.guard.policy.token == OTHER_TOKEN
    assert (old.status, new.status, still.status) == (401, 200, 200)


def test_access_lines(access):
    """Each request writes one line: what, how it ended, how long, who; no query."""
    with serving() as server:
        server.ask(path="/mcp/?q=a+private+question")
        server.ask("GET", "/healthz")
        server.ask(host="evil.example")
        server.ask("GET", "/a%0d%0ab%20c%22%1b[31m" + "x" * 500)
        server.ask("X" * 100, "/mcp")
    lines = access(server)

    assert len(lines) == 5
    assert all(ACCESS_LINE.fullmatch(line) for line in lines)
    assert lines[0].startswith("method=POST path=/mcp/ status=200 ")
    assert re.search(r" peer=127\.0\.0\.1:\d+$", lines[0])
    assert lines[2].endswith(
        """refused="Host 'evil.example' is not in RAG_ALLOWED_HOSTS\""""
    )
    assert lines[4].startswith(f"method={'X' * 16} path=/mcp status=405 ")
    assert "path=/a%0D%0Ab%20c%22%1B%5B31mxxx" in lines[3]
    assert all(line.isprintable() and len(line) < 500 for line in lines)
    assert "private" not in "".join(lines)


def test_access_lines_believe_no_proxy(access):
    """The peer of an access line is the one that connected, whatever it claims."""
    claims = [
        ("X-Forwarded-For", "203.0.113.9"),
        ("X-Forwarded-Proto", "https"),
        ("X-Forwarded-Host", "evil.example"),
        ("X-Real-IP", "203.0.113.9"),
        ("Forwarded", "for=203.0.113.9"),
    ]
    with serving() as server:
        answer = server.ask(headers=claims)

    assert answer.status == 200
    assert "peer=127.0.0.1:" in access(server)[0]
    assert "203.0.113.9" not in "".join(access(server))
    assert "forwarded" not in answer.body.decode().lower()


def test_no_log_holds_a_token(access, caplog):
    """A token never reaches a log, right or wrong, and wherever it was put."""
    caplog.set_level(logging.DEBUG)
    right, wrong = "+correct+horse/battery/0123456789==", OTHER_TOKEN.reveal()
    with serving(token=Secret(right)) as server:
        server.ask(headers=[("Authorization", f"Bearer {right}")])
        server.ask(headers=[WRONG])
        server.ask(path=f"/mcp?token={right}")
        server.ask(path=f"/mcp/{right}")
        server.ask(path=f"/{'x' * 190}{right}")
        server.ask(host=right)
        server.ask(host="x" * 70 + right)
        server.ask(headers=[("Origin", f"http://{right}")])
    logged = caplog.text

    assert len(access(server)) == 8
    for secret in (right, wrong):
        assert secret[:8] not in logged
        assert quote(secret[:8], safe="") not in logged
