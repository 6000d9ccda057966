"""The command line: every verb, what it prints, where, and with which exit code."""

import io
import json
import os
import pty
import signal
import socket
import subprocess
import sys
import threading

import project as kit
import pytest
from fake_endpoint import fake_endpoint, healthy

from docs_rag import __version__
from docs_rag.arguments import build_parser
from docs_rag.cli import main
from docs_rag.locking import corpus_lock
from docs_rag.progress import ProgressMeter
from docs_rag.variables import VARIABLES

TOKEN = "lighthouse-keepers-know-0123456789-abcdef"
QUESTION = "what does LAMP-0502 mean?"


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project of the test's own, and this process set up to work on it."""
    project = kit.make_project(tmp_path)
    enter(project, monkeypatch)
    return project


@pytest.fixture(scope="module")
def indexed(tmp_path_factory):
    """An indexed project that no test changes."""
    project = kit.make_project(tmp_path_factory.mktemp("shared"))
    project.index()
    return project


@pytest.fixture
def inside(indexed, monkeypatch):
    """This process set up to work on the shared project."""
    enter(indexed, monkeypatch)
    return indexed


def enter(project, monkeypatch) -> None:
    for variable in VARIABLES:
        monkeypatch.delenv(variable.name, raising=False)
    for name in ("RAG_DIR", "RAG_CORPUS", "RAG_EMBED_BACKEND", "HOME"):
        monkeypatch.setenv(name, project.variables()[name])


class Input(io.TextIOWrapper):
    """Standard input with these bytes in it."""

    def __init__(self, content: bytes) -> None:
        super().__init__(io.BytesIO(content), encoding="utf-8")


# -- messages and exit codes ------------------------------------------------------

WITHOUT_TOKEN = {"RAG_HOST": "0.0.0.0"}
FAILURES = {
    "no verb": ([], {}, 2, "usage: docs-rag"),
    "an unknown verb": (["serch"], {}, 2, "invalid choice: 'serch'"),
    "an unknown flag": (["status", "--colour"], {}, 2, "--colour"),
    "an abbreviated flag": (["index", "--dry"], {}, 2, "--dry"),
    "k of 0": (["query", "lamp", "-k", "0"], {}, 2, "k must be a whole number"),
    "k of 21": (["query", "lamp", "-k", "21"], {}, 2, "from 1 to 20, not 21"),
    "k in words": (["query", "lamp", "-k", "five"], {}, 2, "invalid int value"),
    "no room": (["query", "lamp", "--max-chars", "0"], {}, 2, "max_chars must be"),
    "an empty query": (["query", "  "], {}, 2, "query is empty"),
    "an empty phrasing": (["query", "lamp", "--also", ""], {}, 2, "also is empty"),
    "no index: query": (["query", "lamp"], {}, 1, "build it with `docs-rag index`"),
    "no index: status": (["status"], {}, 1, "build it with `docs-rag index`"),
    "an exposed bind": (["serve"], WITHOUT_TOKEN, 1, "set RAG_AUTH_TOKEN to at least"),
    "an exposed bind by flag": (["serve", "--host", "::"], {}, 1, "no token is set"),
    "a weak token": (["serve"], {"RAG_AUTH_TOKEN": "1234"}, 1, "shorter than 32"),
    "a blank host": (["serve", "--host", ""], {}, 1, "RAG_HOST is blank"),
    "preflight of it": (["preflight"], WITHOUT_TOKEN, 1, "no token is set"),
    "a wrong port": (["serve"], {"RAG_PORT": "70000"}, 2, "from 1 to 65535"),
    "a wrong transport": (["serve"], {"RAG_MCP_TRANSPORT": "http"}, 2, "stdio, sse"),
    "a wrong backend": (["index"], {"RAG_EMBED_BACKEND": "gpt"}, 2, "use builtin"),
    "openai without a model": (
        ["index"],
        {"RAG_EMBED_BACKEND": "openai"},
        2,
        "EMBED_MODEL",
    ),
    "a folder that is not there": (["init", "nowhere"], {}, 2, "does not exist"),
    "a folder without markdown": (["init", "logs"], {}, 2, "holds no markdown"),
    "nothing listening": (
        ["probe", "http://127.0.0.1:9/mcp"],
        {},
        1,
        "nothing answers there",
    ),
    "no URL": (["probe", "harbour"], {}, 2, "harbour: is no http or https URL"),
    "no such traces": (["trace", "--report", "x"], {}, 1, "x: there is no such file"),
}
NEEDS_A_CORPUS = ("index", "query", "status", "serve", "check-config")


