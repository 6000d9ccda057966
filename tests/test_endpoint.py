"""Tests of a request to an embedding endpoint, against a server on loopback."""

import contextlib
import logging
import socket
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from fake_endpoint import Answer, Call, FakeEndpoint, fake_endpoint, healthy

from docs_rag.endpoint import (
    LONGEST_WAIT_SECONDS,
    PATIENCE,
    Endpoint,
    EndpointError,
    Pace,
    Patience,
    embeddings_url,
    is_loopback,
    retry_after_seconds,
)
from docs_rag.errors import ConfigError
from docs_rag.records import Purpose, Secret
from docs_rag.replies import Reply

KEY = "sk-a/Very_Secret+Key=="
PASSAGE = PATIENCE[Purpose.PASSAGE]
QUERY = PATIENCE[Purpose.QUERY]


class Clock:
    """A clock that only sleeping moves, and dice that always fall the same."""

    def __init__(self) -> None:
        self.now = 0.0
        self.waits: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds

    @property
    def pace(self) -> Pace:
        return Pace(self.sleep, lambda: self.now, lambda: 1.0)


@pytest.fixture
def server() -> Iterator[FakeEndpoint]:
    with fake_endpoint() as endpoint:
        yield endpoint


@pytest.fixture
def clock() -> Clock:
    return Clock()


@contextlib.contextmanager
def connected(base_url: str, clock: Clock) -> Iterator[Endpoint]:
    endpoint = Endpoint(base_url, "some-model", Secret(KEY), clock.pace)
    try:
        yield endpoint
    finally:
        endpoint.close()


def ask(server: FakeEndpoint, clock: Clock, patience: Patience = PASSAGE) -> Reply:
    with connected(server.base_url, clock) as endpoint:
        return endpoint.ask(["one", "two"], patience)


def test_a_request_is_what_every_compatible_server_expects(
    server: FakeEndpoint, clock: Clock
) -> None:
    """Path, model, inputs and key go where the API puts them."""
    reply = ask(server, clock)

    (call,) = server.calls
    assert (call.path, call.model, call.texts) == (
        "/v1/embeddings",
        "some-model",
        ["one", "two"],
    )
    assert call.headers["Authorization"] == f"Bearer {KEY}"
    assert reply.rows.shape == (2, 64)
    assert reply.tokens == 2


def test_without_a_key_no_authorization_is_sent(server: FakeEndpoint) -> None:
    """A local server without a key is not sent an empty one."""
    endpoint = Endpoint(server.base_url, "m", Secret(""))
    endpoint.ask(["one"], PASSAGE)
    endpoint.close()

    assert "Authorization" not in server.calls[0].headers


@pytest.mark.parametrize("status", [408, 429, 502, 503, 504, 529])
def test_a_passing_failure_is_tried_again(
    server: FakeEndpoint, clock: Clock, status: int
) -> None:
    """Two failures and then an answer are an answer; the waits double."""
    server.answer_in_turn(Answer("busy", status), Answer("busy", status))

    assert ask(server, clock).rows.shape == (2, 64)
    assert len(server.calls) == 3
    assert clock.waits == [0.5, 1.0]


@pytest.mark.parametrize(("status", "calls"), [(429, 5), (503, 5), (500, 3), (501, 1)])
def test_a_lasting_failure_ends(
    server: FakeEndpoint, clock: Clock, status: int, calls: int
) -> None:
    """Tries are bounded, and the message says how many there were."""
    server.rule = lambda call: Answer({"error": "boom"}, status)

    with pytest.raises(EndpointError, match=f"answered {status}: boom") as caught:
        ask(server, clock)

    assert len(server.calls) == calls
    assert caught.value.status == status
    assert calls == 1 or f"({calls} tries)" in str(caught.value)


@pytest.mark.parametrize(
    ("status", "hint"),
    [
        (400, "EMBED_MODEL"),
        (401, "LMSTUDIO_API_KEY"),
        (403, "LMSTUDIO_API_KEY"),
        (404, "LMSTUDIO_BASE_URL"),
        (418, "log of the server"),
    ],
)
def test_a_refusal_fails_at_once_and_says_what_to_check(
    server: FakeEndpoint, clock: Clock, status: int, hint: str
) -> None:
    """What repeating cannot mend is not repeated; address and model are named."""
    server.rule = lambda call: Answer({"error": {"message": "no"}}, status)

    with pytest.raises(EndpointError, match=f"answered {status}") as caught:
        ask(server, clock)

    assert len(server.calls) == 1
    assert clock.waits == []
    for part in (server.base_url, "some-model", hint):
        assert part in str(caught.value)
    assert "\n" not in str(caught.value)


