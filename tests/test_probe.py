"""``probe``: a running server checked from outside, and what it says of others."""

import datetime
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import anyio
import project as kit
import pytest
import uvicorn
from mcp.server import Server
from mcp.types import ListToolsResult, Tool

from docs_rag.cli import main
from docs_rag.errors import ConfigError, ProbeError
from docs_rag.probe import ProbeReport, probe, require_fresh
from docs_rag.records import Secret

TOKEN = "lighthouse-keepers-know-0123456789-abcdef"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A server that asks for a token."""
    project = kit.make_project(tmp_path_factory.mktemp("probed"))
    project.index()
    with project.serving(RAG_AUTH_TOKEN=TOKEN) as running:
        yield running


@contextmanager
def answering(status: int, body: bytes = b"", content_type: str = "text/html"):
    """A web server that answers everything alike; yields its URL."""

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", 0)))
            self.send_response(status)
            self.send_header("content-type", content_type)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_DELETE = answer

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/mcp"
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def another_mcp_server():
    """An MCP server with other tools; yields its URL."""

    async def list_tools(_, __):
        schema = {"type": "object", "properties": {}}
        return ListToolsResult(tools=[Tool(name="weather", input_schema=schema)])

    inner = Server("weather-station", version="3", on_list_tools=list_tools)
    port = kit.free_port()
    app = inner.streamable_http_app(stateless_http=True)
    config = uvicorn.Config(app, port=port, log_config=None, ws="none")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        kit.eventually(lambda: server.started)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        server.should_exit = True
        thread.join()


def complaint(url: str, token: str | None = None, timeout_seconds: float = 20) -> str:
    """Return what probe says of a server that is not in order."""
    secret = Secret(token) if token else None
    with pytest.raises(ProbeError) as failed:
        probe(url, "lamp", 1, secret, timeout_seconds)
    return str(failed.value)


def test_probe_reports_each_step(site):
    """A server in order is reported with its name, tools, state, answer and times."""
    report = probe(site.url, "what does LAMP-0502 mean?", 1, Secret(TOKEN), 30)

    assert report.server == "wexcombe-docs-rag"
    assert report.protocol == "2026-07-28"
    assert report.tools == ("retrieve", "corpus_status")
    assert report.status["files"] == 3
    assert report.answer["hits"][0]["path"] == "docs/lamps.md"
    assert "docs/lamps.md" in report.text
    assert list(report.milliseconds) == ["handshake", "tools", "status", "retrieve"]


@pytest.mark.parametrize("variant", ["text", "json"])
def test_command_prints_the_report(site, tmp_path, monkeypatch, capfd, variant):
    """The command prints the report, with the token from the settings, never it."""
    monkeypatch.setenv("RAG_DIR", str(tmp_path))
    monkeypatch.setenv("RAG_AUTH_TOKEN", TOKEN)
    flags = ["--json"] if variant == "json" else []

    assert main(["probe", site.url, "--query", "two bells", *flags]) == 0
    out = capfd.readouterr().out
    if flags:
        assert json.loads(out)["status"]["corpus"] == "wexcombe"
    assert "wexcombe-docs-rag" in out
    assert "docs/tides.md" in out
    assert TOKEN not in out


@pytest.mark.parametrize(
    "token", [None, "a-wrong-token-0123456789-0123456789"], ids=["none", "wrong"]
)
def test_token_that_is_not_the_servers_is_refused(site, token):
    """Without the token, or with another, the probe says which variable to set."""
    said = complaint(site.url, token)

    assert "HTTP 401" in said
    assert "set RAG_AUTH_TOKEN" in said
    assert "\n" not in said
    assert token is None or token not in said


def test_wrong_path_is_recognised(site):
    """Another path of a server in order is a 404 with the path to use."""
    said = complaint(site.url.removesuffix("/mcp") + "/sse", TOKEN)

    assert "HTTP 404" in said
    assert "the URL ends in /mcp" in said


def test_refused_question_fails_the_probe(site):
    """A tool error is a failure of the probe, in the words of the server."""
    with pytest.raises(ProbeError, match="retrieve failed: k must be"):
        probe(site.url, "lamp", 99, Secret(TOKEN), 30)


def test_no_server_is_recognised():
    """Where nobody listens, that is what is said."""
    said = complaint(f"http://127.0.0.1:{kit.free_port()}/mcp")

    assert "nothing answers there" in said


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (200, b"<html>hello</html>", "is this an MCP server?"),
        (404, b"nothing", "HTTP 404"),
        (405, b"", "HTTP 405"),
        (500, b"sorry", "HTTP 500: see the log of the server"),
        (503, b"", "busy or still loading"),
        (421, b"", "RAG_ALLOWED_HOSTS"),
        (403, b"", "HTTP 403"),
    ],
)
def test_web_servers_that_speak_no_mcp_are_recognised(status, body, said):
    """A web server of another kind is reported by its status, in one line."""
    with answering(status, body) as url:
        complaining = complaint(url)

    assert said in complaining
    assert complaining.startswith(url)
    assert "\n" not in complaining


def test_other_mcp_servers_are_recognised():
    """An MCP server with other tools is not taken for a docs-rag server."""
    with another_mcp_server() as url:
        said = complaint(url)

    assert "'weather-station' has no tool corpus_status, retrieve" in said
    assert "is this a docs-rag server?" in said


def test_silent_server_is_given_up():
    """A server that accepts and never answers is given up after the time allowed."""

    async def listen() -> None:
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        async with anyio.create_task_group() as group:
            group.start_soon(listener.serve, _never_answer)
            url = f"http://127.0.0.1:{port}/mcp"
            said = await anyio.to_thread.run_sync(complaint, url, None, 0.5)
            group.cancel_scope.cancel()
        await listener.aclose()
        assert "no answer within 0.5 seconds" in said

    anyio.run(listen)


async def _never_answer(stream) -> None:
    async with stream:
        await anyio.sleep_forever()


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan"), float("inf")])
def test_time_allowed_must_be_a_time(seconds):
    """A time limit that is none is refused before anything is sent."""
    with pytest.raises(ConfigError, match="timeout"):
        probe("http://127.0.0.1:9/mcp", "lamp", 1, None, seconds)


AGES = {
    "fresh": ({"checked_at": "now"}, None),
    "old": ({"checked_at": "2020-01-02T03:04:05+00:00"}, "is the refresh running"),
    "never": ({"checked_at": None}, "no indexing run has finished"),
    "unsaid": ({}, "no indexing run has finished"),
}


@pytest.mark.parametrize(("status", "said"), AGES.values(), ids=AGES)
def test_an_index_that_nobody_refreshes_fails_a_monitor(status, said):
    """What counts is the last run, whether or not it found anything to do."""
    if status.get("checked_at") == "now":
        status = {"checked_at": datetime.datetime.now(datetime.UTC).isoformat()}
    report = ProbeReport("http://127.0.0.1:8765/mcp", status=status)

    if said is None:
        require_fresh(report, 1)
    else:
        with pytest.raises(ProbeError, match=said):
            require_fresh(report, 1)


def test_the_command_fails_on_an_old_index(site, tmp_path, monkeypatch, capfd):
    """--max-age-hours turns age into exit code 1; without it age is only shown."""
    monkeypatch.setenv("RAG_DIR", str(tmp_path))
    monkeypatch.setenv("RAG_AUTH_TOKEN", TOKEN)

    assert main(["probe", site.url, "--max-age-hours", "1"]) == 0
    assert main(["probe", site.url, "--max-age-hours", "0"]) == 1
    assert "more than 0" in capfd.readouterr().err