@pytest.mark.parametrize(
    ("words", "variables", "code", "said"), FAILURES.values(), ids=FAILURES
)
def test_failures_say_what_and_exit_so(
    project, monkeypatch, capfd, words, variables, code, said
):
    """Whatever is wrong is said on stderr with its remedy, with the documented code."""
    (project.rag_dir / "logs").mkdir()
    monkeypatch.chdir(project.rag_dir)
    for name, text in variables.items():
        monkeypatch.setenv(name, text)

    result = main(words)
    out, err = capfd.readouterr()

    assert result == code
    assert said in err + (out if words[:1] == ["preflight"] else "")
    assert "Traceback" not in err
    assert "internal error" not in err


@pytest.mark.parametrize("verb", NEEDS_A_CORPUS)
def test_no_corpus_is_guessed(project, monkeypatch, capfd, verb):
    """Where none is chosen, or an unknown one, those that exist are listed: exit 2."""
    words = [verb, "lamp"] if verb == "query" else [verb]
    monkeypatch.delenv("RAG_CORPUS")

    assert main(words) == 2
    assert "set RAG_CORPUS, or --corpus, to one of those" in capfd.readouterr().err
    assert main([*words, "--corpus", "wexcomb"]) == 2
    err = capfd.readouterr().err
    assert 'has no corpus "wexcomb"' in err
    assert 'did you mean "wexcombe"?' in err


@pytest.mark.parametrize("verb", NEEDS_A_CORPUS)
def test_missing_configuration_is_named(project, capfd, verb):
    """Without corpora.json each verb says where it was looked for, and what to do."""
    (project.rag_dir / "corpora.json").unlink()

    assert main([verb, "lamp"] if verb == "query" else [verb]) == 2
    err = capfd.readouterr().err
    assert f"{project.rag_dir / 'corpora.json'}: not found" in err
    assert "docs-rag init DIR" in err


def test_broken_configuration_is_named_by_every_verb(project, capfd):
    """A .env that cannot be read stops every verb that reads it, in one line."""
    (project.rag_dir / ".env").write_text("RAG_PORT 8765\n")

    for words in (["index"], ["query", "x"], ["status"], ["trace", "--report"]):
        assert main(words) == 2
        err = capfd.readouterr().err
        assert str(project.rag_dir / ".env") in err
        assert err.count("\n") == 1