def test_retry_after_is_honoured(server: FakeEndpoint, clock: Clock) -> None:
    """The server's wish is granted, up to a minute a time, however long it asks."""
    server.answer_in_turn(
        Answer("busy", 429, {"Retry-After": "7"}),
        Answer("busy", 503, {"Retry-After": "3600"}),
    )

    ask(server, clock)

    assert clock.waits == [7, LONGEST_WAIT_SECONDS]


def test_all_waiting_together_is_bounded(server: FakeEndpoint, clock: Clock) -> None:
    """A server that keeps asking for minutes is given up within the total."""
    server.rule = lambda call: Answer("busy", 429, {"Retry-After": "3600"})
    patience = Patience(tries=50, read_seconds=120, total_seconds=300)

    with pytest.raises(EndpointError, match="answered 429"):
        ask(server, clock, patience)

    assert sum(clock.waits) <= 300


def test_a_query_does_not_wait_for_long(server: FakeEndpoint, clock: Clock) -> None:
    """For a query a wait of a minute is an answer: there is none to be had now."""
    server.rule = lambda call: Answer("busy", 429, {"Retry-After": "60"})

    with pytest.raises(EndpointError):
        ask(server, clock, QUERY)

    assert clock.waits == []
    assert QUERY.total_seconds <= 10


NOON = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, 0),
        ({"retry-after": "3"}, 3),
        ({"retry-after": "-3"}, 0),
        ({"retry-after": "soon"}, 0),
        ({"retry-after": "٣"}, 0),
        ({"retry-after": "9" * 500}, 999_999_999),
        (
            {
                "date": "Sun, 01 Mar 2026 12:00:00 GMT",
                "retry-after": "Sun, 01 Mar 2026 12:00:09 GMT",
            },
            9,
        ),
        (
            {
                "date": "Sun, 01 Mar 2026 12:00:00 GMT",
                "retry-after": "Sun, 01 Mar 2026 11:00:00 -0000",
            },
            0,
        ),
    ],
)
def test_retry_after_is_read_in_both_forms(
    headers: dict[str, str], seconds: float
) -> None:
    """Seconds or a date by the server's clock; anything else is no wish."""
    assert retry_after_seconds(headers) == seconds


def test_a_date_without_the_servers_clock_is_read_by_ours() -> None:
    """Where the server does not tell its time, this machine's has to do."""
    due = (datetime.now(UTC) + timedelta(seconds=30)).strftime(
        "%a, %d %b %Y %H:%M:%S GMT"
    )

    assert 20 < retry_after_seconds({"retry-after": due}) <= 30


