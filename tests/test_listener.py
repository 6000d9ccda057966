import logging
import os
import socket
import stat
import tempfile
import time
from pathlib import Path

import pytest
import uvicorn
from loopback import (
    PATIENCE_SECONDS,
    TOKEN,
    connect,
    eventually,
    needs_ipv6,
    read_answer,
    read_to_end,
    serving,
)

from docs_rag.admission import Limits, Policy
from docs_rag.errors import ConfigError
from docs_rag.listener import DeadlineProtocol, listening, uvicorn_options
from docs_rag.netguard import Binding, Exposure, decide_binding

HEAD_SECONDS = 0.4


@pytest.fixture(scope="module")
def site():
    with serving(head_seconds=HEAD_SECONDS, keep_alive_seconds=60) as running:
        yield running


@pytest.fixture
def run_path():
    """A folder whose path is short enough for a socket, as tmp_path may not be."""
    with tempfile.TemporaryDirectory(prefix="docs-rag-", dir="/tmp") as folder:
        yield Path(folder)


def drip(client, piece):
    """Send a piece again and again until the server has closed the connection."""
    client.settimeout(0.05)
    give_up_at = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < give_up_at:
        try:
            client.sendall(piece)
            if client.recv(4096) == b"":
                return
        except TimeoutError:
            continue
        except ConnectionError:
            return
    raise AssertionError("the connection is still open")


def test_silent_connection(site):
    """A connection on which no request comes is closed in time, and not before."""
    started_at = time.monotonic()
    with site.connect() as client:
        assert read_to_end(client) == b""

    assert time.monotonic() - started_at >= HEAD_SECONDS
    eventually(lambda: site.connections() == 0)


@pytest.mark.parametrize("piece", [b"x", b"X: y\r\n"], ids=ascii)
def test_slow_head(site, piece):
    """A head that drips does not extend its time by dripping."""
    started_at = time.monotonic()
    with site.connect() as client:
        client.sendall(b"POST /mcp HTTP/1.1\r\n")
        drip(client, piece)

    assert time.monotonic() - started_at >= HEAD_SECONDS


def test_slow_head_after_a_request(site):
    """The deadline holds for the second head of a connection as for the first."""
    with site.connect() as client:
        client.sendall(site.request())
        assert read_answer(client).status == 200
        client.sendall(b"POST /mcp HTTP/1.1\r\nHost:")
        assert read_to_end(client) == b""


def test_slow_head_behind_a_request(site):
    """It holds for a head that began to arrive together with the request before."""
    with site.connect() as client:
        client.sendall(site.request("HEAD", "/healthz") + b"POST /mcp HT")
        assert read_answer(client, "HEAD").status == 200
        client.sendall(b"TP/1.1\r\n")
        assert read_to_end(client) == b""


def test_idle_connection():
    """Between requests the keep-alive time counts, not the time for a head."""
    limits = {"head_seconds": HEAD_SECONDS, "keep_alive_seconds": 1}
    with serving(**limits) as server, server.connect() as client:
        for _ in range(2):
            client.sendall(server.request())
            assert read_answer(client).status == 200
            time.sleep(HEAD_SECONDS * 1.5)
        client.sendall(server.request())
        assert read_answer(client).status == 200
        assert read_to_end(client) == b""


def test_long_call_is_not_a_slow_head():
    """The time for a head does not run while a request is being answered."""
    limits = {"head_seconds": 0.3, "call_seconds": 1}
    with serving(**limits) as server, server.connect() as client:
        client.sendall(server.request(headers=[("X-Do", "wait")]))
        eventually(lambda: server.application.scopes)
        client.sendall(b"POST /mcp HTTP/1.1\r\n")

        assert read_answer(client).status == 503


def test_skipped_body_has_a_deadline(site):
    """A body that a refusal left behind may not drip for ever."""
    with site.connect() as client:
        client.sendall(site.request(host="evil", headers=[("Content-Length", "999")]))
        assert read_answer(client).status == 421
        drip(client, b"x")


def test_pipelined_requests(site):
    """Requests sent in one go are answered in order, and none is cut off."""
    paths = ["/mcp", "/healthz", "/unknown", "/mcp/"] * 5
    requests = b"".join(
        site.request("GET" if path == "/healthz" else "POST", path) for path in paths
    )
    requests += site.request(headers=[("Connection", "close")])
    with site.connect() as client:
        client.sendall(requests)
        received = read_to_end(client)

    statuses = [part[:3] for part in received.split(b"HTTP/1.1 ")[1:]]
    assert statuses == [b"200", b"200", b"404", b"200"] * 5 + [b"200"]


