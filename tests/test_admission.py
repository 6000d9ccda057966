import ipaddress

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from docs_rag.admission import (
    HTTP_ROUTES,
    SSE_ROUTES,
    Head,
    Limits,
    Policy,
    Refusal,
    Route,
    inner_headers,
    judge,
    leaves_body_unread,
)
from docs_rag.errors import UnsafeBindingError
from docs_rag.netguard import decide_binding
from docs_rag.records import Secret

PORT = 8765
TOKEN = Secret("correct-horse-battery-staple-0123456789")
LISTED = ("docs.example.com", "proxy.example:8443", "[2001:db8::1]")

LOOPBACK_HOSTS = [
    "127.0.0.1",
    "127.0.0.1:8765",
    "127.0.0.1.:8765",
    "localhost",
    "localhost:8765",
    "LOCALHOST:8765",
    "LocalHost",
    "localhost.:8765",
    "[::1]",
    "[::1]:8765",
    "[0:0:0:0:0:0:0:1]:8765",
    "[::ffff:127.0.0.1]:8765",
]
LISTED_HOSTS = [
    "docs.example.com",
    "Docs.Example.com.:8765",
    "proxy.example",
    "proxy.example:8443",
    "[2001:DB8:0::1]",
]
BAD_HOSTS = [
    "",
    "evil.example",
    "evil.example:8765",
    "docs.example.com",
    "proxy.example:8443",
    "localhost:8766",
    "localhost:80",
    "localhost:",
    "localhost:08765",
    "localhost:abc",
    "localhost:99999",
    "localhost:8765.evil.com",
    "localhost:8765:8765",
    "localhost.evil.com:8765",
    "localhost..:8765",
    "evil.localhost:8765",
    "127.0.0.1:8765@evil.com",
    "user@127.0.0.1:8765",
    "127.0.0.1.nip.io:8765",
    "127.0.0.2:8765",
    "127.1:8765",
    "2130706433:8765",
    "0x7f.1:8765",
    "0.0.0.0:8765",
    "[::]:8765",
    "[::2]:8765",
    "[::1]evil.example:8765",
    "[::1]:notaport",
    "[::1]:70000",
    "[::1, ::1]:8765",
    "[::1",
    "::1]:8765",
    "::1",
    "[::1%25lo]:8765",
    "127.0.0.1:8765, 127.0.0.1:8765",
    "127.0.0.1 127.0.0.1",
    "http://127.0.0.1:8765",
    "127.0.0.1:8765/mcp",
    "127.0.0.1\x00",
    "127.0.0.1\n",
    "\xb127.0.0.1",
]


def make_policy(host="localhost", token=None, hosts=(), origins=(), **more):
    return Policy(decide_binding(host, token, hosts, origins), PORT, token, **more)


def make_head(method="POST", path="/mcp", local="127.0.0.1", **headers):
    """A head with one good Host; a header may have no value (None) or several."""
    given = {"host": "127.0.0.1:8765"} | headers
    pairs = []
    for name, values in given.items():
        one_or_more = [values] if isinstance(values, str) else values or []
        name = name.replace("_", "-").encode()
        pairs += [(name, value.encode("latin-1")) for value in one_or_more]
    return Head(method, path, tuple(pairs), local)


def status(policy, head):
    verdict = judge(policy, head)
    return verdict.status if isinstance(verdict, Refusal) else 200


MODES = {
    "loopback": make_policy(),
    "loopback with token": make_policy(token=TOKEN),
    "all interfaces": make_policy("0.0.0.0", TOKEN),
    "a name": make_policy("docs.lan", TOKEN),
    "unix": make_policy("unix:/run/docs.sock"),
    "sse": make_policy(routes=SSE_ROUTES),
}
PATHS = ["/mcp", "/mcp/", "/healthz", "/readyz", "/sse", "/messages/", "/unknown"]
PATHS += ["/.well-known/oauth-protected-resource", "/", "*", "http://evil.example/mcp"]


