"""Rules of showing the settings."""

from pathlib import Path

import pytest
from layouts import configure

from docs_rag.config import describe, load_settings

TOKEN = "hunter2-token-0123456789-0123456789"
KEY = "hunter2-key"


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """Return an environment with a corpus and two secrets."""
    configure(tmp_path, {"demo": {"roots": ["docs", "src"], "embed_model": "stub"}})
    return {
        "RAG_DIR": str(tmp_path),
        "RAG_CORPUS": "demo",
        "RAG_AUTH_TOKEN": TOKEN,
        "LMSTUDIO_API_KEY": KEY,
    }


def test_no_view_of_the_settings_shows_a_secret(environ: dict[str, str]) -> None:
    """Neither repr nor the shown rows carry a secret, from whatever source."""
    settings = load_settings(environ, {"api_key": KEY})
    views = [repr(settings), str(settings), repr(describe(settings))]

    assert settings.auth_token is not None
    assert (settings.auth_token.reveal(), settings.api_key.reveal()) == (TOKEN, KEY)
    assert not [view for view in views if "hunter2" in view]


def test_every_setting_is_shown_with_its_origin(environ: dict[str, str]) -> None:
    """The rows name value and origin of each setting, and of the chosen corpus."""
    rows = {row.name: row for row in describe(load_settings(environ, {"port": 9}))}

    assert (rows["port"].value, rows["port"].origin) == ("9", "flag --port")
    assert rows["host"].value == "127.0.0.1"
    assert rows["auth_token"].value == "**********"
    assert rows["auth_token"].origin == "environment RAG_AUTH_TOKEN"
    assert rows["backend"][1:] == ("stub", "corpora.json")
    assert rows["roots"][1:] == ("docs, src", "corpora.json")
    assert rows["corpus"][1:] == ("demo", "environment RAG_CORPUS")
    assert rows["corpus_dir"].value.endswith("/corpus/demo")
    assert rows["trace_content"].value == "no"
    assert rows["embed_model_path"].value == ""


def test_settings_can_be_shown_without_a_corpus(tmp_path: Path) -> None:
    """The rows of a corpus are absent where none is chosen; no secret is blank."""
    rows = {
        row.name: row for row in describe(load_settings({"RAG_DIR": str(tmp_path)}))
    }

    assert "roots" not in rows
    assert rows["corpus"].value == ""
    assert rows["auth_token"].value == ""
    assert rows["api_key"].value == ""


def test_odd_bytes_in_a_value_can_be_printed(tmp_path: Path) -> None:
    """A path that is not UTF-8, or holds a line end, shows as escapes."""
    settings = load_settings({"RAG_DIR": f"{tmp_path}/b\udcf6\n"})
    shown = "".join(row.value for row in describe(settings))

    assert "b\\xf6" in shown
    shown.encode("utf-8")
