"""The real server process, driven by the official client on every transport."""

import json
import signal
import socket
import subprocess
import sys
import threading
import time

import anyio
import httpx2
import jsonschema
import project as kit
import pytest
from fake_endpoint import fake_endpoint, healthy
from mcp import Client, MCPError
from mcp.client.sse import sse_client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.server._streamable_http_modern import (
    _SSE_PING_INTERVAL as MODERN_PING_SECONDS,
)
from sse_starlette.sse import EventSourceResponse

from docs_rag import __version__
from docs_rag.listener import listening
from docs_rag.netguard import decide_binding
from docs_rag.tools import TOOLS

MODERN = {"mcp-protocol-version": "2026-07-28"}
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
MODES = {"auto": "2026-07-28", "legacy": "2025-11-25"}
STOP_SECONDS = 6.0
TOKEN = "lighthouse-keepers-know-0123456789-abcdef"
NEXT_TOKEN = "lighthouse-keepers-grow-0123456789-abcdef"


@pytest.fixture(scope="module")
def indexed(tmp_path_factory):
    """An indexed project that no test changes."""
    project = kit.make_project(tmp_path_factory.mktemp("shared"))
    project.index()
    return project


@pytest.fixture(scope="module")
def site(indexed):
    """A server over it."""
    with indexed.serving() as running:
        yield running


@pytest.fixture
def own(tmp_path):
    """A project of the test's own, not indexed."""
    return kit.make_project(tmp_path)


def check_retrieve(result) -> None:
    """Both halves of a result are complete: the same passages, each in full."""
    schema = {tool.name: tool.output_schema for tool in TOOLS}["retrieve"]
    answer = result.structured_content
    text = kit.text_of(result)

    jsonschema.Draft202012Validator(schema).validate(answer)
    assert not result.is_error
    assert answer["hits"]
    assert answer["hits"][0]["path"] == "docs/lamps.md"
    assert f"match: {answer['match']}" in text
    assert answer["notice"] in text
    for hit in answer["hits"]:
        first, last = hit["lines"]
        assert f"{hit['path']}:{first}-{last}" in text
        assert hit["text"] in text
        assert hit["id"] in text


def check_status(result) -> None:
    schema = {tool.name: tool.output_schema for tool in TOOLS}["corpus_status"]
    text = kit.text_of(result)

    jsonschema.Draft202012Validator(schema).validate(result.structured_content)
    assert result.structured_content["files"] == len(kit.PAGES)
    assert f"generation: {result.structured_content['generation']}" in text


async def use(client, version: str) -> None:
    """Do what an agent does: look at the server, list its tools, call both."""
    assert client.protocol_version == version
    assert client.server_info.name == "wexcombe-docs-rag"
    assert client.server_info.version == __version__
    listed = await client.list_tools()
    assert [tool.name for tool in listed.tools] == ["retrieve", "corpus_status"]
    question = {"query": "what does LAMP-0502 mean?", "k": 2, "also": ["blown fuse"]}
    check_retrieve(await client.call_tool("retrieve", question))
    check_status(await client.call_tool("corpus_status", {}))


# -- protocol, over HTTP ----------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_clients_of_both_eras_find_and_use_both_tools(site, mode):
    """The official client lists exactly two tools and calls them, in either era."""

    async def talk():
        async with kit.connected(site.url, mode) as client:
            await use(client, MODES[mode])

    anyio.run(talk)


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
    ],
)
def test_initialize_settles_on_a_version(site, asked, given):
    """A known handshake version is spoken, for any other the latest one."""
    answer = kit.message_in(kit.post(site.url, kit.initialize(asked)))

    assert answer["result"]["protocolVersion"] == given


def test_nothing_is_offered_that_is_not_there(site):
    """Both eras are told of tools and resources, which never change by themselves."""

    async def capabilities(mode):
        async with kit.connected(site.url, mode) as client:
            offered = client.server_capabilities
            return offered.model_dump(exclude_none=True, exclude_defaults=True)

    for mode in MODES:
        offered = anyio.run(capabilities, mode)
        assert set(offered) <= {"tools", "resources"}
        assert not any(flag for part in offered.values() for flag in part.values())


