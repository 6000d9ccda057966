"""
What to paste into each coding agent so that it talks to a server.

One table: the command line prints it, the README quotes it, a test parses it.
"""

import json
import re
import shlex
from dataclasses import dataclass
from typing import Any

from docs_rag.errors import ConfigError

_TOKEN_VARIABLE = "RAG_AUTH_TOKEN"
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class Snippet:
    """A piece of configuration: for which client, where it goes, and the text."""

    client: str
    place: str
    syntax: str
    text: str


def snippets(url: str, name: str = "docs-rag", *, token: bool = False) -> list[Snippet]:
    """
    Return the configuration of each client for the server at ``url``.

    With ``token`` each sends the bearer token from the environment variable
    RAG_AUTH_TOKEN, or asks for it once, in the client's own way to say so; the token
    itself appears nowhere.
    """
    if not url.startswith(("http://", "https://")):
        raise ConfigError(
            f"{url!r} is no URL of a server: it begins with http:// or https://, "
            "such as http://127.0.0.1:8765/mcp"
        )
    return [
        Snippet("Claude Code", "shell", "bash", _claude_command(url, name, token)),
        Snippet(
            "Claude Code",
            ".mcp.json",
            "json",
            _servers("mcpServers", name, {"type": "http", "url": url}, token, "${%s}"),
        ),
        Snippet("Codex", "~/.codex/config.toml", "toml", _codex(url, name, token)),
        Snippet(
            "Cursor",
            ".cursor/mcp.json",
            "json",
            _servers("mcpServers", name, {"url": url}, token, "${env:%s}"),
        ),
        Snippet("VS Code", ".vscode/mcp.json", "json", _vs_code(url, name, token)),
        Snippet(
            "Gemini CLI",
            "~/.gemini/settings.json",
            "json",
            _servers(
                "mcpServers", name, {"httpUrl": url, "timeout": 30000}, token, "$%s"
            ),
        ),
    ]


def _claude_command(url: str, name: str, token: bool) -> str:
    # First: this option takes all words up to the next option.
    header = f'--header "Authorization: Bearer ${_TOKEN_VARIABLE}" ' if token else ""
    place = f"{shlex.quote(name)} {shlex.quote(url)}"
    return f"claude mcp add {header}--transport http {place}"


def _servers(
    key: str, name: str, server: dict[str, Any], token: bool, variable: str
) -> str:
    if token:
        value = f"Bearer {variable % _TOKEN_VARIABLE}"
        server = {**server, "headers": {"Authorization": value}}
    return json.dumps({key: {name: server}}, indent=2)


def _vs_code(url: str, name: str, token: bool) -> str:
    server: dict[str, Any] = {"type": "http", "url": url}
    content: dict[str, Any] = {"servers": {name: server}}
    if token:
        server["headers"] = {"Authorization": "Bearer ${input:rag-token}"}
        prompt = {
            "type": "promptString",
            "id": "rag-token",
            "description": f"{_TOKEN_VARIABLE} of {name}",
            "password": True,
        }
        content = {"inputs": [prompt], **content}
    return json.dumps(content, indent=2)


def _codex(url: str, name: str, token: bool) -> str:
    key = name if _BARE_KEY.fullmatch(name) else json.dumps(name)
    lines = [f"[mcp_servers.{key}]", f"url = {json.dumps(url)}"]
    if token:
        lines.append(f'bearer_token_env_var = "{_TOKEN_VARIABLE}"')
    return "\n".join(lines)


def as_text(chosen: list[Snippet]) -> str:
    """Return the snippets one below the other, each under its client and place."""
    return "\n\n".join(f"# {s.client}: {s.place}\n{s.text}" for s in chosen)
