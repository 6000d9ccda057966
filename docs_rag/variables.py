"""
The variables docs-rag reads, and which of their sources wins.

A value comes from a flag, else from the environment, else from ``<RAG_DIR>/.env``,
else from ``corpora.json``, else from the default. The environment is a mapping
handed in; every value remembers its origin.
"""

import difflib
import enum
import os
import pwd
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from docs_rag.dotenv import read_dotenv
from docs_rag.errors import ConfigError


class Variable(NamedTuple):
    """One environment variable, as the documentation lists it."""

    name: str
    default: str
    meaning: str


VARIABLES = (
    Variable(
        "RAG_DIR",
        "~/rag-service",
        "folder of corpora.json, .env, corpora and indexes; cannot come from .env",
    ),
    Variable("RAG_CORPUS", "", "the corpus to work on; there is no default"),
    Variable(
        "RAG_CORPUS_DIR",
        "",
        "overrides corpus_dir of the chosen corpus; relative to RAG_DIR",
    ),
    Variable(
        "RAG_HOST", "127.0.0.1", "bind address; any but loopback needs RAG_AUTH_TOKEN"
    ),
    Variable("RAG_PORT", "8765", "port of the HTTP transports, 1 to 65535"),
    Variable(
        "RAG_SERVER_NAME", "<corpus>-docs-rag", "name the server gives to its clients"
    ),
    Variable(
        "RAG_SYSTEM_NOTE",
        "",
        "a note for the agents that connect; one line, cut at 500 characters",
    ),
    Variable("RAG_MCP_TRANSPORT", "streamable-http", "streamable-http, stdio or sse"),
    Variable("RAG_EMBED_BACKEND", "builtin", "builtin, fastembed, openai or stub"),
    Variable(
        "RAG_VECTOR_CACHE_MB",
        "256",
        "memory a server may keep vectors in; beyond it, every question searches the "
        "file",
    ),
    Variable(
        "EMBED_MODEL",
        "",
        "model of the backend, or backend:model; unset is the backend's own default",
    ),
    Variable(
        "EMBED_MODEL_PATH",
        "",
        "local folder with an ONNX model, for fastembed; relative to RAG_DIR",
    ),
    Variable(
        "LMSTUDIO_BASE_URL",
        "http://127.0.0.1:1234/v1",
        "OpenAI-compatible endpoint, for openai",
    ),
    Variable("LMSTUDIO_API_KEY", "", "key for that endpoint; never shown"),
    Variable(
        "RAG_AUTH_TOKEN", "", "bearer token every HTTP request needs; never shown"
    ),
    Variable(
        "RAG_ALLOWED_HOSTS", "", "further Host names to accept, separated by commas"
    ),
    Variable(
        "RAG_ALLOWED_ORIGINS", "", "further Origins to accept, separated by commas"
    ),
    Variable("RAG_TRACE_DIR", "<RAG_DIR>/logs", "where metering and traces are kept"),
    Variable(
        "RAG_TRACE_CONTENT", "", "1 keeps the text of queries in traces, not digests"
    ),
    Variable("RAG_TRACE_KEEP_DAYS", "14", "days that pruning traces keeps"),
    Variable("RAG_PRICE_INPUT_PER_MTOK", "", "price of a million input tokens, in USD"),
    Variable(
        "RAG_PRICE_OUTPUT_PER_MTOK", "", "price of a million output tokens, in USD"
    ),
    Variable("RAG_COST_ALERT_USD", "", "cost above which checking traces fails"),
)

# Setting, as named in ``Settings`` and by flags, to variable. The trace variables
# that are missing here are read by tracing itself.
SETTING_VARIABLES = {
    "rag_dir": "RAG_DIR",
    "corpus": "RAG_CORPUS",
    "corpus_dir": "RAG_CORPUS_DIR",
    "server_name": "RAG_SERVER_NAME",
    "system_note": "RAG_SYSTEM_NOTE",
    "host": "RAG_HOST",
    "port": "RAG_PORT",
    "transport": "RAG_MCP_TRANSPORT",
    "backend": "RAG_EMBED_BACKEND",
    "vector_cache_mb": "RAG_VECTOR_CACHE_MB",
    "embed_model": "EMBED_MODEL",
    "embed_model_path": "EMBED_MODEL_PATH",
    "base_url": "LMSTUDIO_BASE_URL",
    "api_key": "LMSTUDIO_API_KEY",
    "auth_token": "RAG_AUTH_TOKEN",
    "allowed_hosts": "RAG_ALLOWED_HOSTS",
    "allowed_origins": "RAG_ALLOWED_ORIGINS",
    "trace_dir": "RAG_TRACE_DIR",
    "trace_content": "RAG_TRACE_CONTENT",
}

# An explicitly blank host is kept, for the guard to refuse: falling back to the
# default would hide that the operator meant to say something.
_BLANK_COUNTS = "host"