def test_handshake_introduces_the_server(site):
    """Name, title, version and instructions are there, in the room clients give."""
    answer = kit.message_in(kit.post(site.url, kit.initialize()))["result"]

    assert answer["serverInfo"]["title"] == "Documentation of wexcombe"
    assert answer["serverInfo"]["version"] == __version__
    assert 0 < len(answer["instructions"]) <= 2048
    assert "wexcombe" in answer["instructions"].split(".")[0]


BAD_ARGUMENTS = {
    "no query": ("retrieve", {}, "query"),
    "a number for a query": ("retrieve", {"query": 7}, "query"),
    "null for a query": ("retrieve", {"query": None}, "query"),
    "an empty query": ("retrieve", {"query": " \n"}, "query"),
    "a query too long": ("retrieve", {"query": "x" * 20_001}, "query"),
    "k of 0": ("retrieve", {"query": "lamp", "k": 0}, "k must"),
    "k of 21": ("retrieve", {"query": "lamp", "k": 21}, "k must"),
    "k in words": ("retrieve", {"query": "lamp", "k": "three"}, "k must"),
    "k of 2.5": ("retrieve", {"query": "lamp", "k": 2.5}, "k must"),
    "also as text": ("retrieve", {"query": "lamp", "also": "light"}, "also"),
    "also of numbers": ("retrieve", {"query": "lamp", "also": [1]}, "also"),
    "too many phrasings": ("retrieve", {"query": "l", "also": ["x"] * 9}, "also"),
    "an unknown argument": ("retrieve", {"query": "lamp", "top_k": 3}, "top_k"),
    "an argument for status": ("corpus_status", {"verbose": True}, "verbose"),
}


def test_bad_arguments_are_answered_in_one_line(site):
    """A bad argument is a tool error of one line that names it and says what fits."""

    async def talk():
        async with kit.connected(site.url) as client:
            for case, (tool, arguments, named) in BAD_ARGUMENTS.items():
                result = await client.call_tool(tool, arguments)
                text = kit.text_of(result)
                assert result.is_error, case
                assert result.structured_content is None, case
                assert named in text, case
                assert "\n" not in text, case
                assert "pydantic" not in text, case
                assert len(text) < 300, case

    anyio.run(talk)


@pytest.mark.parametrize("mode", MODES)
def test_unknown_tool_is_a_protocol_error(site, mode):
    """Asking for a tool that does not exist is -32602, which no model can mend."""
    with pytest.raises(MCPError, match="Unknown tool: 'search'") as refused:
        kit.call(site.url, "search", {"query": "lamp"}, mode=mode)

    assert refused.value.code == -32602


def test_same_question_has_the_same_answer(site):
    """Asking twice gives the same answer, in the same order."""
    first = kit.retrieve(site.url, "how is a lamp changed?", k=3)

    assert kit.retrieve(site.url, "how is a lamp changed?", k=3) == first


# -- HTTP -------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/mcp", "/mcp/"])
def test_both_spellings_of_the_path_are_served(site, path):
    """With or without a slash at its end the endpoint answers, without redirect."""
    url = site.url.removesuffix("/mcp") + path
    answer = kit.post(url, kit.initialize())

    assert answer.status_code == 200
    assert kit.message_in(answer)["result"]["serverInfo"]["version"] == __version__


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
def test_only_post_is_served(site, method):
    """A stateless endpoint has no stream to GET and no session to DELETE: 405."""
    answer = httpx2.request(method, site.url, trust_env=False)

    assert answer.status_code == 405
    assert answer.headers["allow"] == "POST"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"accept": "text/html"}, 406),
        ({"accept": ""}, 406),
        ({"content-type": "text/plain"}, 400),
        ({"content-type": "Application/JSON"}, 415),
        ({"mcp-protocol-version": "1999-01-01"}, 400),
    ],
    ids=["accept", "no accept", "content-type", "upper case", "version"],
)
def test_headers_that_do_not_fit_are_refused(site, headers, status):
    """A request that MCP does not allow gets a 4xx, and the next one an answer."""
    answer = kit.post(site.url, kit.request("tools/list"), **headers)

    assert answer.status_code == status
    assert kit.post(site.url, kit.request("tools/list")).status_code == 200