@pytest.mark.parametrize("policy", MODES.values(), ids=MODES.keys())
@pytest.mark.parametrize("host", BAD_HOSTS, ids=ascii)
def test_bad_host(policy, host):
    """A Host that is not this server's is misdirected on every path in every mode."""
    for path in PATHS:
        for method in ("POST", "GET", "OPTIONS", "DELETE"):
            assert status(policy, make_head(method, path, host=host)) == 421


@pytest.mark.parametrize("policy", MODES.values(), ids=MODES.keys())
@pytest.mark.parametrize("host", LOOPBACK_HOSTS)
def test_loopback_host(policy, host):
    """Every spelling of loopback, with our port or none, is this server."""
    assert status(policy, make_head(host=host)) != 421


@pytest.mark.parametrize(
    "host",
    [
        *("localhost", "LOCALHOST.", "127.0.0.1", "127.0.0.2", "127.255.255.254"),
        *("::1", "[::1]", "0:0:0:0:0:0:0:1", "::ffff:127.0.0.1"),
    ],
)
def test_client_may_use_the_very_address_of_the_binding(host):
    """Whoever is allowed to bind a spelling may be called by that spelling."""
    policy = make_policy(host)
    written = f"[{host}]" if ":" in host and "[" not in host else host

    for value in (written, f"{written}:{PORT}", f"{policy.binding.host}:{PORT}"):
        assert status(policy, make_head(host=value)) == 200


def test_two_hosts_or_none():
    """Exactly one Host is asked for, even where two say the same."""
    policy = make_policy()

    assert status(policy, make_head(host=None)) == 421
    assert status(policy, make_head(host=["127.0.0.1:8765"] * 2)) == 421


@pytest.mark.parametrize("host", LISTED_HOSTS)
def test_listed_host(host):
    """A listed name is this server with its own port, ours where it has none."""
    assert status(make_policy(hosts=LISTED), make_head(host=host)) == 200


@pytest.mark.parametrize("host", ["proxy.example:8765", "docs.example.com:8443"])
def test_listed_host_with_another_port(host):
    """A listed name is not this server on a port that is neither listed nor ours."""
    assert status(make_policy(hosts=LISTED), make_head(host=host)) == 421


@pytest.mark.parametrize(
    ("local", "host", "expected"),
    [
        ("192.168.1.20", "192.168.1.20:8765", 200),
        ("192.168.1.20", "192.168.1.20", 200),
        ("::ffff:192.168.1.20", "192.168.1.20:8765", 200),
        ("fe80::1%eth0", "[FE80::1]:8765", 200),
        ("192.168.1.20", "192.168.1.21:8765", 421),
        ("192.168.1.20", "192.168.1.20:80", 421),
        ("192.168.1.20", "docs.lan:8765", 421),
        ("127.0.0.1", "192.168.1.20:8765", 421),
        ("", "192.168.1.20:8765", 421),
    ],
)
def test_address_that_the_connection_came_in_by(local, host, expected):
    """On all interfaces the address of the connection, and no other, is a name."""
    policy = make_policy("0.0.0.0", TOKEN)
    bearer = f"Bearer {TOKEN.reveal()}"
    head = make_head(host=host, local=local, authorization=bearer)

    assert status(policy, head) == expected
    assert status(make_policy(), head) == 421


ACCEPTED_ORIGINS = [
    "http://127.0.0.1:8765",
    "http://localhost:8765",
    "https://localhost:8765",
    "http://[::1]:8765",
    "https://app.example",
    "https://app.example:443",
    "vscode-webview://abc",
    "https://proxy.example:8443",
]
REFUSED_ORIGINS = [
    "",
    "null",
    "http://localhost",
    "https://localhost",
    "http://localhost:3000",
    "http://127.0.0.1:8766",
    "http://evil.example",
    "http://evil.example:8765",
    "http://app.example",
    "https://app.example:8765",
    "https://app.example.evil.example",
    "https://app.example/",
    "http://[::1]evil.example",
    "http://localhost:8765.evil.com",
    "http://localhost:8765@evil.com",
    "http://user@localhost:8765",
    "http://docs.example.com",
    "file://",
    "file://localhost:8765",
    "vscode-webview://xyz",
    "chrome-extension://abcdefgh",
    "ws://localhost:8765",
    "localhost:8765",
    "http://localhost:8765 http://localhost:8765",
    "http://localhost:8765, http://localhost:8765",
]


