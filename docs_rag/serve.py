"""
The MCP server: the guarded application, and its run on each transport.

The composition root: everything meets here. HTTP is stateless, so a client survives
a restart; the index is opened once a process, whatever the transport.
"""

import asyncio
import functools
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any

import anyio
import uvicorn
from mcp.server import Server
from mcp.server.sse import SseServerTransport
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings
from sse_starlette.sse import AppStatus
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from docs_rag.admission import HTTP_ROUTES, SSE_ROUTES, Policy
from docs_rag.config import Settings, Transport
from docs_rag.errors import EXIT_DONE, DocsRagError
from docs_rag.guard import Guard
from docs_rag.listener import listening, uvicorn_options
from docs_rag.netguard import Binding, decide_binding, require_token
from docs_rag.protocol import build_server
from docs_rag.records import Secret
from docs_rag.service import Service, open_service
from docs_rag.workers import Workers

logger = logging.getLogger(__name__)

# What stands for the port in a policy over a unix socket, where there is none.
_NO_PORT = 80
# How long a call that is under way may still take when the server is told to stop.
# uvicorn's own limit (``shutdown_seconds``) comes later, and cuts off.
_GRACE_SECONDS = 2.0

Handler = Callable[[int, FrameType | None], None]


def build_app(
    service: Service, policy: Policy, transport: Transport, workers: Workers
) -> Guard:
    """Build the whole ASGI application: the guard, and the protocol behind it."""
    readyz = functools.partial(_readyz, service, Workers())
    probes = [
        Route("/healthz", _healthz, methods=["GET"]),
        Route("/readyz", readyz, methods=["GET"]),
    ]
    server = build_server(service, transport, workers)
    return guarded(server, policy, transport, probes)


def guarded(
    server: Server[Any], policy: Policy, transport: Transport, probes: list[Route]
) -> Guard:
    """Put a protocol server behind HTTP and the guard, with ``probes`` beside it."""
    # The guard has judged Host and Origin already; the SDK's own check stays on.
    security = TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=[policy.inner_host],
        allowed_origins=[policy.inner_origin],
    )
    app: ASGIApp
    if transport is Transport.SSE:
        app = _sse_app(server, security, probes)
    else:
        app = server.streamable_http_app(
            stateless_http=True,
            json_response=False,
            max_request_body_size=policy.limits.max_body_bytes,
            transport_security=security,
            custom_starlette_routes=probes,
        )
    return Guard(app, policy)


def _sse_app(
    server: Server[Any], security: TransportSecuritySettings, probes: list[Route]
) -> Starlette:
    logger.warning(
        "the transport SSE is deprecated in MCP: set RAG_MCP_TRANSPORT to "
        "streamable-http as soon as every client can speak it"
    )
    sse = SseServerTransport("/messages/", security_settings=security)
    return Starlette(
        routes=[
            Route("/sse", _SseStream(server, sse), methods=["GET"]),
            Mount("/messages/", app=sse.handle_post_message),
            *probes,
        ]
    )


class _SseStream:
    """One client's stream, as the ASGI application that it has to be."""

    def __init__(self, server: Server[Any], sse: SseServerTransport) -> None:
        self._server = server
        self._sse = sse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._sse.connect_sse(scope, receive, send) as (read, write):
            options = self._server.create_initialization_options()
            await self._server.run(read, write, options)


async def _healthz(request: Request) -> Response:
    return PlainTextResponse("ok\n")


async def _readyz(service: Service, workers: Workers, request: Request) -> Response:
    """Say whether a question would be answered now; nothing of the corpus."""
    try:
        generation = await workers.run(service.check_ready)
    except DocsRagError as error:
        logger.warning("not ready: %s", error)
        return JSONResponse({"ready": False}, status_code=503)
    return JSONResponse({"ready": True, "generation": generation})


# -- running ----------------------------------------------------------------------


def run(
    settings: Settings,
    on_listening: Callable[[str], None],
    reload_token: Callable[[], Secret | None],
) -> None:
    """
    Serve the chosen corpus until a signal or the end of standard input ends it.

    ``on_listening`` is told the URL once connections are accepted; ``reload_token``
    is asked for the token in force at each SIGHUP. Raises ``UnsafeBindingError``
    before anything is opened where the binding is unsafe.
    """
    if settings.transport is Transport.STDIO:
        _run_stdio(settings)
    else:
        _run_http(settings, on_listening, reload_token)


