import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docs_rag.authority import Authority, parse_authority, parse_origin
from docs_rag.errors import EXIT_REFUSED, EXIT_USAGE, ConfigError, UnsafeBindingError
from docs_rag.netguard import Exposure, decide_binding, preflight
from docs_rag.records import Secret

GOOD = Secret("correct-horse-battery-staple-0123456789")
WEAK_TOKENS = {
    "short": "short-but-secret",
    "31 characters": "x" * 31,
    "empty": "",
    "blank": " \t ",
    "40 blanks": " " * 40,
    "space inside": "correct horse battery staple 0123456789",
    "newline at the end": "correct-horse-battery-staple-0123456789\n",
    "control": "correct-horse-battery-staple-\x00-0123456789",
    "non-ASCII": "correct-horse-battery-stäple-0123456789",
    "no-break space": "correct-horse-battery\u00a0staple-0123456789",
}

LOOPBACK = {
    "127.0.0.1": ("127.0.0.1",),
    "127.0.0.2": ("127.0.0.2",),
    "127.255.255.254": ("127.255.255.254",),
    "localhost": ("127.0.0.1", "::1"),
    "LocalHost": ("127.0.0.1", "::1"),
    "localhost.": ("127.0.0.1", "::1"),
    "::1": ("::1",),
    "[::1]": ("::1",),
    "0:0:0:0:0:0:0:1": ("::1",),
    "::ffff:127.0.0.1": ("127.0.0.1",),
    "[::ffff:7f00:1]": ("127.0.0.1",),
}
EXPOSED = {
    "0.0.0.0": ("0.0.0.0",),
    "::": ("::",),
    "[::]": ("::",),
    "::ffff:0.0.0.0": ("0.0.0.0",),
    "192.168.1.20": ("192.168.1.20",),
    "10.0.0.1": ("10.0.0.1",),
    "128.0.0.1": ("128.0.0.1",),
    "169.254.1.1": ("169.254.1.1",),
    "fd00::2": ("fd00::2",),
    "::ffff:192.168.1.20": ("192.168.1.20",),
    "::127.0.0.1": ("::7f00:1",),
    "docs.example.com": ("docs.example.com",),
    "localhost.evil.com": ("localhost.evil.com",),
    "evil.localhost": ("evil.localhost",),
    "127.0.0.1.nip.io": ("127.0.0.1.nip.io",),
    "ip6-localhost": ("ip6-localhost",),
}
NEVER = [
    "",
    " ",
    "\t\n",
    " 127.0.0.1",
    "127.0.0.1 ",
    "127.0.0.1\n",
    "*",
    "*.example.com",
    "127.1",
    "0",
    "2130706433",
    "0x7f000001",
    "0177.0.0.1",
    "127.0.0.256",
    "localhost:8765",
    "[::1]:8765",
    "http://localhost",
    "localhost,0.0.0.0",
    "::1%lo",
    "fe80::1%eth0",
    ":::",
    "[::1",
    "bücher.example",
    "localhoſt",
    "unix:",
    "unix:relative.sock",
    "unix:@abstract",
    "unix:/run/a\nb.sock",
    "unix:/" + "x" * 103,
    "UNIX:/run/docs.sock",
    "/run/docs.sock",
]


@pytest.mark.parametrize("token", [None, GOOD], ids=["no token", "good token"])
@pytest.mark.parametrize("host", LOOPBACK)
def test_loopback_needs_no_token(host, token):
    """Every spelling of loopback is allowed, with and without a token."""
    binding = decide_binding(host, token)

    assert Exposure.LOOPBACK is binding.exposure
    assert LOOPBACK[host] == binding.addresses
    assert binding.unix_path is None


@pytest.mark.parametrize("host", EXPOSED)
def test_exposed_needs_a_token(host):
    """Everything else is refused without a token, and allowed with a good one."""
    binding = decide_binding(host, GOOD)

    assert Exposure.EXPOSED is binding.exposure
    assert EXPOSED[host] == binding.addresses
    with pytest.raises(UnsafeBindingError) as refusal:
        decide_binding(host, None)
    message = str(refusal.value)
    assert repr(host) in message
    assert "other machines may reach it" in message
    assert "RAG_HOST=127.0.0.1" in message
    assert "RAG_AUTH_TOKEN" in message
    assert "\n" not in message
    assert refusal.value.exit_code == EXIT_REFUSED