@pytest.mark.parametrize("origin", ACCEPTED_ORIGINS)
def test_own_or_listed_origin(origin):
    """A page of this server, or of a listed origin, may call."""
    listed = ["https://app.example", "vscode-webview://abc"]
    policy = make_policy(hosts=LISTED, origins=listed)

    assert status(policy, make_head(origin=origin)) == 200


@pytest.mark.parametrize("origin", REFUSED_ORIGINS)
def test_foreign_origin(origin):
    """A page of anyone else may not, on any path and by any method."""
    listed = ["https://app.example", "vscode-webview://abc"]
    policy = make_policy(hosts=LISTED, origins=listed)

    for path in PATHS:
        for method in ("POST", "OPTIONS", "GET"):
            assert status(policy, make_head(method, path, origin=origin)) == 403


def test_two_origins():
    """Two Origin headers are refused, even where both are our own."""
    head = make_head(origin=["http://localhost:8765"] * 2)

    assert status(make_policy(), head) == 403


def test_own_origin_on_the_default_port():
    """Where the port is the scheme's own, browsers leave it out of the origin."""
    policy = Policy(decide_binding("localhost", None), 80)

    assert status(policy, make_head(host="localhost", origin="http://localhost")) == 200


@pytest.mark.parametrize(
    "value",
    ["Bearer TOKEN", "bearer TOKEN", "BEARER TOKEN", "Bearer  TOKEN", "Bearer TOKEN "],
)
def test_right_token(value):
    """The scheme may be in any case, the token is exact."""
    head = make_head(authorization=value.replace("TOKEN", TOKEN.reveal()))

    assert status(make_policy(token=TOKEN), head) == 200


WRONG_TOKENS = [
    "",
    "Bearer",
    "Bearer ",
    "TOKEN",
    "BearerTOKEN",
    "Bearer\tTOKEN",
    "Bearer xTOKEN",
    "Bearer TOKENx",
    "Bearer TOKEN TOKEN",
    "Bearer TOKEN,",
    "Bearer token=TOKEN",
    "Basic TOKEN",
    "Digest TOKEN",
    "Bearer \xe9\xff",
    "Bearer **********",
]


@pytest.mark.parametrize("value", WRONG_TOKENS, ids=ascii)
@pytest.mark.parametrize("mode", ["loopback with token", "all interfaces", "a name"])
def test_wrong_token(mode, value):
    """A wrong token is challenged on every path, and the challenge says so."""
    value = value.replace("TOKEN", TOKEN.reveal())

    for path in ("/mcp", "/mcp/", "/healthz", "/readyz", "/unknown", "/"):
        for method in ("POST", "GET"):
            refusal = judge(MODES[mode], make_head(method, path, authorization=value))
            assert refusal.status == 401
            challenge = 'Bearer realm="docs-rag", error="invalid_token"'
            assert refusal.headers == (("www-authenticate", challenge),)


def test_no_token():
    """Without a token the challenge names the realm and no error."""
    refusal = judge(make_policy(token=TOKEN), make_head())

    assert refusal.status == 401
    assert refusal.headers == (("www-authenticate", 'Bearer realm="docs-rag"'),)


def test_two_tokens():
    """Two Authorization headers are refused, even where both are right."""
    bearer = f"Bearer {TOKEN.reveal()}"

    head = make_head(authorization=[bearer, bearer])
    assert status(make_policy(token=TOKEN), head) == 401


def test_token_is_read_from_its_header_only():
    """A token in the path, a cookie or another header opens nothing."""
    token = TOKEN.reveal()
    head = make_head(
        path=f"/mcp?token={token}",
        cookie=f"authorization=Bearer {token}",
        x_api_key=token,
        proxy_authorization=f"Bearer {token}",
    )

    assert status(make_policy(token=TOKEN), head) == 401