def test_port_that_is_taken_is_named(project):
    """A second server on a port says which port and how to choose another."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = project.run("serve", "--port", str(port))

    assert done.returncode == 2
    assert f"cannot listen on 127.0.0.1 port {port}" in done.stderr
    assert "RAG_PORT" in done.stderr
    assert "Traceback" not in done.stderr


def test_exposed_server_without_a_token_never_listens(project):
    """The refusal comes before a socket is opened, for the door as for the verb."""
    port = kit.free_port()
    done = project.run(
        *("--host", "0.0.0.0", "--port", str(port)),
        command=(str(kit.ROOT / "serve.py"),),
        PYTHONPATH=None,
    )

    assert done.returncode == 1
    assert "other machines may reach it" in done.stderr
    assert "RAG_AUTH_TOKEN" in done.stderr
    assert "Traceback" not in done.stderr
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=5)


def test_internal_error_is_one_line_unless_debugged(project, monkeypatch, capfd):
    """A fault of our own is one line and exit 1; with --debug it is a traceback."""
    project.data_dir.parent.joinpath("corpora.json").unlink()
    project.data_dir.parent.joinpath("corpora.json").mkdir()

    assert main(["status"]) in (1, 2)
    assert capfd.readouterr().err.count("\n") == 1
    with pytest.raises(Exception, match=r"corpora\.json"):
        main(["--debug", "status"])


# -- index ------------------------------------------------------------------------


def test_index_reports_what_it_did(project, capfd):
    """The report names added, changed and purged files, and costs nothing twice."""
    assert main(["index"]) == 0
    first = capfd.readouterr().out
    project.write({"docs/tides.md": "# Tides\n\nHigh water: a red ball.\n"})
    (project.corpus_dir / "docs/lamps.md").unlink()
    assert main(["index", "--json"]) == 0
    report = json.loads(capfd.readouterr().out)
    assert main(["index", "--json"]) == 0
    idle = json.loads(capfd.readouterr().out)

    assert "3 added" in first
    assert "3 files" in first
    assert report["changed"] == ["docs/tides.md"]
    assert report["purged"] == ["docs/lamps.md"]
    assert (idle["embedded"], idle["unchanged"]) == (0, 2)
    assert idle["generation"] == report["generation"]


def test_index_dry_run_writes_nothing(project, capfd):
    """--dry-run shows the plan, makes no file, and does not end the next run's work."""
    assert main(["index", "--dry-run"]) == 0
    out = capfd.readouterr().out

    assert "+ docs/lamps.md" in out
    assert "dry run, nothing was written" in out
    assert not project.data_dir.exists()


def test_index_full_embeds_everything_anew(project, capfd):
    """--full rebuilds: every text is embedded again, under a later generation."""
    before = project.index().generation
    assert main(["index", "--full", "--json"]) == 0
    report = json.loads(capfd.readouterr().out)

    assert report["full"] is True
    assert report["embedded"] >= 3
    assert report["generation"] > before


def test_index_that_would_shrink_is_refused(project, capfd):
    """Losing most files needs --allow-shrink; without it they are listed, exit 1."""
    project.index()
    for name in ("docs/lamps.md", "docs/tides.md"):
        (project.corpus_dir / name).unlink()

    assert main(["index"]) == 1
    err = capfd.readouterr().err
    assert "--allow-shrink" in err
    assert "docs/lamps.md" in err
    assert main(["index", "--allow-shrink", "--json"]) == 0
    assert len(json.loads(capfd.readouterr().out)["purged"]) == 2


def test_index_under_a_lock_exits_75(project, capfd):
    """While another run holds the lock, this one says who does, and exits 75."""
    settings = kit.load_settings(project.variables())
    corpus = settings.chosen()
    with corpus_lock(corpus.lock_path, corpus.name):
        assert main(["index"]) == 75

    assert str(os.getpid()) in capfd.readouterr().err


def test_unmatched_entries_are_reported_by_every_run(project, capfd):
    """An entry that matches nothing is warned of by index, status, check-config."""
    config = {"wexcombe": {"roots": ["docs", "handbook"]}}
    (project.rag_dir / "corpora.json").write_text(json.dumps(config))
    for words, stream, said in (
        (["index"], "err", "warning: scope entry matched nothing: roots: handbook"),
        (["index"], "err", "warning: scope entry matched nothing: roots: handbook"),
        (["status"], "out", "scope entry matched nothing: roots: handbook"),
        (["check-config"], "out", "roots: handbook: MATCHED NOTHING"),
    ):
        assert main(words) == 0
        assert said in getattr(capfd.readouterr(), stream)


# -- query and status -------------------------------------------------------------


def test_query_prints_cited_passages(inside, capfd):
    """The text names verdict, file, lines and id, and quotes the passage."""
    assert main(["query", QUESTION, "-k", "1"]) == 0
    out = capfd.readouterr().out

    assert out.startswith("match: ")
    assert "1 passage |" in out
    assert "[1] docs/lamps.md:" in out
    assert "id: docs-rag://wexcombe/docs/lamps.md#" in out
    assert "fuse of the lamp is blown" in out