@pytest.mark.parametrize("token", [None, GOOD], ids=["no token", "good token"])
@pytest.mark.parametrize("host", NEVER, ids=ascii)
def test_never_a_host(host, token):
    """What is blank or no address is refused whatever the token, and is named."""
    with pytest.raises(UnsafeBindingError) as refusal:
        decide_binding(host, token)

    message = str(refusal.value)
    assert ascii(host[:80])[:-1] in message
    assert "127.0.0.1" in message
    assert message.isprintable()


def test_long_values_are_cut():
    """A message stays short however long the value is that it names."""
    with pytest.raises(UnsafeBindingError) as refusal:
        decide_binding("x" * 10_000, GOOD)

    assert len(str(refusal.value)) < 500


@pytest.mark.parametrize("host", ["", "  "])
def test_blank_host_offers_both_meanings(host):
    """A blank host is asked to say which of its two meanings it has."""
    with pytest.raises(UnsafeBindingError, match=r"say 127\.0\.0\.1 .* or 0\.0\.0\.0"):
        decide_binding(host, GOOD)


@pytest.mark.parametrize("text", WEAK_TOKENS.values(), ids=WEAK_TOKENS.keys())
@pytest.mark.parametrize(
    "host", ["127.0.0.1", "::1", "localhost", "unix:/run/d.sock", *EXPOSED]
)
def test_weak_token(host, text):
    """A weak token is refused on every host, loopback included, and never shown."""
    with pytest.raises(UnsafeBindingError) as refusal:
        decide_binding(host, Secret(text))

    message = str(refusal.value)
    assert "RAG_AUTH_TOKEN" in message
    assert "secrets.token_urlsafe" in message
    assert not text.strip() or text.strip() not in message
    assert message.isprintable()


def test_shortest_good_token():
    """Thirty-two visible characters are enough."""
    assert decide_binding("0.0.0.0", Secret("~!" * 16)).addresses == ("0.0.0.0",)


@pytest.mark.parametrize("token", [None, GOOD], ids=["no token", "good token"])
def test_unix_socket_counts_as_loopback(token):
    """A unix socket needs no token, and answers to the names of loopback only."""
    binding = decide_binding("unix:/run/docs rag.sock", token)

    assert Exposure.UNIX_SOCKET is binding.exposure
    assert binding.unix_path == "/run/docs rag.sock"
    assert binding.addresses == ()
    names = {"127.0.0.1", "localhost", "[::1]"}
    assert names == {str(name) for name in binding.names}


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_wildcard_is_no_name(host):
    """No client may call the server by the wildcard it listens on."""
    names = {name.host for name in decide_binding(host, GOOD).names}

    assert {"127.0.0.1", "localhost", "[::1]"} == names


def test_listed_names():
    """The names and origins listed are added to those of the binding."""
    binding = decide_binding(
        "192.168.1.20",
        GOOD,
        ["Docs.Example.com.", "proxy.example:8443", "[2001:DB8::1]"],
        ["https://Docs.Example.com", "vscode-webview://abc"],
    )

    listed = {"docs.example.com", "proxy.example:8443", "[2001:db8::1]"}
    assert listed < {str(name) for name in binding.names}
    assert Authority("192.168.1.20") in binding.names
    origins = {"https://docs.example.com:443", "vscode-webview://abc"}
    assert origins == {str(origin) for origin in binding.origins}


@pytest.mark.parametrize(
    "entry",
    [
        *("", " ", "*", "*.example.com", "localhost:*", "http://docs.example.com"),
        *("docs.example.com/", " docs.example.com", "a b", "a,b", "0.0.0.0", "[::]"),
        *("a:0", "bücher.example", "a\nb", "x" * 200),
    ],
    ids=ascii,
)
def test_bad_allowed_host(entry):
    """A listed host that is not one host is an error that names the entry."""
    with pytest.raises(ConfigError) as refusal:
        decide_binding("127.0.0.1", None, ["docs.example.com", entry])

    assert "RAG_ALLOWED_HOSTS" in str(refusal.value)
    assert ascii(entry[:80])[:-1] in str(refusal.value)
    assert str(refusal.value).isprintable()
    assert refusal.value.exit_code == EXIT_USAGE


