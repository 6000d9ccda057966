"""Rules of resolving the settings of a process."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from layouts import configure

from docs_rag.config import (
    Backend,
    Settings,
    Transport,
    current_environment,
    load_settings,
    merged_environment,
    split_model,
)
from docs_rag.errors import EXIT_USAGE, ConfigError, UnknownCorpusError
from docs_rag.records import Secret

DEMO = {"demo": {"roots": ["docs"]}}


def load(
    rag_dir: Path, dotenv: str = "", flags: dict[str, object] | None = None, **env: str
) -> Settings:
    """Load the settings of ``rag_dir`` from these sources alone."""
    if dotenv:
        (rag_dir / ".env").write_text(dotenv)
    return load_settings({"RAG_DIR": str(rag_dir), **env}, flags)


def test_everything_has_a_default(tmp_path: Path) -> None:
    """With no file and an empty environment the settings are the documented ones."""
    settings = load_settings({"HOME": str(tmp_path)})

    assert settings.rag_dir == tmp_path / "rag-service"
    assert settings.config_path == tmp_path / "rag-service" / "corpora.json"
    assert settings.trace_dir == tmp_path / "rag-service" / "logs"
    assert (settings.corpora, settings.corpus, settings.corpus_name) == ({}, None, None)
    assert (settings.host, settings.port) == ("127.0.0.1", 8765)
    assert settings.transport is Transport.STREAMABLE_HTTP
    assert settings.backend is Backend.BUILTIN
    assert (settings.embed_model, settings.embed_model_path) == (None, None)
    assert settings.base_url == "http://127.0.0.1:1234/v1"
    assert (settings.api_key, settings.auth_token) == (Secret(""), None)
    assert (settings.allowed_hosts, settings.allowed_origins) == ((), ())
    assert settings.trace_content is False
    assert set(settings.origins.values()) == {"default"}


def test_the_account_has_a_home_where_the_environment_names_none() -> None:
    """A service manager may start with an empty environment."""
    rag_dir = load_settings({}).rag_dir

    assert rag_dir.is_absolute()
    assert rag_dir.name == "rag-service"


@pytest.mark.parametrize(
    ("written", "expected"),
    [("~", ""), ("~/x/../rag", "rag"), ("~//rag/", "rag"), (" ~/rag ", "rag")],
)
def test_rag_dir_expands_the_home_directory(
    written: str, expected: str, tmp_path: Path
) -> None:
    """~ in RAG_DIR is the HOME of the mapping."""
    settings = load_settings({"HOME": str(tmp_path), "RAG_DIR": written})

    assert settings.rag_dir == tmp_path / expected


def test_a_relative_rag_dir_is_seen_from_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RAG_DIR alone is relative to where the command runs."""
    monkeypatch.chdir(tmp_path)

    assert load_settings({"RAG_DIR": "rag"}).rag_dir == tmp_path / "rag"


PORT_SOURCES = {
    "flag --port": 1,
    "environment RAG_PORT": 2,
    ".env": 3,
    "default": 8765,
}


@pytest.mark.parametrize("first", range(4), ids=list(PORT_SOURCES))
def test_flag_beats_environment_beats_dotenv_beats_default(
    first: int, tmp_path: Path
) -> None:
    """Each source counts where those before it are silent, and is the origin told."""
    flags: dict[str, object] = {"port": 1} if first <= 0 else {"port": None}
    env = {"RAG_PORT": "2"} if first <= 1 else {}
    settings = load(tmp_path, "RAG_PORT=3" if first <= 2 else "", flags, **env)

    origin = list(PORT_SOURCES)[first]
    assert settings.origins["port"] == origin
    assert settings.port == PORT_SOURCES[origin]


NOTE_SOURCES = ["flag --system-note", "environment RAG_SYSTEM_NOTE", ".env"]