@settings(deadline=None)
@given(st.integers(0, len(TOKEN.reveal()) - 1), st.characters(codec="latin-1"))
def test_token_with_one_character_changed(place, character):
    """A token with any one character changed is wrong."""
    token = TOKEN.reveal()
    assume(character != token[place])
    tampered = token[:place] + character + token[place + 1 :]

    head = make_head(authorization=f"Bearer {tampered}")
    assert status(make_policy(token=TOKEN), head) == 401


@pytest.mark.parametrize(
    "path",
    [
        "/.well-known/oauth-protected-resource",
        "/.well-known/oauth-protected-resource/mcp",
        "/.well-known/oauth-authorization-server",
        "/.well-known/openid-configuration",
        "/register",
        "/authorize",
        "/token",
    ],
)
def test_no_oauth_here(path):
    """A client that looks for OAuth is told at once that there is none."""
    for method in ("GET", "POST"):
        for token in (None, TOKEN):
            refusal = judge(make_policy(token=token), make_head(method, path))
            assert refusal.status == 404
            assert refusal.headers == ()


def test_order_of_the_checks():
    """Host comes before Origin, that before the token, the route and the size."""
    policy = make_policy(token=TOKEN)
    faults = {
        "host": "evil.example",
        "origin": "null",
        "authorization": "Bearer wrong",
        "path": "/unknown",
        "content_length": str(1 << 30),
    }
    right = {
        "host": "localhost",
        "origin": "http://localhost:8765",
        "authorization": f"Bearer {TOKEN.reveal()}",
        "path": "/mcp",
        "content_length": "2",
    }
    statuses = []
    for name in right:
        statuses.append(status(policy, make_head(**faults)))
        faults[name] = right[name]
    statuses.append(status(policy, make_head(**faults)))

    assert statuses == [421, 403, 401, 404, 413, 200]


@pytest.mark.parametrize(
    ("method", "path", "expected", "allow"),
    [
        ("POST", "/mcp", 200, None),
        ("POST", "/mcp/", 200, None),
        ("GET", "/mcp", 405, "POST"),
        ("DELETE", "/mcp/", 405, "POST"),
        ("OPTIONS", "/mcp", 405, "POST"),
        ("PUT", "/mcp", 405, "POST"),
        ("post", "/mcp", 405, "POST"),
        ("GET", "/healthz", 200, None),
        ("HEAD", "/healthz", 200, None),
        ("GET", "/readyz/", 200, None),
        ("POST", "/readyz", 405, "GET, HEAD"),
        ("GET", "/sse", 404, None),
        ("POST", "/messages/", 404, None),
        ("POST", "/", 404, None),
        ("POST", "", 404, None),
        ("POST", "/MCP", 404, None),
        ("POST", "/mcp//", 404, None),
        ("POST", "//mcp", 404, None),
        ("POST", "/mcp/../mcp", 404, None),
        ("POST", "/mcp/x", 404, None),
        ("POST", "/mcpx", 404, None),
        ("OPTIONS", "*", 404, None),
    ],
)
def test_routes(method, path, expected, allow):
    """A route answers its methods, with and without a slash, and nothing else does."""
    verdict = judge(make_policy(), make_head(method, path))

    if expected == 200:
        assert isinstance(verdict, Route)
        assert verdict.path == path.removesuffix("/")
    else:
        assert verdict.status == expected
        assert dict(verdict.headers).get("allow") == allow


def test_sse_routes():
    """In SSE mode the two paths of that transport exist, and /mcp does not."""
    policy = make_policy(routes=SSE_ROUTES)
    found = {
        (method, path): status(policy, make_head(method, path))
        for method, path in [
            ("GET", "/sse"),
            ("GET", "/sse/"),
            ("POST", "/messages/"),
            ("POST", "/messages"),
            ("POST", "/sse"),
            ("GET", "/messages/"),
            ("POST", "/mcp"),
        ]
    }

    assert list(found.values()) == [200, 200, 200, 200, 405, 405, 404]
    assert judge(policy, make_head("POST", "/messages")).path == "/messages/"