def test_query_json_is_the_tool_result(inside, capfd):
    """--json prints what the MCP tool returns; -k, --also and --explain have effect."""
    words = ["query", QUESTION, "--json", "-k", "2", "--also", "two bells"]
    assert main([*words, "--explain"]) == 0
    answer = json.loads(capfd.readouterr().out)

    assert len(answer["hits"]) == 2
    assert {hit["path"] for hit in answer["hits"]} == {"docs/lamps.md", "docs/tides.md"}
    assert answer["hits"][0]["path"] == "docs/lamps.md"
    assert answer["explain"]["total_ms"] > 0
    first = answer["explain"]["phrasings"][0]
    assert first["query"] == QUESTION
    assert first["hits"][0]["path"] == "docs/lamps.md"
    assert main(words) == 0
    assert "explain" not in json.loads(capfd.readouterr().out)


def test_query_explains_in_text(inside, capfd):
    """--explain adds the terms behind rank and verdict below the passages."""
    assert main(["query", QUESTION, "--explain"]) == 0

    out = capfd.readouterr().out
    assert "\nexplain:\n  engine: " in out
    assert "\n  match: " in out
    assert "\n    words:\n      what: weight 0.0" in out


def test_query_without_a_match_quotes_only_if_asked(project, monkeypatch, capfd):
    """With the verdict none the nearest passages are not quoted, unless --all."""
    monkeypatch.setenv("RAG_EMBED_BACKEND", "builtin")
    assert main(["index"]) == 0
    capfd.readouterr()
    assert main(["query", "zymurgy", "--json"]) == 0
    kept_back = json.loads(capfd.readouterr().out)
    assert main(["query", "zymurgy", "--json", "--all"]) == 0
    quoted = json.loads(capfd.readouterr().out)

    assert (kept_back["match"], quoted["match"]) == ("none", "none")
    assert kept_back["hits"] == []
    assert kept_back["omitted"]
    assert quoted["hits"]


def test_drafts_can_be_measured(inside, tmp_path, capfd):
    """What `golden draft` writes, `eval` reads, and the served index is left alone."""
    golden, report = tmp_path / "golden.jsonl", tmp_path / "report.md"
    assert main(["golden", "draft", "--out", str(golden)]) == 0
    assert main(["status", "--json"]) == 0
    before = json.loads(capfd.readouterr().out)
    words = ["eval", "--golden", str(golden), "--report", str(report)]
    assert main([*words, "--min-recall", "0.5"]) == 0
    shown = capfd.readouterr()

    assert f"docs-rag eval --golden {golden}" in shown.out
    assert "model `stub:stub`" in shown.out
    assert report.read_text(encoding="utf-8") == shown.out.removesuffix("\n")
    assert main([*words, "--min-mrr", "1.1"]) == 1
    assert "VIOLATION: mrr is" in capfd.readouterr().err
    assert main(["status", "--json"]) == 0
    after = json.loads(capfd.readouterr().out)
    assert after["generation"] == before["generation"]


def test_eval_names_a_golden_file_that_is_not_there(inside, capfd):
    """A golden file is needed, and must be there: exit code 2 otherwise."""
    assert main(["eval"]) == 2
    assert "--golden" in capfd.readouterr().err
    assert main(["eval", "--golden", "/nowhere/golden.jsonl"]) == 2
    assert "/nowhere/golden.jsonl: cannot be read" in capfd.readouterr().err


@pytest.mark.parametrize(
    "content",
    [b"LAMP-0502\n", b"LAMP-0502 \xff\xfe\x00", "LAMP-0502 größe 日本".encode()],
    ids=["text", "bytes", "unicode"],
)
def test_query_reads_standard_input(inside, monkeypatch, capfd, content):
    """Without an argument the question is what standard input holds, any bytes."""
    monkeypatch.setattr(sys, "stdin", Input(content))

    assert main(["query", "--json", "-k", "1", "--all"]) == 0
    answer = json.loads(capfd.readouterr().out)
    assert answer["hits"][0]["path"] == "docs/lamps.md"