@pytest.mark.parametrize("first", range(5))
def test_corpora_json_stands_between_dotenv_and_default(
    first: int, tmp_path: Path
) -> None:
    """What a corpus says of itself yields to all but the default."""
    note = {"system_note": "json"} if first <= 3 else {}
    configure(tmp_path, {"demo": {"roots": ["docs"], **note}})
    flags: dict[str, object] = {"system_note": "flag"} if first <= 0 else {}
    env = {"RAG_SYSTEM_NOTE": "env"} if first <= 1 else {}
    dotenv = "RAG_SYSTEM_NOTE=dotenv" if first <= 2 else ""
    settings = load(tmp_path, dotenv, flags, RAG_CORPUS="demo", **env)

    origins = [*NOTE_SOURCES, "corpora.json", "default"]
    assert settings.origins["system_note"] == origins[first]
    expected = ["flag", "env", "dotenv", "json", ""][first]
    assert settings.chosen().system_note == expected


@pytest.mark.parametrize("blank", ["", "  ", "\t\n"], ids=repr)
def test_a_blank_value_counts_as_unset(blank: str, tmp_path: Path) -> None:
    """A blank variable lets the next source speak."""
    settings = load(
        tmp_path,
        "RAG_PORT=9001\nRAG_AUTH_TOKEN=\n",
        {"transport": blank},
        RAG_PORT=blank,
        RAG_CORPUS=blank,
        RAG_AUTH_TOKEN=blank,
        RAG_MCP_TRANSPORT="stdio",
    )

    assert settings.port == 9001
    assert settings.transport is Transport.STDIO
    assert settings.corpus_name is None
    assert settings.auth_token is None


@pytest.mark.parametrize(
    ("dotenv", "flags", "env"),
    [
        pytest.param("", {}, {"RAG_HOST": " "}, id="environment"),
        pytest.param("RAG_HOST=", {}, {}, id="dotenv"),
        pytest.param("RAG_HOST=::1", {"host": ""}, {"RAG_HOST": "::1"}, id="flag"),
        pytest.param("RAG_HOST=::1", {}, {"RAG_HOST": ""}, id="over-dotenv"),
    ],
)
def test_a_blank_host_is_kept_for_the_guard(
    dotenv: str, flags: dict[str, object], env: dict[str, str], tmp_path: Path
) -> None:
    """An explicitly blank host never turns into the default by itself."""
    assert load(tmp_path, dotenv, flags, **env).host == ""


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("RAG_PORT", "0", "give a number from 1 to 65535"),
        ("RAG_PORT", "65536", '"65536" is no port'),
        ("RAG_PORT", "80a", '"80a" is no port'),
        ("RAG_PORT", "-1", '"-1" is no port'),
        ("RAG_PORT", "8_7", '"8_7" is no port'),
        ("RAG_PORT", "٣", "is no port"),
        ("RAG_MCP_TRANSPORT", "http", "use streamable-http, stdio, sse"),
        ("RAG_MCP_TRANSPORT", "stdoi", 'did you mean "stdio"?'),
        ("RAG_EMBED_BACKEND", "lmstudio", "use builtin, fastembed, openai, stub"),
        ("RAG_EMBED_BACKEND", "fastembd", 'did you mean "fastembed"?'),
        ("RAG_TRACE_CONTENT", "maybe", "write 1 for yes or 0 for no"),
        ("LMSTUDIO_BASE_URL", "localhost:1234", "write http://host:port/v1"),
        ("LMSTUDIO_BASE_URL", "ftp://host/v1", "is no http or https URL"),
        ("LMSTUDIO_BASE_URL", "http://host:99999/v1", "is no http or https URL"),
        ("LMSTUDIO_BASE_URL", "http://[::1/v1", "is no http or https URL"),
        ("LMSTUDIO_BASE_URL", "http://h/v1?key=x", "put the key into LMSTUDIO_API_KEY"),
        ("LMSTUDIO_BASE_URL", "http://u:p@h/v1", "holds a user, a query or a fragment"),
        ("RAG_AUTH_TOKEN", "a\nb", "holds a line end or control character"),
        ("LMSTUDIO_API_KEY", "a\x00b", "holds a line end or control character"),
    ],
)
def test_a_bad_value_names_its_variable_and_the_remedy(
    variable: str, value: str, words: str, tmp_path: Path
) -> None:
    """One line: which variable of which source, what is wrong, what is allowed."""
    with pytest.raises(ConfigError) as caught:
        load_settings({"RAG_DIR": str(tmp_path), variable: value})

    message = str(caught.value)
    assert message.startswith(f"environment {variable}: ")
    assert words in message
    assert "\n" not in message
    assert caught.value.exit_code == EXIT_USAGE