def test_stale_session_id_does_no_harm(site):
    """A session id from before a restart is ignored: there are no sessions."""
    stale = {"mcp-session-id": "0123456789abcdef0123456789abcdef"}

    assert kit.post(site.url, kit.initialize(), **stale).status_code == 200
    answer = kit.post(site.url, kit.request("tools/list"), **stale)
    assert len(kit.message_in(answer)["result"]["tools"]) == 2


def test_liveness_and_readiness_say_nothing_of_the_corpus(site):
    """/healthz and /readyz answer, and name neither corpus nor file."""
    base = site.url.removesuffix("/mcp")
    kit.retrieve(site.url, "lamp")
    alive = httpx2.get(f"{base}/healthz", trust_env=False)
    ready = httpx2.get(f"{base}/readyz", trust_env=False)

    assert (alive.status_code, ready.status_code) == (200, 200)
    assert ready.json() == {"ready": True, "generation": 2}
    assert "wexcombe" not in alive.text + ready.text
    assert httpx2.get(f"{base}/nowhere", trust_env=False).status_code == 404


def test_log_has_a_line_for_each_request_and_no_query(site):
    """The log tells that a call was made, not what was asked."""
    secret = "zanzibarquery\nforged line"
    kit.retrieve(site.url, secret)

    assert "zanzibarquery" not in site.log
    assert "forged line" not in site.log
    assert "method=POST path=/mcp status=200" in site.log
    assert "Terminating session" not in site.log


def test_answers_do_not_wait_for_acknowledgements():
    """The sockets say that they are TCP, without which asyncio leaves Nagle on."""
    with listening(decide_binding("127.0.0.1", None), 0) as (one,):
        assert one.proto == socket.IPPROTO_TCP


# -- the index changes while it serves --------------------------------------------


def test_new_generation_is_picked_up_without_a_restart(own):
    """What was indexed while the server runs is in its next answer."""
    own.index()
    with own.serving() as running:
        before = kit.retrieve(running.url, "ferry timetable")
        own.write({"docs/ferry.md": "# Ferry\n\nThe ferry timetable is at pier 3.\n"})
        own.index()
        after = kit.retrieve(running.url, "ferry timetable")

    assert "docs/ferry.md" not in [hit["path"] for hit in before["hits"]]
    assert after["hits"][0]["path"] == "docs/ferry.md"
    assert after["generation"] > before["generation"]


def test_server_may_start_before_there_is_an_index(own):
    """Without an index a call is told what to do; once it is there, it is used."""
    with own.serving() as running:
        base = running.url.removesuffix("/mcp")
        too_early = kit.call(running.url, "retrieve", {"query": "lamp"})
        no_status = kit.call(running.url, "corpus_status")
        not_ready = httpx2.get(f"{base}/readyz", trust_env=False)
        own.index()
        ready = httpx2.get(f"{base}/readyz", trust_env=False)
        answer = kit.retrieve(running.url, "lamp")

    for result in (too_early, no_status):
        assert result.is_error
        assert "docs-rag index" in kit.text_of(result)
    assert not_ready.status_code == 503
    assert not_ready.json() == {"ready": False}
    assert ready.status_code == 200
    assert answer["hits"]


def test_index_may_be_deleted_and_made_anew(own):
    """A server whose index was removed says so, and uses the one made in its place."""
    own.index()
    with own.serving() as running:
        kit.retrieve(running.url, "lamp")
        for file in own.data_dir.iterdir():
            file.unlink()
        missing = kit.call(running.url, "retrieve", {"query": "lamp"})
        own.write({"docs/tides.md": "# Tides\n\nHigh water is shown by a red ball.\n"})
        own.index()
        answer = kit.retrieve(running.url, "high water")
        rebuilt = own.index(full=True)
        again = kit.retrieve(running.url, "high water")

    assert missing.is_error
    assert "docs-rag index" in kit.text_of(missing)
    assert "red ball" in answer["hits"][0]["text"]
    assert again["generation"] == rebuilt.generation


