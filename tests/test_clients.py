"""What to paste into each agent parses, points to the server and holds no secret."""

import json
import shlex
import tomllib
from typing import Any

import pytest

from docs_rag.clients import Snippet, as_text, snippets
from docs_rag.errors import ConfigError

URL = "http://127.0.0.1:8765/mcp"
CLIENTS = ["Claude Code", "Claude Code", "Codex", "Cursor", "VS Code", "Gemini CLI"]
PARSERS = {"json": json.loads, "toml": tomllib.loads, "bash": shlex.split}
ODD_NAMES = ["docs-rag", "my docs", "a.b", 'quo"te', "ümlaut", "$HOME"]
ODD_URLS = [URL, "https://docs.example/mcp?a=1&b=2", "http://[::1]:8765/mcp/"]


def parsed(snippet: Snippet) -> Any:
    return PARSERS[snippet.syntax](snippet.text)


def server_in(snippet: Snippet, name: str) -> dict[str, Any]:
    """The entry of the server, wherever this client keeps it."""
    keys = {"Codex": "mcp_servers", "VS Code": "servers"}
    content: dict[str, Any] = parsed(snippet)[keys.get(snippet.client, "mcpServers")]
    return content[name]


@pytest.mark.parametrize("token", [False, True])
def test_every_client_has_a_place(token: bool) -> None:
    """All agents are there, each with the file or the shell it is for."""
    found = snippets(URL, token=token)

    assert [snippet.client for snippet in found] == CLIENTS
    assert [snippet.syntax for snippet in found].count("bash") == 1
    for snippet in found:
        suffix = snippet.place.rsplit(".", 1)[-1]
        assert suffix == {"bash": "shell"}.get(snippet.syntax, snippet.syntax)


@pytest.mark.parametrize("token", [False, True])
@pytest.mark.parametrize("url", ODD_URLS)
@pytest.mark.parametrize("name", ODD_NAMES)
def test_every_snippet_parses_and_holds_the_url(url, name, token) -> None:
    """Whatever the server is called, its entry has that name and that URL."""
    for snippet in snippets(url, name, token=token):
        if snippet.syntax == "bash":
            assert parsed(snippet)[-2:] == [name, url]
            # Nothing that a shell would act on is left bare.
            bare = shlex.shlex(snippet.text, posix=True, punctuation_chars=True)
            bare.whitespace_split = True
            assert list(bare) == parsed(snippet)
        else:
            assert url in server_in(snippet, name).values()


def test_each_client_gets_its_own_key_for_the_url() -> None:
    """Gemini takes ``url`` for another transport, so it gets ``httpUrl``."""
    keys = {
        (s.client, key)
        for s in snippets(URL)
        if s.syntax != "bash"
        for key, value in server_in(s, "docs-rag").items()
        if value == URL
    }

    assert keys == {
        ("Claude Code", "url"),
        ("Codex", "url"),
        ("Cursor", "url"),
        ("VS Code", "url"),
        ("Gemini CLI", "httpUrl"),
    }


def test_with_a_token_each_client_refers_to_it() -> None:
    """The variable is named in each client's own way; no token is written anywhere."""
    references = {
        (snippet.client, snippet.syntax): snippet.text
        for snippet in snippets(URL, token=True)
    }
    for text in references.values():
        assert "RAG_AUTH_TOKEN" in text
    plain = {key: text.replace("\\", "") for key, text in references.items()}

    assert 'Bearer $RAG_AUTH_TOKEN"' in plain["Claude Code", "bash"]
    assert 'Bearer ${RAG_AUTH_TOKEN}"' in plain["Claude Code", "json"]
    assert 'token_env_var = "RAG_AUTH_TOKEN"' in plain["Codex", "toml"]
    assert 'Bearer ${env:RAG_AUTH_TOKEN}"' in plain["Cursor", "json"]
    assert 'Bearer $RAG_AUTH_TOKEN"' in plain["Gemini CLI", "json"]


def test_vs_code_asks_for_the_token_and_hides_it() -> None:
    """Its header refers to a prompt that exists and masks what is typed."""
    (snippet,) = [s for s in snippets(URL, token=True) if s.client == "VS Code"]
    (prompt,) = parsed(snippet)["inputs"]
    header = server_in(snippet, "docs-rag")["headers"]["Authorization"]

    assert header == f"Bearer ${{input:{prompt['id']}}}"
    assert prompt["password"] is True


def test_without_a_token_nothing_speaks_of_one() -> None:
    """A server that wants no token gets no header."""
    text = as_text(snippets(URL))

    assert "TOKEN" not in text
    assert "uthorization" not in text
    assert "Bearer" not in text


def test_the_header_option_takes_only_the_header() -> None:
    """Another option follows the header, which would else swallow name and URL."""
    (command, *_) = snippets(URL, token=True)
    arguments = shlex.split(command.text)
    place = arguments.index("--header")

    assert arguments[:3] == ["claude", "mcp", "add"]
    assert arguments[place + 1].startswith("Authorization: Bearer ")
    assert arguments[place + 2].startswith("--")


def test_all_snippets_as_text() -> None:
    """Each stands under its client and the place it goes to."""
    found = snippets(URL)
    text = as_text(found)

    for snippet in found:
        assert f"# {snippet.client}: {snippet.place}\n{snippet.text}" in text


@pytest.mark.parametrize("url", ["foo", "127.0.0.1:8765/mcp", "ftp://host/mcp", ""])
def test_what_is_no_url_is_refused(url: str) -> None:
    """Nothing is offered for pasting that no client could connect to."""
    with pytest.raises(ConfigError, match="begins with http"):
        snippets(url)