def test_a_bad_value_names_the_flag_or_the_file(tmp_path: Path) -> None:
    """A flag and a line of .env are named as such."""
    with pytest.raises(ConfigError, match=r"^flag --port: "):
        load(tmp_path, flags={"port": 0})
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, "RAG_PORT=x")

    assert str(caught.value).startswith(f"{tmp_path / '.env'}: RAG_PORT: ")


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("RAG_AUTH_TOKEN", "hunter2\x07"),
        ("LMSTUDIO_API_KEY", "hunter2\n2"),
        ("LMSTUDIO_BASE_URL", "http://hunter2@host/v1"),
        ("LMSTUDIO_BASE_URL", "hunter2"),
        ("LMSTUDIO_BASE_URL", "https://host/v1#hunter2"),
    ],
)
def test_a_refused_secret_is_not_repeated(
    variable: str, value: str, tmp_path: Path
) -> None:
    """What may be a secret stays out of the message that refuses it."""
    with pytest.raises(ConfigError) as caught:
        load_settings({"RAG_DIR": str(tmp_path), variable: value})

    assert "hunter2" not in str(caught.value)


def test_values_are_read_as_they_are_documented(tmp_path: Path) -> None:
    """Lists, switches, choices, places and URLs take their plain forms."""
    settings = load(
        tmp_path,
        RAG_ALLOWED_HOSTS=" a.example , ,b.example:*,a.example",
        RAG_TRACE_CONTENT="Yes",
        RAG_MCP_TRANSPORT="SSE",
        RAG_TRACE_DIR="traces",
        EMBED_MODEL_PATH="~/models/x",
        LMSTUDIO_BASE_URL="https://host:8443/v1/",
        LMSTUDIO_API_KEY=" key ",
        HOME="/home/ada",
    )

    assert settings.allowed_hosts == ("a.example", "b.example:*")
    assert settings.trace_content is True
    assert settings.transport is Transport.SSE
    assert settings.trace_dir == tmp_path / "traces"
    assert settings.embed_model_path == Path("/home/ada/models/x")
    assert settings.base_url == "https://host:8443/v1"
    assert settings.api_key == Secret("key")


def test_flags_may_be_typed(tmp_path: Path) -> None:
    """An argument parser hands over numbers, lists, paths and switches."""
    settings = load(
        tmp_path,
        flags={
            "port": 9000,
            "allowed_origins": ["https://a.example", "https://b.example"],
            "trace_dir": tmp_path / "t",
            "trace_content": True,
            "transport": Transport.STDIO,
        },
        RAG_TRACE_CONTENT="0",
    )

    assert settings.port == 9000
    assert settings.allowed_origins == ("https://a.example", "https://b.example")
    assert settings.trace_dir == tmp_path / "t"
    assert settings.trace_content is True
    assert settings.transport is Transport.STDIO


def test_an_override_nobody_reads_is_a_mistake_of_the_caller(tmp_path: Path) -> None:
    """A misspelt setting must not be lost."""
    with pytest.raises(TypeError, match="no such settings: prot"):
        load(tmp_path, flags={"prot": 1})


