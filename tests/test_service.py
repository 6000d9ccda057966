"""Both doors leave a trace of every call, and nothing in it that gives words away."""

import json
from pathlib import Path

import project as kit
import pytest

TOKEN = "lighthouse-keepers-know-0123456789-abcdef"
QUESTION = "what does LAMP-0502 mean?"
ANSWER = "fuse of the lamp is blown"
TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"


@pytest.fixture
def project(tmp_path: Path) -> kit.Project:
    made = kit.make_project(tmp_path)
    made.index()
    return made


def records(project: kit.Project) -> list[dict]:
    path = project.rag_dir / "logs" / "traces-wexcombe.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]


def log_bytes(project: kit.Project) -> bytes:
    return b"".join(p.read_bytes() for p in (project.rag_dir / "logs").iterdir())


def call_with(headers: dict[str, str], meta: dict[str, str]) -> dict:
    """Return the message and headers of one ``retrieve`` of the handshake era."""
    params = {"name": "retrieve", "arguments": {"query": QUESTION}, "_meta": meta}
    return {"message": kit.request("tools/call", params), "headers": headers}


@pytest.mark.parametrize(
    ("headers", "meta", "continued"),
    [
        ({"traceparent": PARENT}, {}, True),
        ({}, {"traceparent": PARENT}, True),
        ({"traceparent": "00-nonsense"}, {}, False),
        ({}, {}, False),
    ],
    ids=["header", "_meta", "malformed", "none"],
)
def test_the_caller_s_trace_goes_on(
    project: kit.Project, headers: dict[str, str], meta: dict[str, str], continued: bool
) -> None:
    """A valid traceparent, wherever it is sent, is continued; a bad one is ignored."""
    with project.serving() as server:
        sent = call_with(headers, meta)
        response = kit.post(server.url, sent["message"], **sent["headers"])
        assert not kit.message_in(response)["result"].get("isError")

    (record,) = records(project)
    assert (record["trace_id"] == TRACE) is continued


def test_every_call_is_metered_without_its_words(project: kit.Project) -> None:
    """One line in each file a call, by either door; no query, no answer, no token."""
    with project.serving(RAG_AUTH_TOKEN=TOKEN) as server:
        answer = kit.call(server.url, "retrieve", {"query": QUESTION}, token=TOKEN)
        assert ANSWER in kit.text_of(answer)
        assert not kit.call(server.url, "corpus_status", token=TOKEN).is_error
    assert project.run("query", QUESTION).returncode == 0

    logs = log_bytes(project)
    assert len(records(project)) == 3
    metering = project.rag_dir / "logs" / "queries-wexcombe.log"
    assert len(metering.read_text().splitlines()) == 3
    for word in (TOKEN, QUESTION, "LAMP-0502", ANSWER):
        assert word.encode() not in logs


def test_words_are_kept_where_that_was_asked_for(project: kit.Project) -> None:
    """RAG_TRACE_CONTENT=1 keeps the query and the answer."""
    project.run("query", QUESTION, RAG_TRACE_CONTENT="1")

    assert QUESTION.encode() in log_bytes(project)
    assert ANSWER.encode() in log_bytes(project)


def test_traces_that_cannot_be_written_are_counted(project: kit.Project) -> None:
    """A trace folder that is a file fails no call; the status counts what was lost."""
    (project.rag_dir / "logs").write_text("in the way")
    with project.serving() as server:
        for _ in range(2):
            assert kit.retrieve(server.url, QUESTION)["hits"]
        status = kit.call(server.url, "corpus_status").structured_content

    assert status["traces_dropped"] == 2