def _run_stdio(settings: Settings) -> None:
    service = open_service(settings, resident=True)
    server = build_server(service, Transport.STDIO)
    _start_warm_up(service)

    async def converse() -> None:
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())

    def stop(number: int, frame: FrameType | None) -> None:
        # A thread waits for standard input, and only its end would wake it.
        os._exit(EXIT_DONE)

    try:
        with _handling({signal.SIGTERM: stop, signal.SIGINT: stop}):
            anyio.run(converse)
    finally:
        service.close()


def _run_http(
    settings: Settings,
    on_listening: Callable[[str], None],
    reload_token: Callable[[], Secret | None],
) -> None:
    binding = decide_binding(
        settings.host,
        settings.auth_token,
        settings.allowed_hosts,
        settings.allowed_origins,
    )
    require_token(binding.exposure, binding.host, settings.auth_token)
    service = open_service(settings, resident=True)
    routes = SSE_ROUTES if settings.transport is Transport.SSE else HTTP_ROUTES
    try:
        with listening(binding, settings.port) as sockets:
            port = _NO_PORT if binding.unix_path else sockets[0].getsockname()[1]
            policy = Policy(binding, port, settings.auth_token, routes)
            workers = Workers()
            guard = build_app(service, policy, settings.transport, workers)

            def started() -> None:
                on_listening(_url(binding, policy))
                # Not sooner: the interpreter runs one thread at a time.
                _start_warm_up(service)

            server = _Server(
                uvicorn.Config(guard, **uvicorn_options(policy)),
                on_started=started,
                on_grace_over=workers.give_up,
            )
            if settings.transport is Transport.STREAMABLE_HTTP:
                # Or every answer under way would be cut off at once.
                AppStatus.enable_automatic_graceful_drain = False
            with _signals(server, guard, reload_token):
                server.run(sockets=sockets)
    finally:
        service.close()


class _Server(uvicorn.Server):
    """uvicorn's server, which tells when it accepts and when it must be done."""

    def __init__(
        self,
        config: uvicorn.Config,
        on_started: Callable[[], None],
        on_grace_over: Callable[[], None],
    ) -> None:
        super().__init__(config)
        self._on_started = on_started
        self._on_grace_over = on_grace_over

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept connections, and say so."""
        await super().startup(sockets)
        if self.started and not self.should_exit:
            self._on_started()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept no more, let what is under way finish, but not for long."""
        loop = asyncio.get_running_loop()
        timer = loop.call_later(_GRACE_SECONDS, self._on_grace_over)
        try:
            await super().shutdown(sockets)
        finally:
            timer.cancel()


def _url(binding: Binding, policy: Policy) -> str:
    path = policy.routes[0].path
    if binding.unix_path:
        return f"{binding.unix_path} (path {path})"
    return f"http://{binding.host}:{policy.port}{path}"


def _start_warm_up(service: Service) -> None:
    """Load model and vectors while the first handshake is already answered."""

    def warm_up() -> None:
        try:
            service.warm_up()
        except DocsRagError as error:
            logger.warning("%s", error)

    threading.Thread(target=warm_up, name="warm-up", daemon=True).start()


@contextmanager
def _signals(
    server: uvicorn.Server, guard: Guard, reload_token: Callable[[], Secret | None]
) -> Iterator[None]:
    """
    Let SIGTERM and SIGINT end the server with exit code 0, and SIGHUP renew the token.

    uvicorn handles the first two while it runs, and raises them again once it has
    stopped: by then they have nothing left to do. Before it runs, they must not be
    lost.
    """

    def stop(number: int, frame: FrameType | None) -> None:
        server.should_exit = True

    def renew(number: int, frame: FrameType | None) -> None:
        try:
            logger.info("SIGHUP: %s", _renew(guard, reload_token()))
        except DocsRagError as error:
            logger.error("SIGHUP: the old token stays: %s", error)

    handlers = {signal.SIGTERM: stop, signal.SIGINT: stop, signal.SIGHUP: renew}
    with _handling(handlers):
        yield


@contextmanager
def _handling(handlers: Mapping[signal.Signals, Handler]) -> Iterator[None]:
    before = {number: signal.signal(number, h) for number, h in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _renew(guard: Guard, token: Secret | None) -> str:
    if token is None:
        return "RAG_AUTH_TOKEN is not set; nothing was changed"
    if token == guard.policy.token:
        return (
            "RAG_AUTH_TOKEN is still the same; it can be renewed in .env, not in the "
            "environment of a running process"
        )
    guard.rotate(token)
    return "the token was renewed"