def test_model_is_changed_while_the_server_answers_by_words(own):
    """With another model than the index has, answers are lexical until re-embedded."""
    own.index()
    with own.serving(RAG_EMBED_BACKEND="builtin") as running:
        lexical = kit.retrieve(running.url, "LAMP-0502")
        text = kit.text_of(kit.call(running.url, "retrieve", {"query": "LAMP-0502"}))
        status = kit.call(running.url, "corpus_status").structured_content
        own.index(RAG_EMBED_BACKEND="builtin")
        semantic = kit.retrieve(running.url, "how do I replace a broken light?")

    assert lexical["hits"][0]["path"] == "docs/lamps.md"
    assert lexical["hits"][0]["similarity"] is None
    assert "Semantic search is off" in lexical["notice"]
    assert "Semantic search is off" in text
    assert status["embedding"]["semantic_search"] is False
    assert "docs/lamps.md" in [hit["path"] for hit in semantic["hits"]]
    assert all(hit["similarity"] is not None for hit in semantic["hits"])
    assert "Semantic search is off" not in semantic["notice"]


# -- starting, stopping, renewing -------------------------------------------------


def test_clients_survive_a_restart(indexed):
    """Between two calls of a client, of either era, the server may restart."""

    async def talk(running):
        async with (
            kit.connected(running.url, "auto") as modern,
            kit.connected(running.url, "legacy") as legacy,
        ):
            await use(modern, MODES["auto"])
            await use(legacy, MODES["legacy"])
            assert running.stop() == 0
            with indexed.serving(port=running.port):
                check_status(await legacy.call_tool("corpus_status", {}))
                check_status(await modern.call_tool("corpus_status", {}))

    with indexed.serving() as running:
        anyio.run(talk, running)


@pytest.mark.parametrize("mode", MODES)
def test_sigterm_ends_it_with_a_call_running(own, mode):
    """SIGTERM in a call that hangs: the caller is told, exit code 0 in six seconds."""
    with fake_endpoint() as endpoint:
        settings = {
            "RAG_EMBED_BACKEND": "openai",
            "LMSTUDIO_BASE_URL": endpoint.base_url,
            "EMBED_MODEL": "fake",
        }
        own.index(**settings)
        with own.serving(**settings) as running:
            asked, said = threading.Event(), []

            def hang(call):
                asked.set()
                endpoint.stopping.wait(kit.PATIENCE_SECONDS)
                return healthy(call)

            def ask():
                result = kit.call(running.url, "retrieve", {"query": "x"}, mode=mode)
                said.append(kit.text_of(result))

            kit.retrieve(running.url, "lamp")
            endpoint.rule = hang
            caller = threading.Thread(target=ask)
            caller.start()
            assert asked.wait(kit.PATIENCE_SECONDS)
            started = time.monotonic()
            code = running.stop()
            seconds = time.monotonic() - started
        endpoint.stopping.set()
        caller.join()

    assert code == 0, running.log
    assert seconds < STOP_SECONDS
    assert "Traceback" not in running.log
    assert said == ["the server is stopping; ask again in a moment"]


def test_sigterm_lets_a_call_finish(own):
    """A call that needs a moment more is answered before the server stops."""
    with fake_endpoint() as endpoint:
        settings = {
            "RAG_EMBED_BACKEND": "openai",
            "LMSTUDIO_BASE_URL": endpoint.base_url,
            "EMBED_MODEL": "fake",
        }
        own.index(**settings)
        with own.serving(**settings) as running:
            asked, answers = threading.Event(), []

            def dawdle(call):
                asked.set()
                endpoint.stopping.wait(0.5)
                return healthy(call)

            def ask():
                tool = {"name": "retrieve", "arguments": {"query": "lamp"}}
                answers.append(kit.post(running.url, kit.request("tools/call", tool)))

            kit.retrieve(running.url, "lamp")
            endpoint.rule = dawdle
            caller = threading.Thread(target=ask)
            caller.start()
            assert asked.wait(kit.PATIENCE_SECONDS)
            code = running.stop()
            caller.join()

    assert code == 0, running.log
    assert kit.message_in(answers[0])["result"]["structuredContent"]["hits"]


def test_server_is_there_when_it_says_so(indexed):
    """Whoever waits for the announcement may connect at once, and stop it at once."""
    with indexed.serving() as running:
        socket.create_connection(("127.0.0.1", running.port), timeout=5).close()
        assert running.stop(signal.SIGINT) == 0
        assert "Traceback" not in running.log