_SECRETS = ("RAG_AUTH_TOKEN", "LMSTUDIO_API_KEY")


class Level(enum.IntEnum):
    """The sources of a value, in ascending precedence."""

    CORPORA = 1
    DOTENV = 2
    ENVIRONMENT = 3
    FLAG = 4


class Given(NamedTuple):
    """A value as it was written, and by what."""

    text: str
    origin: str
    level: Level


@dataclass(frozen=True, slots=True)
class Sources:
    """The places a value may come from; ``origins`` fills as values are taken."""

    environ: Mapping[str, str]
    overrides: Mapping[str, object]
    rag_dir: Path
    home: Path
    dotenv: Mapping[str, str]
    origins: dict[str, str] = field(default_factory=dict)

    def find(self, setting: str, in_corpora: str | None = None) -> Given | None:
        """Return the winner for ``setting``; blank values count as not given."""
        variable = SETTING_VARIABLES[setting]
        flag = f"flag --{setting.replace('_', '-')}"
        candidates = (
            (_flag_text(self.overrides.get(setting)), flag, Level.FLAG),
            (
                self.environ.get(variable),
                f"environment {variable}",
                Level.ENVIRONMENT,
            ),
            (self.dotenv.get(variable), ".env", Level.DOTENV),
            (in_corpora, "corpora.json", Level.CORPORA),
        )
        for text, origin, level in candidates:
            if text is not None and (text.strip() or setting == _BLANK_COUNTS):
                return Given(text.strip(), origin, level)
        return None

    def take(self, setting: str, in_corpora: str | None = None) -> str | None:
        """Return the winning text for ``setting``, and note its origin."""
        given = self.find(setting, in_corpora)
        self.origins[setting] = given.origin if given else "default"
        return given.text if given else None

    def problem(self, setting: str, text: str) -> ConfigError:
        """Build the error that says where ``setting`` came from and what is wrong."""
        given = self.find(setting)
        if given is not None and given.level is Level.DOTENV:
            where = f"{self.rag_dir / '.env'}: {SETTING_VARIABLES[setting]}"
        else:
            where = given.origin if given else setting
        return ConfigError(f"{where}: {text}")

    def exposed_secrets(self) -> tuple[str, ...]:
        """Say so where others may read a ``.env`` that holds a secret."""
        path = self.rag_dir / ".env"
        held = [name for name in _SECRETS if self.dotenv.get(name, "").strip()]
        try:
            is_exposed = bool(path.stat().st_mode & 0o044)
        except OSError:  # gone since it was read
            is_exposed = False
        if not held or not is_exposed:
            return ()
        return (
            f"{path} holds {' and '.join(held)}, and other accounts may read it: "
            f"chmod 600 {path}",
        )

    def likely_slips(self) -> tuple[str, ...]:
        """Name the variables that nothing reads and that look like one that is."""
        known = [variable.name for variable in VARIABLES]
        notices = []
        for name in sorted({*self.environ, *self.dotenv} - set(known)):
            close = difflib.get_close_matches(name, known, n=1, cutoff=0.8)
            if close and name.startswith(("RAG_", "EMBED_", "LMSTUDIO_")):
                notices.append(f"{name} is not read: did you mean {close[0]}?")
        return tuple(notices)


def open_sources(
    environ: Mapping[str, str], overrides: Mapping[str, object]
) -> Sources:
    """Find ``RAG_DIR``, read its ``.env`` and return all sources together."""
    unknown = sorted(set(overrides) - set(SETTING_VARIABLES))
    if unknown:
        raise TypeError(f"no such settings: {', '.join(unknown)}")
    home = Path(environ.get("HOME") or _account_home())
    sources = Sources(environ, overrides, Path(), home, {})
    text = sources.take("rag_dir")
    rag_dir = expand_home(text, home) if text else home / "rag-service"
    rag_dir = Path(os.path.abspath(rag_dir))
    dotenv = read_dotenv(rag_dir / ".env")
    elsewhere = dotenv.get("RAG_DIR", "").strip()
    if elsewhere and os.path.abspath(expand_home(elsewhere, home)) != str(rag_dir):
        raise ConfigError(
            f"{rag_dir / '.env'}: RAG_DIR cannot be set here, because it says where "
            "this file is: set it in the environment or with --rag-dir"
        )
    return Sources(environ, overrides, rag_dir, home, dotenv, sources.origins)


def expand_home(text: str, home: Path) -> Path:
    """Return ``text`` as a path, with a leading ``~`` replaced by ``home``."""
    if text == "~" or text.startswith("~/"):
        return home / text[2:].lstrip("/")
    return Path(text)


def _account_home() -> str:
    """Return the home of this account, where the environment names none."""
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:  # an account without an entry, as in containers
        return os.sep


def _flag_text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, Sequence):
        return ",".join(str(item) for item in value)
    return str(value)