def test_websocket_upgrade():
    """An upgrade to WebSocket is refused where another upgrade is just not taken."""
    policy = make_policy()

    assert status(policy, make_head("GET", "/healthz", upgrade="WebSocket")) == 403
    assert status(policy, make_head(upgrade="h2c")) == 200


@pytest.mark.parametrize(
    ("lengths", "expected"),
    [
        (None, 200),
        ("0", 200),
        ("1048576", 200),
        ("1048577", 413),
        (str(50 << 20), 413),
        ("9" * 19, 413),
        ("9" * 20, 400),
        ("9" * 5000, 400),
        ("-1", 400),
        ("+5", 400),
        ("5, 5", 400),
        ("5, 6", 400),
        ("0x10", 400),
        ("", 400),
        ("٥".encode().decode("latin-1"), 400),
        (["5", "5"], 400),
        (["5", "6"], 400),
    ],
)
def test_declared_length(lengths, expected):
    """A length is one decimal number within the limit; the rest ends the connection."""
    head = make_head(content_length=lengths)
    verdict = judge(make_policy(), head)

    assert status(make_policy(), head) == expected
    assert expected == 200 or verdict.closes


def test_length_and_chunks():
    """A body framed in two ways is refused: two readers might see two requests."""
    head = make_head(content_length="5", transfer_encoding="chunked")

    assert status(make_policy(), head) == 400
    assert status(make_policy(), make_head(transfer_encoding=["chunked"] * 2)) == 400


def test_large_head():
    """A head over the limit is refused though it arrived whole."""
    head = Head("POST", "/mcp", make_head().headers, size_bytes=16_385)

    assert status(make_policy(), head) == 431


@pytest.mark.parametrize(
    ("headers", "unread"),
    [
        ({}, False),
        ({"content_length": "0"}, False),
        ({"content_length": "1048576"}, False),
        ({"content_length": "1048577"}, True),
        ({"content_length": "junk"}, True),
        ({"transfer_encoding": "chunked"}, True),
        ({"content_length": "5", "expect": "100-continue"}, True),
    ],
)
def test_what_is_worth_skipping(headers, unread):
    """After a refusal only a small body of known length is worth to be skipped."""
    assert unread is leaves_body_unread(make_head(**headers), Limits())


def test_inner_headers():
    """The application sees one Host and Origin, no token, and no hop's claims."""
    policy = make_policy(hosts=["docs.example.com"])
    head = make_head(
        host="docs.example.com",
        origin="http://localhost:8765",
        authorization="Bearer secret",
        forwarded="for=10.0.0.1",
        x_forwarded_for="10.0.0.1",
        x_forwarded_host="evil.example",
        x_forwarded_proto="https",
        accept="application/json",
        traceparent="00-1-2-03",
    )

    assert dict(inner_headers(policy, head)) == {
        b"host": b"127.0.0.1:8765",
        b"origin": b"http://127.0.0.1:8765",
        b"accept": b"application/json",
        b"traceparent": b"00-1-2-03",
    }
    assert b"origin" not in dict(inner_headers(policy, make_head()))


def test_inner_names():
    """What the application is told to answer to is what it will be called."""
    policy = make_policy()

    assert policy.inner_host == "127.0.0.1:8765"
    assert policy.inner_origin == "http://127.0.0.1:8765"


def test_no_unsafe_policy():
    """A policy cannot lose the token that its binding needs, or get a weak one."""
    binding = decide_binding("0.0.0.0", TOKEN)

    with pytest.raises(UnsafeBindingError, match="other machines"):
        Policy(binding, PORT, None)
    with pytest.raises(UnsafeBindingError, match="shorter than 32"):
        Policy(binding, PORT, TOKEN).with_token(Secret("short"))