def test_sighup_renews_the_token(own):
    """After SIGHUP the token of .env is the one that counts."""
    dotenv = own.rag_dir / ".env"
    dotenv.write_text(f"RAG_AUTH_TOKEN={TOKEN}\n")
    own.index()
    with own.serving() as running:
        check_status(kit.call(running.url, "corpus_status", token=TOKEN))
        assert kit.post(running.url, kit.initialize()).status_code == 401
        dotenv.write_text("RAG_AUTH_TOKEN=short\n")
        running.process.send_signal(signal.SIGHUP)
        kit.eventually(lambda: "the old token stays" in running.log)
        check_status(kit.call(running.url, "corpus_status", token=TOKEN))
        dotenv.write_text(f"RAG_AUTH_TOKEN={NEXT_TOKEN}\n")
        running.process.send_signal(signal.SIGHUP)
        kit.eventually(lambda: "the token was renewed" in running.log)
        bearer = {"authorization": f"Bearer {TOKEN}"}
        refused = kit.post(running.url, kit.initialize(), **bearer)
        check_status(kit.call(running.url, "corpus_status", token=NEXT_TOKEN))

    assert refused.status_code == 401
    assert TOKEN not in running.log
    assert NEXT_TOKEN not in running.log


# -- the other transports ---------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_stdio_serves_clients_of_both_eras(indexed, mode):
    """Over stdio the official client finds and uses both tools."""
    server = StdioServerParameters(
        command=sys.executable,
        args=[str(kit.ROOT / "serve.py"), "--transport", "stdio"],
        env=indexed.variables(PYTHONPATH=None),
    )

    async def talk():
        with open(indexed.rag_dir / "stdio.log", "w") as log:
            async with Client(stdio_client(server, errlog=log), mode=mode) as client:
                await use(client, MODES[mode])

    anyio.run(talk)