def test_query_asks_for_a_question_on_a_terminal(inside, monkeypatch, capfd):
    """On a terminal, or with no standard input at all, nothing is waited for."""
    ours, theirs = pty.openpty()
    with open(ours, "rb"), open(theirs, encoding="utf-8") as terminal:
        monkeypatch.setattr(sys, "stdin", terminal)
        assert main(["query"]) == 2
    monkeypatch.setattr(sys, "stdin", None)
    assert main(["query"]) == 2
    assert capfd.readouterr().err.count("no question") == 2


def test_status_says_what_is_held(inside, capfd):
    """status prints counts, model and freshness, and the same as JSON."""
    assert main(["status"]) == 0
    text = capfd.readouterr().out
    assert main(["status", "--json"]) == 0
    status = json.loads(capfd.readouterr().out)

    assert "files: 3" in text
    assert "backend stub" in text
    assert (status["files"], status["embedding"]["backend"]) == (3, "stub")


# -- init, check-config, clients, preflight ---------------------------------------


def test_init_writes_what_it_shows(project, capfd):
    """Without a terminal init writes at once; --dry-run does not; a name is kept."""
    source = project.rag_dir / "manuals"
    source.mkdir()
    (source / "README.md").write_text("# Manuals\n")
    path = project.rag_dir / "corpora.json"
    before = path.read_text()

    assert main(["init", str(source), "--dry-run"]) == 0
    assert "was not written" in capfd.readouterr().out
    assert path.read_text() == before
    assert main(["init", str(source)]) == 0
    assert "next: RAG_CORPUS=manuals docs-rag index" in capfd.readouterr().out
    assert set(json.loads(path.read_text())) == {"wexcombe", "manuals"}
    assert main(["init", str(source)]) == 2
    assert "--replace" in capfd.readouterr().err
    assert main(["init", str(source), "--replace"]) == 0
    assert main(["init", str(source), "--name", "other"]) == 0
    assert main(["index", "--corpus", "other"]) == 0


@pytest.mark.parametrize(
    ("answer", "code"), [("y\n", 0), ("\n", 0), ("n\n", 1), ("\x04", 1)]
)
def test_init_asks_on_a_terminal(project, answer, code):
    """On a terminal init asks first, and writes nothing unless the answer is yes."""
    source = project.rag_dir / "manuals"
    source.mkdir()
    (source / "README.md").write_text("# Manuals\n")
    ours, theirs = pty.openpty()
    with open(ours, "r+b", buffering=0) as terminal:
        process = subprocess.Popen(
            [sys.executable, "-m", "docs_rag", "init", str(source)],
            **dict.fromkeys(("stdin", "stdout", "stderr"), theirs),
            env=project.variables(),
            start_new_session=True,
        )
        os.close(theirs)
        shown = read_until(terminal, b"[Y/n]")
        terminal.write(answer.encode())
        assert process.wait(kit.PATIENCE_SECONDS) == code, shown
    written = json.loads((project.rag_dir / "corpora.json").read_text())

    assert ("manuals" in written) is (code == 0)


def read_until(terminal, what: bytes) -> bytes:
    shown = b""
    while what not in shown:
        shown += os.read(terminal.fileno(), 4096)
    return shown


def test_check_config_masks_secrets(project, monkeypatch, capfd):
    """check-config names each value's origin, and shows stars for secrets."""
    monkeypatch.setenv("RAG_AUTH_TOKEN", TOKEN)
    (project.rag_dir / ".env").write_text("LMSTUDIO_API_KEY=sesame-and-lilies\n")
    assert main(["check-config"]) == 0
    text = capfd.readouterr().out
    assert main(["check-config", "--json"]) == 0
    everything = capfd.readouterr().out
    settings = {row["name"]: row for row in json.loads(everything)["settings"]}

    for secret in (TOKEN, "sesame-and-lilies"):
        assert secret not in text + everything
    assert settings["auth_token"]["value"] == "**********"
    assert settings["api_key"]["origin"] == ".env"
    assert settings["corpus"]["origin"] == "environment RAG_CORPUS"
    assert "roots: docs: 2 files\n  docs/lamps.md\n  docs/tides.md" in text