def test_refusals_do_not_show_what_they_refuse():
    """What a client sent comes back neither to him nor unescaped into the log."""
    policy = make_policy(token=TOKEN)
    noise = "evil\r\nSet-Cookie: a=b\x1b[31m\xe9"
    heads = [
        make_head(host=noise),
        make_head(origin=noise),
        make_head(authorization=noise),
        make_head(path=noise, authorization=f"Bearer {TOKEN.reveal()}"),
    ]
    for refusal in (judge(policy, head) for head in heads):
        assert "evil" not in refusal.message
        assert refusal.detail.isprintable() and refusal.detail.isascii()
        assert len(refusal.detail) < 200
        assert all("evil" not in value for _, value in refusal.headers)


ALLOWED_SPELLINGS = [
    "127.0.0.1:8765",
    "localhost:8765",
    "[::1]:8765",
    "docs.example.com",
    "proxy.example:8443",
    "[2001:db8::1]:8765",
]
LISTED_PORTS = {
    "127.0.0.1": PORT,
    "localhost": PORT,
    "::1": PORT,
    "docs.example.com": PORT,
    "proxy.example": 8443,
    "2001:db8::1": PORT,
}


def means_a_listed_host(value):
    """The rule in other words: what a lenient reader would connect to is listed."""
    host, port = value, None
    if value.rpartition(":")[2].isdigit() and not value.endswith("]"):
        host, _, port = value.rpartition(":")
    host = host.lower().removesuffix(".").removeprefix("[").removesuffix("]")
    if ":" in host:
        address = ipaddress.ip_address(host)
        host = str(getattr(address, "ipv4_mapped", None) or address)
    listed = LISTED_PORTS.get(host)
    return listed is not None and (port is None or int(port) == listed)


@settings(deadline=None)
@given(
    st.sampled_from(ALLOWED_SPELLINGS),
    st.integers(0, 24),
    st.integers(0, 3),
    st.text(st.characters(codec="latin-1"), min_size=1, max_size=12)
    | st.text(st.sampled_from("0123456789abcdef.:[]@/-_ ,lochst"), max_size=12),
)
def test_tampered_host(spelling, place, removed, inserted):
    """A Host that was tampered with is refused unless it still means a listed one."""
    policy = make_policy(hosts=LISTED)
    tampered = spelling[:place] + inserted + spelling[place + removed :]

    if status(policy, make_head(host=tampered)) != 421:
        assert means_a_listed_host(tampered)


@settings(deadline=None)
@given(st.sampled_from(ALLOWED_SPELLINGS), st.characters(codec="latin-1"))
def test_host_with_one_character_more(spelling, character):
    """One more character at the end makes another host, unless it is the final dot."""
    policy = make_policy(hosts=LISTED)
    assume(spelling + character != "docs.example.com.")

    assert status(policy, make_head(host=spelling + character)) == 421


@settings(deadline=None)
@given(
    st.sampled_from(["http://localhost:8765", "http://[::1]:8765"]),
    st.integers(0, 21),
    st.text(st.characters(codec="latin-1"), min_size=1, max_size=8),
)
def test_tampered_origin(origin, place, inserted):
    """An Origin that was tampered with is refused unless a page of ours has it."""
    tampered = origin[:place] + inserted + origin[place:]

    if status(make_policy(), make_head(origin=tampered)) != 403:
        scheme, _, value = tampered.partition("://")
        assert scheme.lower() in ("http", "https")
        assert means_a_listed_host(value)
        assert value.endswith(":8765")


@settings(deadline=None)
@given(st.lists(st.tuples(st.binary(max_size=12), st.binary(max_size=30)), max_size=5))
def test_any_head_gets_a_verdict(headers):
    """Any headers get a verdict, and never an error."""
    base = make_head().headers
    for policy in MODES.values():
        verdict = judge(policy, Head("POST", "/mcp", (*base, *headers), "127.0.0.1"))
        assert isinstance(verdict, Route | Refusal)


def test_routes_are_disjoint():
    """No path belongs to two routes."""
    for routes in (HTTP_ROUTES, SSE_ROUTES):
        spellings = [
            spelling
            for route in routes
            for spelling in {route.path.rstrip("/"), route.path.rstrip("/") + "/"}
        ]
        assert len(spellings) == len(set(spellings))