def test_the_chosen_corpus_takes_the_overrides(tmp_path: Path) -> None:
    """Variables change the chosen corpus, and no other."""
    config = {"roots": ["docs"], "server_name": "from-json"}
    configure(tmp_path, {"demo": config, "other": config})
    settings = load(
        tmp_path,
        RAG_CORPUS="demo",
        RAG_CORPUS_DIR="elsewhere",
        RAG_SERVER_NAME="renamed",
        RAG_SYSTEM_NOTE=" cite\n the\tfile ",
    )

    corpus = settings.chosen()
    assert corpus.directory == tmp_path / "elsewhere"
    assert corpus.data_dir == tmp_path / "data-demo"
    assert corpus.server_name == "renamed"
    assert corpus.system_note == "cite the file"
    assert settings.corpora["demo"] == corpus
    assert settings.corpora["other"].server_name == "from-json"
    assert settings.origins["corpus_dir"] == "environment RAG_CORPUS_DIR"
    assert settings.origins["server_name"] == "environment RAG_SERVER_NAME"
    assert settings.origins["roots"] == "corpora.json"
    assert settings.origins["data_dir"] == "default"


def test_a_long_note_is_cut(tmp_path: Path) -> None:
    """The note goes into every session of every agent, so it is bounded."""
    configure(tmp_path, DEMO)
    settings = load(tmp_path, RAG_CORPUS="demo", RAG_SYSTEM_NOTE="ab " * 400)

    assert len(settings.chosen().system_note) == 500


MODEL_CASES = [
    # EMBED_MODEL, RAG_EMBED_BACKEND, of the corpus; expected backend, model
    (None, None, None, "builtin", None),
    (None, "stub", None, "stub", None),
    ("m", None, None, "builtin", "m"),
    ("m", "openai", None, "openai", "m"),
    (None, None, "openai:nomic", "openai", "nomic"),
    (None, None, "fastembed:BAAI/bge", "fastembed", "BAAI/bge"),
    (None, None, "stub", "stub", None),
    (None, None, "openai:", "openai", None),
    (None, "openai", "nomic:latest", "openai", "nomic:latest"),
    (None, "openai", "openai:nomic:latest", "openai", "nomic:latest"),
    (None, "stub", "openai:nomic", "stub", None),
    ("other", None, "openai:nomic", "builtin", "other"),
    ("fastembed:x", None, "openai:nomic", "fastembed", "x"),
    ("fastembed:x", "fastembed", None, "fastembed", "x"),
]


@pytest.mark.parametrize(
    ("model", "backend", "of_corpus", "expected_backend", "expected_model"), MODEL_CASES
)
def test_a_model_may_bring_its_backend(
    model: str | None,
    backend: str | None,
    of_corpus: str | None,
    expected_backend: str,
    expected_model: str | None,
    tmp_path: Path,
) -> None:
    """A named backend comes with its model, unless a stronger source chose another."""
    configure(tmp_path, {"demo": {"roots": ["docs"], "embed_model": of_corpus}})
    env = {"EMBED_MODEL": model, "RAG_EMBED_BACKEND": backend, "RAG_CORPUS": "demo"}
    settings = load(tmp_path, **{name: text for name, text in env.items() if text})

    assert settings.backend == expected_backend
    assert settings.embed_model == expected_model


def test_a_flag_with_a_model_beats_the_backend_of_the_environment(
    tmp_path: Path,
) -> None:
    """The backend that a stronger source brings along wins, and is its origin."""
    settings = load(
        tmp_path, flags={"embed_model": "openai:m"}, RAG_EMBED_BACKEND="stub"
    )

    assert (settings.backend, settings.embed_model) == (Backend.OPENAI, "m")
    assert settings.origins["backend"] == "flag --embed-model"


def test_contradicting_backends_of_one_source_are_an_error(tmp_path: Path) -> None:
    """Where one source names two backends, both places are named."""
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, EMBED_MODEL="openai:m", RAG_EMBED_BACKEND="stub")

    message = str(caught.value)
    assert "environment EMBED_MODEL" in message
    assert "environment RAG_EMBED_BACKEND (stub)" in message
    assert "make them agree" in message