def test_a_refused_connection_is_tried_again_and_named(clock: Clock) -> None:
    """A server that is not running costs a few seconds and a message that says so."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with (
        connected(f"http://127.0.0.1:{port}/v1", clock) as endpoint,
        pytest.raises(EndpointError, match="start the server") as caught,
    ):
        endpoint.ask(["one"], PASSAGE)

    assert clock.waits == [0.5, 1.0, 2.0, 4.0]
    assert caught.value.status is None


def test_a_server_that_hangs_is_given_up(server: FakeEndpoint) -> None:
    """No answer within the patience is an error, not an endless wait."""

    def hang(call: Call) -> Answer:
        server.stopping.wait(30)
        return healthy(call)

    server.rule = hang
    endpoint = Endpoint(server.base_url, "m", Secret(""))
    with pytest.raises(EndpointError, match="did not answer in time"):
        endpoint.ask(["one"], Patience(tries=2, read_seconds=0.2, total_seconds=0.5))
    endpoint.close()


@contextlib.contextmanager
def raw_server(
    *parts: bytes, pause_seconds: float = 0.0, connections: int = 1
) -> Iterator[str]:
    """Answer a few connections by sending ``parts`` one after the other."""
    stop = threading.Event()

    def serve() -> None:
        for _ in range(connections):
            connection, _ = listener.accept()
            with connection, contextlib.suppress(OSError):
                connection.recv(65_536)
                for part in parts:
                    connection.sendall(part)
                    stop.wait(pause_seconds)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        finally:
            stop.set()
            thread.join()


def test_an_answer_that_trickles_is_given_up() -> None:
    """A byte now and then does not keep a request alive past its patience."""
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n"
    with raw_server(head, *[b" "] * 200, pause_seconds=0.05) as url:
        endpoint = Endpoint(url, "m", Secret(""))
        with pytest.raises(EndpointError, match="in time"):
            endpoint.ask(["one"], Patience(1, read_seconds=5, total_seconds=0.4))
        endpoint.close()


def test_an_answer_that_breaks_off_is_tried_again() -> None:
    """A connection that ends in the middle of an answer is a passing failure."""
    clock = Clock()
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n"
    with (
        raw_server(head, connections=2) as url,
        connected(url, clock) as endpoint,
        pytest.raises(EndpointError, match=r"cannot reach .*\(2 tries\)"),
    ):
        endpoint.ask(["one"], Patience(2, read_seconds=5, total_seconds=9))

    assert clock.waits == [0.5]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Answer(b"<html>login</html>"), "not JSON"),
        (Answer({"error": "Unexpected endpoint"}), "Unexpected endpoint"),
        (Answer({"data": []}), "0 vectors for 2 texts"),
    ],
)
def test_nonsense_with_status_200_is_refused_once(
    server: FakeEndpoint, clock: Clock, answer: Answer, reason: str
) -> None:
    """A reply that is no embedding is not asked for again."""
    server.rule = lambda call: answer

    with pytest.raises(EndpointError, match=reason):
        ask(server, clock)

    assert len(server.calls) == 1


def test_a_redirect_is_not_followed(server: FakeEndpoint, clock: Clock) -> None:
    """The key does not travel to another address; the message names it instead."""
    with fake_endpoint() as other:
        location = f"{other.base_url}/embeddings"
        server.rule = lambda call: Answer("", 307, {"Location": location})
        with pytest.raises(EndpointError, match=f"redirects to {location}"):
            ask(server, clock)

        assert other.calls == []


def test_a_proxy_is_not_asked_for_loopback(
    server: FakeEndpoint, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy in the environment does not come between two local programs."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)

    assert ask(server, clock).rows.shape == (2, 64)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("localhost", True),
        ("LOCALHOST.", True),
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("0.0.0.0", False),
        ("localhost.example.com", False),
        ("192.168.1.5", False),
    ],
)
def test_loopback_is_recognised_by_name_and_address(host: str, expected: bool) -> None:
    """Only this machine itself is loopback."""
    assert is_loopback(host) is expected


@pytest.mark.parametrize("status", [200, 400, 401, 403, 404, 429, 500, 302])
@pytest.mark.parametrize("shape", ["text", "json"])
def test_the_key_is_in_no_message_and_no_log(
    server: FakeEndpoint,
    clock: Clock,
    caplog: pytest.LogCaptureFixture,
    status: int,
    shape: str,
) -> None:
    """Even a server that echoes the key does not get it into an error or a log."""
    caplog.set_level(logging.DEBUG)

    def echo(call: Call) -> Answer:
        said = f"you sent {call.headers['Authorization']} " * 20
        body = {"error": {"message": said}} if shape == "json" else said.encode()
        return Answer(body, status)

    server.rule = echo
    with pytest.raises(EndpointError) as caught:
        ask(server, clock)

    assert KEY[:6] not in f"{caught.value} {caught.value!r}"
    assert KEY not in caplog.text


def test_a_redirect_that_quotes_the_key_does_not_show_it(
    server: FakeEndpoint, clock: Clock
) -> None:
    """The address that is shown to the user is searched for the key too."""
    server.rule = lambda call: Answer("", 302, {"Location": f"/login?key={KEY}"})

    with pytest.raises(EndpointError, match="redirects to /login") as caught:
        ask(server, clock)

    assert KEY not in str(caught.value)


@pytest.mark.parametrize("key", ["a\nb", "a\r\nX-Evil: 1", "ключ", "a\x00b", "a\tb"])
def test_a_key_that_cannot_be_sent_is_a_configuration_error(key: str) -> None:
    """It is refused before any request, and not shown."""
    with pytest.raises(ConfigError, match="LMSTUDIO_API_KEY") as caught:
        Endpoint("http://127.0.0.1:1/v1", "m", Secret(key))

    assert key not in str(caught.value)


@pytest.mark.parametrize(
    ("base_url", "url"),
    [
        ("http://127.0.0.1:1234/v1", "http://127.0.0.1:1234/v1/embeddings"),
        (" http://[::1]:1234/v1/ ", "http://[::1]:1234/v1/embeddings"),
        ("https://example.com", "https://example.com/embeddings"),
        ("https://example.com/v1/embeddings", "https://example.com/v1/embeddings"),
    ],
)
def test_the_address_is_made_of_the_base_url(base_url: str, url: str) -> None:
    """With or without a slash, or with the last part already there."""
    assert str(embeddings_url(base_url)) == url


@pytest.mark.parametrize(
    "base_url",
    [
        "",
        "127.0.0.1:1234",
        "localhost:1234/v1",
        "ftp://example.com",
        "http://",
        "http://example.com:99999999/v1",
        "http://user:hunter2@example.com/v1",
        "http://example.com/v1?key=hunter2",
    ],
)
def test_a_base_url_that_cannot_be_used_is_a_configuration_error(base_url: str) -> None:
    """The setting is named, and a password in it is not shown."""
    with pytest.raises(ConfigError, match="LMSTUDIO_BASE_URL") as caught:
        embeddings_url(base_url)

    assert "hunter2" not in str(caught.value)


def test_closing_twice_is_harmless(server: FakeEndpoint, clock: Clock) -> None:
    """The owner and the garbage collector may both close."""
    with connected(server.base_url, clock) as endpoint:
        endpoint.ask(["one"], PASSAGE)
        endpoint.close()