def test_client_that_does_not_read():
    """A client that takes nothing of its answer is cut off, and its call ended."""
    with serving(body_seconds=0.3) as server, server.connect() as client:
        client.sendall(server.request(headers=[("X-Do", "stream")]))
        eventually(lambda: server.application.scopes)
        eventually(lambda: server.connections() == 0)
        eventually(lambda: server.guard._in_flight["/mcp"] == 0)


def test_client_that_reads_slowly():
    """A client that goes on reading, however slowly, is not cut off for it."""
    with serving(body_seconds=0.5) as server, server.connect() as client:
        client.sendall(server.request(headers=[("X-Do", "stream")]))
        started_at = time.monotonic()
        while time.monotonic() < started_at + 1.0:
            time.sleep(0.02)
            received = 0
            while received < 1 << 20:
                piece = client.recv(1 << 18)
                assert piece, "the connection was closed"
                received += len(piece)

        assert server.connections() == 1


def test_many_connections():
    """Five hundred at once are served or sent away, and leave nothing behind."""
    with serving(max_connections=100) as server:
        descriptors = len(os.listdir("/dev/fd"))
        clients = [server.connect() for _ in range(500)]
        statuses = []
        for client in clients:
            with client:
                try:
                    client.sendall(server.request(headers=[("Connection", "close")]))
                    statuses.append(read_answer(client).status)
                except ConnectionError:
                    statuses.append(0)
        eventually(lambda: server.connections() == 0)
        eventually(lambda: len(os.listdir("/dev/fd")) <= descriptors)

        assert set(statuses) <= {200, 503, 0}
        assert statuses.count(200) >= 100
        assert server.ask().status == 200


def test_connections_far_over_the_limit():
    """Beyond twice the limit a connection is not even answered."""
    with serving(max_connections=1) as server, server.connect(), server.connect():
        eventually(lambda: server.connections() == 2)
        with server.connect() as client:
            assert read_to_end(client) == b""
        assert server.connections() == 2


def test_connection_over_the_limit():
    """One connection too many gets a polite answer, and then room when it is free."""
    with serving(max_connections=2) as server:
        with server.connect(), server.connect():
            eventually(lambda: server.connections() == 2)
            refused = server.ask("GET", "/healthz", host="evil")
        eventually(lambda: server.connections() == 0)
        served = server.ask()

    assert refused.status == 503
    assert refused.value("retry-after") == "1"
    assert refused.value("connection") == "close"
    assert served.status == 200


def test_offer_of_http2_is_not_worth_a_warning(site, caplog):
    """An upgrade that is not taken leaves no warning, and the request is served."""
    offer = [("Upgrade", "h2c"), ("Connection", "Upgrade, HTTP2-Settings")]

    assert site.ask(headers=[*offer, ("HTTP2-Settings", "AAMAAABk")]).status == 200
    assert [r for r in caplog.records if r.levelno >= logging.WARNING] == []


def test_options_are_safe():
    """uvicorn is told to trust no proxy, show no name, speak no WebSocket."""
    limits = Limits(head_seconds=3, keep_alive_seconds=4, shutdown_seconds=2)
    policy = Policy(decide_binding("localhost", None), 1, limits=limits)
    options = uvicorn_options(policy)
    config = uvicorn.Config(lambda: None, **options)

    assert issubclass(options["http"], DeadlineProtocol)
    assert options["http"].limits is limits
    assert not config.proxy_headers
    assert not config.server_header
    assert not config.access_log
    assert config.ws == "none"
    assert config.timeout_keep_alive == 4
    assert config.timeout_graceful_shutdown == 2
    assert config.h11_max_incomplete_event_size == limits.max_head_bytes
    assert DeadlineProtocol.limits == Limits()


def test_endless_head(site):
    """A head that does not end is refused long before its time is over."""
    with site.connect() as client:
        client.sendall(b"POST /mcp HTTP/1.1\r\n")
        try:
            for _ in range(100):
                client.sendall(b"X: " + b"y" * 8000 + b"\r\n")
        except ConnectionError:
            pass
        received = read_to_end(client)

    assert received == b"" or received.startswith(b"HTTP/1.1 400 ")


def test_shutdown_with_a_call_running():
    """A call that does not end holds up the end of the server for a bounded time."""
    started_at = None
    with serving(shutdown_seconds=1) as server, server.connect() as client:
        client.sendall(server.request(headers=[("X-Do", "wait")]))
        eventually(lambda: server.application.scopes)
        started_at = time.monotonic()
        server.server.should_exit = True
        eventually(lambda: "lifespan.shutdown" in server.application.events)

    assert time.monotonic() - started_at < PATIENCE_SECONDS