@given(st.text(max_size=20))
def test_splitting_a_model_loses_nothing(text: str) -> None:
    """Without a backend in front the text is the model as it stands."""
    backend, model = split_model(text)

    if backend is None:
        assert model == text
    else:
        assert text.startswith(backend)


def test_no_corpus_chosen_lists_those_there_are(tmp_path: Path) -> None:
    """The service refuses to guess, even where there is only one."""
    path = configure(tmp_path, DEMO | {"book": {"roots": ["src"]}})

    with pytest.raises(UnknownCorpusError) as caught:
        load(tmp_path).chosen()

    message = str(caught.value)
    assert message.startswith("no corpus chosen: set RAG_CORPUS, or --corpus, ")
    assert message.endswith(f"in {path}: book, demo")


def test_an_unknown_corpus_is_named_with_the_likely_one(tmp_path: Path) -> None:
    """The message holds file, name, origin, a guess and the list."""
    path = configure(tmp_path, DEMO | {"book": {"roots": ["src"]}})

    with pytest.raises(UnknownCorpusError) as caught:
        load(tmp_path, RAG_CORPUS="dmeo").chosen()

    assert str(caught.value) == (
        f'{path}: has no corpus "dmeo", asked for by environment RAG_CORPUS: '
        'did you mean "demo"? it has: book, demo'
    )


@pytest.mark.parametrize(
    ("content", "state"),
    [(None, "not found"), ({}, "configures no corpus"), ({"_": 1}, "configures no")],
    ids=["missing", "empty", "comment-only"],
)
def test_no_corpora_at_all_says_where_it_looked(
    content: object, state: str, tmp_path: Path
) -> None:
    """Without any corpus the way to write one is told."""
    if content is not None:
        configure(tmp_path, content)
    settings = load(tmp_path, RAG_CORPUS="demo")

    with pytest.raises(UnknownCorpusError) as caught:
        settings.chosen()

    message = str(caught.value)
    assert message.startswith(f"{tmp_path / 'corpora.json'}: {state}")
    assert 'run "docs-rag init DIR"' in message
    assert "RAG_DIR" in message


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"demo": {"roots": ["docs"],}}', "line 1, column 28: a comma too many"),
        ("{'demo': {}}", "line 1, column 2: single quotes"),
        ("", "the file is empty"),
        ("[]", "holds a list where an object is expected"),
        ('{"demo": {"roots": "docs"}}', 'corpus "demo", key "roots": is text, not a'),
    ],
    ids=["comma", "single-quotes", "empty", "list", "roots-text"],
)
def test_a_broken_corpora_json_is_named(text: str, words: str, tmp_path: Path) -> None:
    """Loading stops with one line that begins with the file."""
    path = configure(tmp_path, text)

    with pytest.raises(ConfigError) as caught:
        load(tmp_path, RAG_CORPUS="demo")

    assert str(caught.value).startswith(f"{path}: {words}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "raw",
    [b'\xef\xbb\xbf{"demo": {"roots": ["docs"]}}', b'{"demo":\r\n{"roots": ["docs"]}}'],
    ids=["byte-order-mark", "crlf"],
)
def test_corpora_json_may_come_from_another_system(raw: bytes, tmp_path: Path) -> None:
    """A byte order mark and CR LF are accepted."""
    (tmp_path / "corpora.json").write_bytes(raw)

    assert load(tmp_path, RAG_CORPUS="demo").chosen().roots == ("docs",)


def test_a_broken_link_in_place_of_the_file_is_an_error(tmp_path: Path) -> None:
    """A corpora.json that cannot be read is not taken for a missing one."""
    (tmp_path / "corpora.json").symlink_to("nowhere")

    with pytest.raises(ConfigError, match=r"corpora\.json: cannot be read"):
        load(tmp_path)