def test_stdio_writes_nothing_but_json_rpc(indexed):
    """Every line on stdout is a JSON-RPC message; the end of stdin ends it, with 0."""
    with subprocess.Popen(
        [sys.executable, str(kit.ROOT / "serve.py"), "--transport", "stdio"],
        env=indexed.variables(PYTHONPATH=None),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        pipe = kit.Pipe(process)
        pipe.send(kit.initialize())
        pipe.receive()
        process.stdin.write("this is no JSON\n")
        pipe.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        call = {"name": "retrieve", "arguments": {"query": "lamp"}}
        pipe.send(kit.request("tools/call", call, number=2))
        answers = [pipe.receive()]
        while answers[-1].get("id") != 2:
            answers.append(pipe.receive())
        process.stdin.close()
        code = process.wait(kit.PATIENCE_SECONDS)
        log = process.stderr.read()

    assert code == 0, log
    assert answers[-1]["result"]["structuredContent"]["hits"]
    assert all(json.loads(line)["jsonrpc"] == "2.0" for line in pipe.lines)
    assert "docs_rag.access method=tools/call ms=" in log
    assert "lamp" not in log
    assert "Traceback" not in log


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stdio_stops_at_a_signal(indexed, number):
    """A signal ends a server on stdio at once, though it waits for a message."""
    with subprocess.Popen(
        [sys.executable, str(kit.ROOT / "serve.py"), "--transport", "stdio"],
        env=indexed.variables(PYTHONPATH=None),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        pipe = kit.Pipe(process)
        pipe.send(kit.initialize())
        pipe.receive()
        process.send_signal(number)
        try:
            code = process.wait(STOP_SECONDS * 3)
        finally:
            process.kill()
        log = process.stderr.read()

    assert code == 0
    assert "Traceback" not in log


def test_sse_serves_clients_of_the_handshake_era(indexed):
    """The deprecated transport works, says that it is deprecated, and stops."""

    async def talk(url):
        async with Client(sse_client(url), mode="legacy") as client:
            await use(client, "2025-11-25")

    with indexed.serving(path="/sse", RAG_MCP_TRANSPORT="sse") as running:
        anyio.run(talk, running.url)
        for path in ("/sse", "/messages/", "/healthz"):
            url = running.url.removesuffix("/sse") + path
            assert httpx2.get(url, headers={"host": "evil.example"}).status_code == 421
        with (
            httpx2.Client(trust_env=False, timeout=30) as client,
            client.stream("GET", running.url) as stream,
        ):
            assert stream.status_code == 200
            started = time.monotonic()
            code = running.stop()
        seconds = time.monotonic() - started

    assert "the transport SSE is deprecated" in running.log
    assert code == 0, running.log
    assert seconds < STOP_SECONDS
    assert "Traceback" not in running.log


def test_unix_socket_serves_its_owner(own):
    """RAG_HOST=unix:/path serves on a socket of mode 0600, gone when it stops."""
    own.index()
    path = own.rag_dir / "s.sock"
    with own.serving(RAG_HOST=f"unix:{path}") as running:
        transport = httpx2.HTTPTransport(uds=str(path))
        with httpx2.Client(transport=transport, trust_env=False) as client:
            alive = client.get("http://localhost/healthz")
            accept = {"accept": "application/json, text/event-stream"}
            answer = client.post(
                "http://localhost/mcp", json=kit.initialize(), headers=accept
            )
        mode = path.stat().st_mode & 0o777
        code = running.stop()

    assert (alive.status_code, answer.status_code) == (200, 200)
    assert mode == 0o600
    assert code == 0
    assert not path.exists()


def test_progress_comes_over_http(own):
    """A call that lasts sends signs of life over HTTP, in either era, when asked to."""
    with fake_endpoint() as endpoint:
        settings = {
            "RAG_EMBED_BACKEND": "openai",
            "LMSTUDIO_BASE_URL": endpoint.base_url,
            "EMBED_MODEL": "fake",
        }
        own.index(**settings)
        told = {mode: [] for mode in MODES}

        def dawdle(call):
            endpoint.stopping.wait(2.5)
            return healthy(call)

        async def ask(url, mode):
            async def note(progress, total, message):
                told[mode].append(message)

            question = {"query": "lamp"}
            async with kit.connected(url, mode) as client:
                result = await client.call_tool(
                    "retrieve", question, progress_callback=note
                )
                assert not result.is_error

        async def ask_both(url):
            async with anyio.create_task_group() as group:
                for mode in MODES:
                    group.start_soon(ask, url, mode)

        with own.serving(**settings) as running:
            kit.retrieve(running.url, "lamp")
            endpoint.rule = dawdle
            anyio.run(ask_both, running.url)

    for mode in MODES:
        assert told[mode][:2] == ["still searching"] * 2


# -- what is not offered, and what is kept alive ----------------------------------


@pytest.mark.parametrize(
    "method",
    [
        "prompts/list",
        "completion/complete",
        "logging/setLevel",
        "resources/subscribe",
        "subscriptions/listen",
        "tasks/list",
    ],
)
def test_methods_that_are_not_offered_are_unknown(site, method):
    """What was never offered is answered as an unknown method: no stream is held."""
    for headers in ({}, {"mcp-protocol-version": "2025-11-25"}, MODERN):
        message = kit.request(method, {"_meta": META} if headers is MODERN else None)
        if headers is MODERN:
            headers = {**headers, "mcp-method": method}
        answer = kit.message_in(kit.post(site.url, message, **headers))
        assert answer["error"]["code"] in (-32601, -32602)


def test_quiet_streams_are_kept_alive():
    """The SDK's interval between signs of life is what clients' timeouts allow."""
    assert EventSourceResponse.DEFAULT_PING_INTERVAL <= 15
    assert MODERN_PING_SECONDS <= 15


@pytest.mark.parametrize("path", ["/mcp", "/mcp/", "/healthz", "/readyz", "/nowhere"])
def test_host_and_origin_are_judged_on_every_route(site, path):
    """The real server turns foreign names and origins away before anything else."""
    base = site.url.removesuffix("/mcp")
    wrong_host = httpx2.get(base + path, headers={"host": "evil.example"})
    origin = {"origin": "http://evil.example"}
    wrong_origin = httpx2.get(base + path, headers=origin)

    assert wrong_host.status_code == 421
    assert wrong_origin.status_code == 403
    assert "access-control-allow-origin" not in wrong_origin.headers


def test_model_and_index_are_loaded_before_the_first_question(indexed):
    """A server warms up by itself: it is ready though nobody has asked anything."""
    with indexed.serving() as running:
        base = running.url.removesuffix("/mcp")

        def is_ready() -> bool:
            return httpx2.get(f"{base}/readyz", trust_env=False).status_code == 200

        kit.eventually(is_ready, "readiness")
        assert "path=/mcp" not in running.log