def test_slips_in_variable_names_are_noticed(inside, monkeypatch, capfd):
    """A variable that nothing reads and that looks like a setting is pointed out."""
    monkeypatch.setenv("RAG_CORPUS_DIRECTORY", "/nowhere")

    assert main(["status"]) == 0
    assert "did you mean RAG_CORPUS_DIR?" in capfd.readouterr().err


def test_clients_prints_each_configuration(capfd):
    """clients prints what to paste, for the URL given, the token by name only."""
    assert main(["clients", "http://127.0.0.1:9000/mcp", "--token"]) == 0
    out = capfd.readouterr().out

    for client in ("Claude Code", "Codex", "Cursor", "VS Code", "Gemini CLI"):
        assert f"# {client}: " in out
    assert "http://127.0.0.1:9000/mcp" in out
    assert "RAG_AUTH_TOKEN" in out


def test_preflight_says_what_would_be_done(project, monkeypatch, capfd):
    """preflight says where the server would listen, and exits 0 if it may."""
    monkeypatch.setenv("RAG_AUTH_TOKEN", TOKEN)

    assert main(["preflight", "--host", "0.0.0.0", "--port", "9000"]) == 0
    out = capfd.readouterr().out
    assert "0.0.0.0 port 9000" in out
    assert "asked of every request" in out
    assert TOKEN not in out


# -- streams, signals, locales ----------------------------------------------------

LONG_ENOUGH_TO_MATTER = ["query", "lamp", "-k", "20"]


@pytest.mark.parametrize(
    "words",
    [["--help"], LONG_ENOUGH_TO_MATTER, ["status", "--json"], ["trace", "--help"]],
    ids=["help", "query", "status", "trace"],
)
def test_output_closed_early_is_no_error(indexed, words):
    """Whoever reads one line and leaves causes neither a complaint nor a failure."""
    process = subprocess.Popen(
        [sys.executable, "-m", "docs_rag", *words],
        env=indexed.variables(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    process.stdout.close()
    with process.stderr:
        err = process.stderr.read()

    assert process.wait(kit.PATIENCE_SECONDS) == 0
    assert err == b""


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
def test_output_that_cannot_be_written_is_an_error(indexed):
    """A full disk behind the output is said in one line: exit 1."""
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "docs_rag", "status"],
            env=indexed.variables(),
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )

    assert done.returncode == 1
    assert done.stderr.startswith(b"docs-rag: the output cannot be written")
    assert done.stderr.count(b"\n") == 1


def test_interrupt_is_a_sentence(project):
    """Ctrl-C during a run says what stays, and exits 130."""
    with fake_endpoint() as endpoint:
        asked = threading.Event()

        def hang(call):
            asked.set()
            endpoint.stopping.wait(kit.PATIENCE_SECONDS)
            return healthy(call)

        endpoint.rule = hang
        with subprocess.Popen(
            [sys.executable, "-m", "docs_rag", "index"],
            env=project.variables(
                RAG_EMBED_BACKEND="openai",
                LMSTUDIO_BASE_URL=endpoint.base_url,
                EMBED_MODEL="fake",
            ),
            stderr=subprocess.PIPE,
        ) as process:
            assert asked.wait(kit.PATIENCE_SECONDS)
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=kit.PATIENCE_SECONDS)

    assert process.returncode == 130
    assert err == (
        b"docs-rag: interrupted; what is committed stays, run again to go on\n"
    )


@pytest.mark.parametrize(
    "locale",
    [
        {"LC_ALL": "C"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"LC_ALL": "POSIX", "PYTHONIOENCODING": "ascii"},
    ],
    ids=["C", "C without UTF-8 mode", "ascii output"],
)
def test_locale_makes_no_difference(tmp_path, locale):
    """Names and text beyond ASCII are indexed and found, whatever the locale says."""
    pages = {"docs/größe.md": "# Größe\n\nDie Größe der Lampe: 日本 12 mm.\n"}
    project = kit.make_project(tmp_path / "Häfen", pages, top_files=[])
    indexed = project.run("index", "--json", **locale)
    asked = project.run("query", "Größe", "--json", **locale)
    found = project.run("query", "--json", stdin="日本".encode(), **locale)
    shown = project.run("check-config", **locale)

    assert json.loads(indexed.stdout)["added"] == ["docs/größe.md"]
    for done in (indexed, asked, found, shown):
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
    for done in (asked, found):
        assert json.loads(done.stdout)["hits"][0]["similarity"] is not None