def test_dotenv_cannot_move_the_folder_it_lies_in(tmp_path: Path) -> None:
    """RAG_DIR in .env is refused, unless it says what is so anyway."""
    assert load(tmp_path, f"RAG_DIR={tmp_path}/").rag_dir == tmp_path

    with pytest.raises(ConfigError) as caught:
        load(tmp_path, "RAG_DIR=/elsewhere")

    assert str(caught.value).startswith(f"{tmp_path / '.env'}: RAG_DIR cannot be set")
    assert "--rag-dir" in str(caught.value)


def test_dotenv_may_choose_the_corpus(tmp_path: Path) -> None:
    """Everything but RAG_DIR may come from .env."""
    configure(tmp_path, DEMO)

    assert load(tmp_path, "export RAG_CORPUS='demo' # ours").chosen().name == "demo"


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o600, 0o400])
@pytest.mark.parametrize("name", ["RAG_AUTH_TOKEN", "LMSTUDIO_API_KEY", "RAG_PORT"])
def test_a_secret_that_others_may_read_is_noticed(
    tmp_path: Path, mode: int, name: str
) -> None:
    """A secret in a file of open mode is named with the command that closes it."""
    (tmp_path / ".env").write_text(f"{name}=1234\n")
    (tmp_path / ".env").chmod(mode)
    notices = load(tmp_path).notices

    assert bool(notices) == (name != "RAG_PORT" and mode not in (0o600, 0o400))
    for notice in notices:
        assert name in notice
        assert f"chmod 600 {tmp_path / '.env'}" in notice
        assert "1234" not in notice


@pytest.mark.parametrize(
    "variable",
    ["RAG_PORT", "RAG_MCP_TRANSPORT", "RAG_EMBED_BACKEND", "RAG_VECTOR_CACHE_MB"],
)
def test_a_long_value_is_quoted_by_its_beginning(tmp_path: Path, variable: str) -> None:
    """An error stays readable however long the value that it refuses."""
    with pytest.raises(ConfigError) as refused:
        load(tmp_path, **{variable: "x" * 100_000})

    assert "100,000 characters" in str(refused.value)
    assert len(str(refused.value)) < 400


def test_a_slip_in_a_name_is_noticed(tmp_path: Path) -> None:
    """A variable nobody reads, but nearly one that is read, is mentioned."""
    settings = load(
        tmp_path, "LMSTUDIO_APIKEY=x", RAG_PROT="1", RAG_UNRELATED_THING="x"
    )

    assert settings.notices == (
        "LMSTUDIO_APIKEY is not read: did you mean LMSTUDIO_API_KEY?",
        "RAG_PROT is not read: did you mean RAG_PORT?",
    )


def test_merging_completes_the_environment_from_dotenv(tmp_path: Path) -> None:
    """For readers of plain variables .env fills what is unset or blank."""
    (tmp_path / ".env").write_text(
        "RAG_PRICE_INPUT_PER_MTOK=2\nRAG_PORT=1\nRAG_HOST=::1\nPATH=/evil\n"
    )
    environ = {
        "RAG_DIR": str(tmp_path),
        "RAG_PRICE_INPUT_PER_MTOK": " ",
        "RAG_PORT": "5",
        "RAG_HOST": "",
    }

    assert merged_environment(environ) == environ | {"RAG_PRICE_INPUT_PER_MTOK": "2"}


def test_loading_leaves_the_environment_alone(tmp_path: Path) -> None:
    """Nothing of .env reaches the process, or the mapping handed in."""
    before = dict(os.environ)
    environ = {"RAG_DIR": str(tmp_path)}
    (tmp_path / ".env").write_text("RAG_PORT=9\nSOMETHING_OF_OURS=1\n")

    assert load_settings(environ).port == 9
    assert environ == {"RAG_DIR": str(tmp_path)}
    assert dict(os.environ) == before
    assert current_environment() is os.environ