@pytest.mark.parametrize(
    "entry",
    [
        *("", "*", "null", "docs.example.com", "https://*.example.com"),
        *("http://0.0.0.0", "https://docs.example.com/", "https://a b"),
        "https://a,https://b",
    ],
)
def test_bad_allowed_origin(entry):
    """A listed origin that is not one origin is an error that names the entry."""
    with pytest.raises(ConfigError) as refusal:
        decide_binding("127.0.0.1", None, [], ["https://docs.example.com", entry])

    assert "RAG_ALLOWED_ORIGINS" in str(refusal.value)
    assert ascii(entry) in str(refusal.value)


@settings(deadline=None)
@given(st.text(max_size=30))
def test_any_host_without_a_token_is_loopback_or_refused(host):
    """Whatever the host says, without a token it is local or it is refused."""
    try:
        binding = decide_binding(host, None)
    except UnsafeBindingError:
        return

    assert binding.exposure is not Exposure.EXPOSED


@settings(deadline=None)
@given(
    st.text(st.sampled_from("0123456789abcdef.:[]xlochst"), max_size=24),
    st.sampled_from(sorted(LOOPBACK)),
    st.integers(0, 16),
)
def test_tampered_loopback_stays_on_loopback(noise, host, place):
    """A loopback host with anything put in is an address of loopback or refused."""
    try:
        binding = decide_binding(host[:place] + noise + host[place:], None)
    except UnsafeBindingError:
        return

    for address in binding.addresses:
        assert address == "::1" or address.startswith("127.")


@settings(deadline=None)
@given(st.text(string.printable, max_size=60))
def test_any_token_is_strong_or_refused(text):
    """A token that is accepted is long enough and made of visible characters."""
    try:
        decide_binding("0.0.0.0", Secret(text))
    except UnsafeBindingError as error:
        assert len(text.strip()) < 8 or text not in str(error)
        return

    assert len(text) >= 32
    assert text.isascii() and text.isprintable() and " " not in text


@settings(deadline=None)
@given(st.text(max_size=30))
def test_any_listed_entry_is_parsed_or_refused(entry):
    """A list entry is exactly what the parser reads, or an error."""
    try:
        binding = decide_binding("127.0.0.1", None, [entry])
    except ConfigError:
        return

    assert parse_authority(entry) in binding.names
    assert parse_origin(f"http://{entry}") is not None


def test_preflight_accepts():
    """The preflight says where the server would listen and to what it would answer."""
    ok, text = preflight(
        "localhost", 8765, GOOD, ["docs.example.com"], ["https://docs.example.com"]
    )

    assert ok
    assert text.splitlines() == [
        "listens on: 127.0.0.1 port 8765 and ::1 port 8765"
        " (only this machine can reach it)",
        "token: asked of every request",
        "answers to Host: 127.0.0.1, [::1], docs.example.com, localhost",
        "answers to Origin: its own, https://docs.example.com:443, or none sent",
    ]


def test_preflight_names_the_unix_socket():
    """The preflight of a unix socket shows the file and no port."""
    ok, text = preflight("unix:/run/docs.sock", 8765, None)

    assert ok
    assert "listens on: /run/docs.sock (only this user can reach it; no token" in text
    assert "8765" not in text


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("0.0.0.0", 8765, None), "other machines may reach it"),
        (("127.0.0.1", 8765, Secret("too-short-secret")), "is shorter than 32"),
        (("127.0.0.1", 8765, None, ["*"]), "RAG_ALLOWED_HOSTS holds '*'"),
        (("127.0.0.1", 8765, None, [], ["null"]), "RAG_ALLOWED_ORIGINS holds 'null'"),
    ],
)
def test_preflight_refuses(arguments, reason):
    """The preflight gives the reason of a refusal in one line, without the token."""
    ok, text = preflight(*arguments)

    assert not ok
    assert text.startswith("refused: ")
    assert reason in text
    assert "too-short-secret" not in text
    assert "\n" not in text


def test_preflight_never_shows_the_token():
    """No text of the preflight holds the token."""
    assert GOOD.reveal() not in preflight("0.0.0.0", 8765, GOOD)[1]
