"""
The sockets the server listens on, and how long it waits for whoever connects.

A socket is never open to more people than the binding says, not even for a moment;
a connection on which the other side does nothing is closed by a deadline.
"""

import asyncio
import errno
import logging
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, ClassVar

from uvicorn.protocols.http.h11_impl import H11Protocol

from docs_rag.admission import Limits, Policy
from docs_rag.errors import ConfigError
from docs_rag.guard import OVER_LIMIT
from docs_rag.netguard import Binding, shown

logger = logging.getLogger(__name__)

_OWNER_ONLY = 0o600
_NO_SUCH_ADDRESS = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
# Above the limit a connection gets one polite answer; above this multiple of it not
# even that, so that file descriptors remain for the index.
_HARD_LIMIT_FACTOR = 2


class _Deadline:
    """The moment a connection is given up, unless stopped before; one at a time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, why: str) -> None:
        self._loop = loop
        self._why = why
        self._timer: asyncio.TimerHandle | None = None

    def start(self, seconds: float, transport: asyncio.Transport) -> None:
        """Start to wait; a wait that is going on goes on."""
        if self._timer is None:
            self._timer = self._loop.call_later(seconds, self._give_up, transport)

    def stop(self) -> None:
        """Wait no longer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self, transport: asyncio.Transport) -> None:
        logger.debug("gave up a connection: %s", self._why)
        # Not close(), which would wait until the other side took what is left.
        transport.abort()


class DeadlineProtocol(H11Protocol):
    """
    uvicorn's HTTP/1.1 connection, which does not wait for ever.

    The head of a request must be complete ``head_seconds`` after its first byte (on
    a new connection: after connecting). The same deadline ends the skipping of a
    body that a refused request left behind. A client that takes nothing of its
    answer for ``body_seconds`` is cut off. Idle connections are uvicorn's business
    (``timeout_keep_alive``), slow bodies the guard's.
    """

    limits: ClassVar[Limits] = Limits()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head_deadline = _Deadline(self.loop, "no request came")
        self._write_deadline = _Deadline(self.loop, "the answer was not taken")

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start to wait for a head; turn away what is over the limit."""
        super().connection_made(transport)
        limit = self.limits.max_connections
        if len(self.connections) > limit * _HARD_LIMIT_FACTOR:
            transport.abort()
            return
        if len(self.connections) > limit:
            self.app_state = {**self.app_state, OVER_LIMIT: True}
        self._head_deadline.start(self.limits.head_seconds, transport)

    def data_received(self, data: bytes) -> None:
        """Start the deadline with the first byte of a head, stop it with the last."""
        if self._is_between_requests():
            self._head_deadline.start(self.limits.head_seconds, self.transport)
        super().data_received(data)
        if not self._is_between_requests():
            self._head_deadline.stop()

    def pause_writing(self) -> None:
        """Start the deadline for a client that does not read."""
        super().pause_writing()
        self._write_deadline.start(self.limits.body_seconds, self.transport)

    def resume_writing(self) -> None:
        """Stop that deadline: the client reads again."""
        self._write_deadline.stop()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget every deadline."""
        self._head_deadline.stop()
        self._write_deadline.stop()
        super().connection_lost(exc)

    def _is_between_requests(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _unsupported_upgrade_warning(self) -> None:
        # Some clients offer HTTP/2 with every request. Ignoring that is right; two
        # warnings each time, one of them on what to install, are not.
        pass


def uvicorn_options(policy: Policy) -> dict[str, Any]:
    """Return the arguments for ``uvicorn.Config`` that the guard relies on."""
    limits = policy.limits
    protocol = type("PolicyProtocol", (DeadlineProtocol,), {"limits": limits})
    return {
        "http": protocol,
        "ws": "none",
        "lifespan": "on",
        "interface": "asgi3",
        "proxy_headers": False,
        "server_header": False,
        "access_log": False,
        "log_config": None,
        "workers": 1,
        "h11_max_incomplete_event_size": limits.max_head_bytes,
        "timeout_keep_alive": limits.keep_alive_seconds,
        "timeout_graceful_shutdown": limits.shutdown_seconds,
    }


@contextmanager
def listening(binding: Binding, port: int) -> Iterator[list[socket.socket]]:
    """
    Yield the sockets of a binding, bound but not yet accepting; close them after.

    All have the same port, also where ``port`` is 0 for any free one. Raises
    ``ConfigError`` where nobody can listen.
    """
    with ExitStack() as stack:
        if binding.unix_path is not None:
            yield [stack.enter_context(_unix_socket(Path(binding.unix_path)))]
        else:
            yield _tcp_sockets(binding, port, stack)


def _tcp_sockets(binding: Binding, port: int, stack: ExitStack) -> list[socket.socket]:
    opened: list[socket.socket] = []
    missing = ""
    for family, address in _resolve(binding):
        try:
            one = _tcp_socket(family, address, port)
        except OSError as error:
            if error.errno not in _NO_SUCH_ADDRESS:
                raise _cannot_listen(f"{address} port {port}", error) from error
            missing = f"{address}: {error.strerror}"
            logger.info("not listening on %s", missing)
            continue
        opened.append(stack.enter_context(one))
        port = one.getsockname()[1]
    if not opened:
        raise ConfigError(
            f"RAG_HOST is {shown(binding.host)}, which is no address of this machine "
            f"({missing}): set it to one, or to 127.0.0.1"
        )
    return opened


def _resolve(binding: Binding) -> list[tuple[socket.AddressFamily, str]]:
    found: dict[tuple[socket.AddressFamily, str], None] = {}
    for address in binding.addresses:
        try:
            answers = socket.getaddrinfo(address, None, type=socket.SOCK_STREAM)
        except OSError as error:
            raise _cannot_listen(address, error) from error
        found.update(dict.fromkeys((a[0], str(a[4][0])) for a in answers))
    return list(found)


def _tcp_socket(family: socket.AddressFamily, address: str, port: int) -> socket.socket:
    # Named, because asyncio sends at once (TCP_NODELAY) only where it is; answers that
    # wait for the client's acknowledgement take 40 ms more.
    one = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            # "::" says every interface, so it is taken to mean the IPv4 ones as well.
            # For any other address the option changes nothing.
            one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        one.bind((address, port))
    except OSError:
        one.close()
        raise
    return one


@contextmanager
def _unix_socket(path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as one:
        try:
            _remove_stale(path)
            one.bind(str(path))
            # Nobody can connect before listen(), so nobody can before this.
            path.chmod(_OWNER_ONLY)
        except OSError as error:
            raise _cannot_listen(str(path), error) from error
        try:
            yield one
        finally:
            path.unlink(missing_ok=True)


def _remove_stale(path: Path) -> None:
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise FileExistsError(errno.EEXIST, "a file that is not a socket is there")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
            return
    raise FileExistsError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))


def _cannot_listen(where: str, error: OSError) -> ConfigError:
    return ConfigError(
        f"cannot listen on {where}: {error.strerror}; stop what is there, or set "
        "RAG_HOST and RAG_PORT to an address that is free"
    )
