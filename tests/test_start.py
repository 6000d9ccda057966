"""Tests of what starting costs: by what is imported and waited for, never by time."""

import subprocess
import sys
import threading

import project as kit
import pytest
from fake_endpoint import fake_endpoint, healthy

# Runs a command in this process and says which packages it brought along.
TELLING = (
    "import sys\n"
    "from docs_rag.cli import main\n"
    "code = main(sys.argv[1:])\n"
    "print(code, *sorted({name.partition('.')[0] for name in sys.modules}))\n"
)
# Each takes longer to import than a question takes.
NEEDLESS = {"pydantic", "mcp", "httpx", "markdown_it", "uvicorn", "starlette", "tqdm"}


@pytest.fixture
def project(tmp_path):
    return kit.make_project(tmp_path)


def imported_by(project, *words, **variables):
    done = subprocess.run(
        [sys.executable, "-c", TELLING, *words],
        env=project.variables(**variables),
        capture_output=True,
        text=True,
        check=True,
    )
    code, *names = done.stdout.splitlines()[-1].split()
    assert code == "0", done.stderr
    return set(names)


@pytest.mark.parametrize("backend", ["builtin", "stub"])
def test_a_question_imports_no_more_than_it_needs(project, backend):
    """No markdown parser, no HTTP client, no protocol: an answer needs none."""
    project.index(RAG_EMBED_BACKEND=backend)
    names = imported_by(project, "query", "lamp", RAG_EMBED_BACKEND=backend)

    assert "numpy" in names
    assert names & NEEDLESS == set()


def test_a_trace_report_needs_the_standard_library_alone(project, tmp_path):
    """It runs with any Python, also where nothing is installed."""
    traces = tmp_path / "traces.jsonl"
    traces.write_text("")
    names = imported_by(project, "trace", "--report", str(traces))
    plain = subprocess.run(
        [sys.executable, "-c", TELLING.replace("main(sys.argv[1:])", "0")],
        env=project.variables(),
        capture_output=True,
        text=True,
        check=True,
    )

    found = names - {*plain.stdout.split(), *sys.stdlib_module_names}
    assert {name for name in found if not name.startswith("_sysconfigdata")} == set()


def test_the_handshake_does_not_wait_for_the_model(project):
    """A client may connect and list tools while the model is still being loaded."""
    with fake_endpoint() as endpoint:
        settings = {
            "RAG_EMBED_BACKEND": "openai",
            "LMSTUDIO_BASE_URL": endpoint.base_url,
            "EMBED_MODEL": "fake",
        }
        project.index(**settings)
        loading, loaded = threading.Event(), threading.Event()

        def hang(call):
            loading.set()
            loaded.wait(kit.PATIENCE_SECONDS)
            return healthy(call)

        endpoint.rule = hang
        with project.serving(**settings) as running:
            try:
                assert loading.wait(kit.PATIENCE_SECONDS)
                hello = kit.message_in(kit.post(running.url, kit.initialize()))
                tools = kit.message_in(kit.post(running.url, kit.request("tools/list")))
            finally:
                was_loaded = loaded.is_set()
                loaded.set()

    assert not was_loaded
    assert hello["result"]["serverInfo"]["name"]
    assert [tool["name"] for tool in tools["result"]["tools"]]