def test_unix_socket(run_path):
    """A unix socket is its owner's alone, is served, and is gone afterwards."""
    path = run_path / "docs rag.sock"
    with serving(f"unix:{path}") as server:
        mode = path.stat().st_mode
        answer = server.ask(host="localhost")
        foreign = server.ask(host="evil.example")

    assert stat.S_ISSOCK(mode)
    assert stat.S_IMODE(mode) == 0o600
    assert (answer.status, foreign.status) == (200, 421)
    assert not path.exists()


def test_unix_socket_left_behind(run_path):
    """A socket that nobody serves any more is replaced."""
    path = run_path / "d.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    with serving(f"unix:{path}") as server:
        assert server.ask(host="localhost").status == 200


def test_unix_socket_in_use(run_path):
    """A socket that somebody serves is left to him."""
    binding = decide_binding(f"unix:{run_path}/d.sock", None)
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(binding.unix_path)
        other.listen()
        with pytest.raises(ConfigError, match="in use"), listening(binding, 0):
            pass

        connect(socket.AF_UNIX, binding.unix_path).close()


def test_file_in_place_of_a_unix_socket(run_path):
    """A file that is no socket is never removed, nor is what a link points to."""
    binding = decide_binding(f"unix:{run_path}/d.sock", None)
    for make in (
        lambda path: path.write_text("precious"),
        lambda path: path.symlink_to(run_path / "precious"),
    ):
        path = run_path / "d.sock"
        make(path)
        with pytest.raises(ConfigError, match="not a socket"), listening(binding, 0):
            pass

        assert path.is_symlink() or path.read_text() == "precious"
        path.unlink()


def test_unix_socket_in_no_directory(run_path):
    """A path that cannot be is an error that names it."""
    binding = decide_binding(f"unix:{run_path}/missing/d.sock", None)

    with pytest.raises(ConfigError, match=r"missing/d\.sock"), listening(binding, 0):
        pass


@needs_ipv6
def test_one_port_for_all_addresses():
    """Where any free port will do, both loopback addresses get the same."""
    with listening(decide_binding("localhost", None), 0) as sockets:
        names = [one.getsockname() for one in sockets]

    assert [name[0] for name in names] == ["127.0.0.1", "::1"]
    assert names[0][1] == names[1][1] != 0
    assert all(one.fileno() == -1 for one in sockets)


@needs_ipv6
def test_loopback_is_not_every_interface():
    """Only the loopback address is bound, and IPv6 takes no IPv4 with it."""
    with listening(decide_binding("::1", None), 0) as (only,):
        only.listen()
        name = only.getsockname()
        with pytest.raises(ConnectionRefusedError):
            connect(socket.AF_INET, ("127.0.0.1", name[1]))

    assert name[0] == "::1"


@needs_ipv6
def test_every_interface():
    """The wildcard of IPv6 takes in what comes by IPv4."""
    with listening(decide_binding("::", TOKEN), 0) as (only,):
        assert only.getsockname()[0] == "::"
        assert not only.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY)


def test_port_in_use():
    """A port that is taken is an error that names address, port and remedy."""
    binding = decide_binding("127.0.0.1", None)
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with (
            pytest.raises(ConfigError, match=f"127.0.0.1 port {port}.*RAG_PORT"),
            listening(binding, port),
        ):
            pass


@needs_ipv6
def test_second_address_in_use():
    """If somebody else has the port on IPv6, localhost would mean him: an error."""
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as other:
        port = other.getsockname()[1]
        with (
            pytest.raises(ConfigError, match=f"::1 port {port}"),
            listening(decide_binding("localhost", None), port),
        ):
            pass


def make_exposed(*addresses):
    """A binding to addresses that no machine has, so that nothing is exposed."""
    return Binding(
        Exposure.EXPOSED, addresses[0], addresses, frozenset(), frozenset(), ""
    )


def test_address_of_another_machine():
    """An address that this machine does not have is an error that names it."""
    with (
        pytest.raises(ConfigError, match=r"192\.0\.2\.1.*no address of this machine"),
        listening(make_exposed("192.0.2.1"), 0),
    ):
        pass


def test_one_address_is_missing():
    """Of several addresses those that exist are enough: a machine may lack IPv6."""
    with listening(make_exposed("192.0.2.1", "127.0.0.1"), 0) as sockets:
        assert [one.getsockname()[0] for one in sockets] == ["127.0.0.1"]


def test_name_that_does_not_resolve():
    """A name that nobody knows is an error that names it."""
    with (
        pytest.raises(ConfigError, match=r"no-such-host\.invalid"),
        listening(make_exposed("no-such-host.invalid"), 0),
    ):
        pass