def test_argument_bytes_that_are_not_utf8_are_a_query(indexed):
    """An argument of any bytes is a legal query."""
    done = indexed.run("query", b"LAMP-0502 \xff\xfe", "--json", "--also", b"\xff")

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["hits"][0]["path"] == "docs/lamps.md"


# -- progress ---------------------------------------------------------------------


def test_progress_is_a_bar_on_a_terminal(project):
    """On a terminal a bar moves on standard error, and is gone at the end."""
    ours, theirs = pty.openpty()
    with open(ours, "rb", buffering=0) as terminal:
        process = subprocess.Popen(
            [sys.executable, "-m", "docs_rag", "index"],
            env=project.variables(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=theirs,
        )
        os.close(theirs)
        shown = b""
        while chunk := read_terminal(terminal):
            shown += chunk
        with process:
            out = process.stdout.read()

    assert b"embedding" in shown
    assert b"/3 [" in shown
    assert shown.endswith(b"\r")
    assert not shown.rstrip(b"\r").rpartition(b"\r")[2].strip()
    assert b"embedding" not in out.replace(b"embedded", b"")
    assert b"3 added" in out


def read_terminal(terminal) -> bytes:
    try:
        return os.read(terminal.fileno(), 4096)
    except OSError:  # the other side is closed
        return b""


def test_progress_is_plain_lines_in_a_log():
    """In a log progress is whole lines, and no more of them than asked for."""
    often, seldom = io.StringIO(), io.StringIO()
    for stream, seconds in ((often, 0.0), (seldom, 3600.0)):
        meter = ProgressMeter(stream, seconds)
        for done in range(3):
            meter("embedding", done, 3)
        meter.close()

    assert often.getvalue().splitlines() == [
        f"embedding: {done} of 3 files" for done in range(3)
    ]
    assert seldom.getvalue() == ""


def test_progress_without_a_stream_is_silent():
    """Where standard error is closed, progress goes nowhere."""
    meter = ProgressMeter(None)
    meter("embedding", 1, 2)
    meter.close()


# -- the parser -------------------------------------------------------------------


def test_every_verb_has_help(capsys):
    """Each verb answers --help with exit 0, and says what it is for."""
    verbs = next(
        action.choices
        for action in build_parser()._actions
        if hasattr(action, "choices") and action.choices
    )

    for verb in verbs:
        assert main([verb, "--help"]) == 0
        assert len(capsys.readouterr().out) > 100


def test_version_is_the_package_version(capsys):
    """--version prints the version of the package."""
    assert main(["--version"]) == 0

    assert capsys.readouterr().out == f"docs-rag {__version__}\n"


@pytest.mark.parametrize("door", ["serve.py", "indexer.py"])
def test_a_python_without_the_packages_is_told_so(door):
    """A door run by a Python that lacks a package names it and what to do."""
    done = subprocess.run(
        [sys.executable, "-S", str(kit.ROOT / door)],
        env={"PATH": "/usr/bin:/bin"},
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 2
    assert "is not installed for" in done.stderr
    assert "pip install" in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_the_question_of_binding_needs_no_package():
    """Whether a server may start is decided by a Python that has nothing installed."""
    done = subprocess.run(
        [sys.executable, "-S", str(kit.ROOT / "netguard.py")],
        env={"PATH": "/usr/bin:/bin"},
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert "127.0.0.1" in done.stdout


def test_a_question_needs_no_quotes(project, capsys):
    """Words of a question that the shell took apart are one question."""
    project.index()
    main(["query", "-k", "1", "what", "does", "LAMP-0502", "mean?"])

    assert f"query: {QUESTION}" in capsys.readouterr().out
