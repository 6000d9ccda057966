import socket

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docs_rag.authority import (
    Authority,
    Origin,
    address_host,
    canonical_host,
    parse_authority,
    parse_origin,
)

CANONICAL = [
    ("127.0.0.1", "127.0.0.1"),
    ("127.0.0.1.", "127.0.0.1"),
    ("localhost", "localhost"),
    ("LOCALHOST", "localhost"),
    ("localhost.", "localhost"),
    ("docs.Example.com", "docs.example.com"),
    ("my_service", "my_service"),
    ("xn--bcher-kva.example", "xn--bcher-kva.example"),
    ("[::1]", "[::1]"),
    ("[0:0:0:0:0:0:0:1]", "[::1]"),
    ("[2001:DB8::00A]", "[2001:db8::a]"),
    ("[::ffff:127.0.0.1]", "127.0.0.1"),
    ("[::ffff:7f00:1]", "127.0.0.1"),
    ("a" * 63 + ".example", "a" * 63 + ".example"),
]

NOT_A_HOST = [
    "",
    ".",
    "..",
    "localhost..",
    ".localhost",
    "a..b",
    "-a",
    "a-",
    "a" * 64,
    "a." * 127 + "a",
    "127.1",
    "0x7f.0.0.1",
    "0177.0.0.1",
    "2130706433",
    "256.0.0.1",
    "127.0.0.1.1",
    "example.0x",
    "::1",
    "[::1",
    "::1]",
    "[]",
    "[127.0.0.1]",
    "[::1%lo]",
    "[::1]evil.example",
    "[::1].",
    "user@localhost",
    "local host",
    " localhost",
    "localhost\n",
    "localhost\x00",
    "localhoſt",
    "\u212a.example",
    "bücher.example",
    "*",
    "*.example.com",
    "a,b",
    "a/b",
    "a%2eb",
]


@pytest.mark.parametrize(("spelling", "host"), CANONICAL)
def test_canonical_host(spelling, host):
    """Every spelling of a host has the one canonical spelling, which is its own."""
    assert host == canonical_host(spelling)
    assert host == canonical_host(host)


@pytest.mark.parametrize("text", NOT_A_HOST, ids=ascii)
def test_not_a_host(text):
    """What is not plainly a host is none, alone, with a port or in an origin."""
    assert canonical_host(text) is None
    assert parse_authority(text) is None
    assert parse_authority(f"{text}:80") is None
    assert parse_origin(f"http://{text}") is None


@pytest.mark.parametrize(
    ("value", "authority"),
    [
        ("localhost", Authority("localhost")),
        ("LocalHost.:8765", Authority("localhost", 8765)),
        ("[::1]:65535", Authority("[::1]", 65535)),
        ("127.0.0.1:1", Authority("127.0.0.1", 1)),
    ],
)
def test_authority(value, authority):
    """A host may be followed by one port."""
    assert authority == parse_authority(value)
    assert authority == parse_authority(str(authority))


@pytest.mark.parametrize(
    "port",
    [
        *("", "0", "08765", "65536", "70000", "99999", "123456", "+80", "-1", "abc"),
        *("80:80", "80 ", " 80", "8O", "٨٠", "80@evil.example", "80.evil.example"),
    ],
    ids=ascii,
)
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]"])
def test_not_a_port(host, port):
    """A port is decimal, without sign or leading zero, and from 1 to 65535."""
    assert parse_authority(f"{host}:{port}") is None


@pytest.mark.parametrize(
    ("value", "origin"),
    [
        ("http://localhost", Origin("http", Authority("localhost", 80))),
        ("HTTPS://Docs.Example", Origin("https", Authority("docs.example", 443))),
        ("http://[::1]:8765", Origin("http", Authority("[::1]", 8765))),
        ("vscode-webview://abc", Origin("vscode-webview", Authority("abc"))),
    ],
)
def test_origin(value, origin):
    """An origin has a scheme, a host and a port, which http and https imply."""
    assert origin == parse_origin(value)
    assert origin == parse_origin(str(origin))


@pytest.mark.parametrize(
    "value",
    [
        *("", "null", "localhost", "//localhost", "://localhost", "http:localhost"),
        *("http://", "http://localhost/", "http://localhost/path", "file://"),
        *("http://a@localhost", "http://localhost?q", "http://localhost#f"),
        *("http://localhost http://localhost", "http://localhost,http://localhost"),
        *("http://*", "http://localhost:*", " http://localhost", "http://localhost\n"),
    ],
    ids=ascii,
)
def test_not_an_origin(value):
    """An origin has no path, no user, no wildcard, and there is one of it."""
    assert parse_origin(value) is None


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::1", "[::1]"),
        ("fe80::1%eth0", "[fe80::1]"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("", None),
        ("/run/docs.sock", None),
    ],
)
def test_address_host(address, host):
    """The address of a socket has the host spelling that a client would use."""
    assert host == address_host(address)


@settings(deadline=None)
@given(st.ip_addresses(v=6))
def test_ipv6_spellings_agree(address):
    """Two spellings of an IPv6 address are equal, two addresses are not."""
    short, long = f"[{address.compressed}]", f"[{address.exploded.upper()}]"
    neighbour = f"[{type(address)(int(address) ^ 1)}]"

    assert canonical_host(short) == canonical_host(long)
    assert canonical_host(short) != canonical_host(neighbour)


@settings(deadline=None)
@given(st.text(st.characters(codec="latin-1"), max_size=40))
def test_any_text_is_parsed_or_refused(text):
    """Any header value yields a canonical authority or None, and never an error."""
    authority = parse_authority(text)

    if authority is not None:
        assert authority == parse_authority(str(authority))
        assert str(authority).isascii()


@settings(deadline=None)
@given(st.from_regex(r"\[[0-9a-fA-F:.]{2,45}\](:[0-9]{1,6})?", fullmatch=True))
def test_ipv6_is_what_the_system_says(text):
    """A bracketed host is accepted only if the operating system reads it as IPv6."""
    authority = parse_authority(text)

    if authority is not None:
        socket.inet_pton(socket.AF_INET6, text[1 : text.index("]")])
