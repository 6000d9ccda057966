"""
The resolved settings as one frozen value, and the way they are shown.

A secret is a ``Secret`` from the moment it is read, so neither ``repr`` nor the rows
shown by ``docs-rag check-config`` can carry it.
"""

import enum
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from docs_rag.corpora import CORPUS_KEYS, Corpus, did_you_mean, excerpt, printable
from docs_rag.errors import UnknownCorpusError
from docs_rag.records import Secret

# What is shown of the chosen corpus: the key, and where the corpus keeps it.
CORPUS_ROWS = {"corpus_dir": "directory"} | {
    name: name for name in CORPUS_KEYS if name not in ("corpus_dir", "embed_model")
}


class Transport(enum.StrEnum):
    """How the MCP server speaks to its clients."""

    STREAMABLE_HTTP = "streamable-http"
    STDIO = "stdio"
    SSE = "sse"


class Backend(enum.StrEnum):
    """Which embedder turns text into vectors."""

    BUILTIN = "builtin"
    FASTEMBED = "fastembed"
    OPENAI = "openai"
    STUB = "stub"


class Row(NamedTuple):
    """One line of the resolved configuration, ready to be shown."""

    name: str
    value: str
    origin: str


@dataclass(frozen=True, slots=True)
class Settings:
    """
    Everything a command may ask about its configuration.

    ``corpus`` is the chosen corpus with the overrides applied, or None; a command
    that needs one calls ``chosen``. ``origins`` says where each setting came from,
    ``notices`` what looks like a slip without being an error.
    """

    rag_dir: Path
    config_path: Path
    corpora: Mapping[str, Corpus]
    corpus: Corpus | None
    corpus_name: str | None
    host: str
    port: int
    transport: Transport
    backend: Backend
    vector_cache_mb: int
    embed_model: str | None
    embed_model_path: Path | None
    base_url: str
    api_key: Secret
    auth_token: Secret | None
    allowed_hosts: tuple[str, ...]
    allowed_origins: tuple[str, ...]
    trace_dir: Path
    trace_content: bool
    origins: Mapping[str, str]
    notices: tuple[str, ...] = ()

    def chosen(self) -> Corpus:
        """Return the corpus to work on; refuse to guess where none was named."""
        if self.corpus is not None:
            return self.corpus
        if not self.corpora:
            exists = os.path.exists(self.config_path)
            state = "configures no corpus" if exists else "not found"
            raise UnknownCorpusError(
                f'{self.config_path}: {state}: run "docs-rag init DIR" to write an '
                "entry for a folder, or point RAG_DIR at the folder of the file"
            )
        known = ", ".join(sorted(self.corpora))
        if self.corpus_name is None:
            raise UnknownCorpusError(
                "no corpus chosen: set RAG_CORPUS, or --corpus, to one of those in "
                f"{self.config_path}: {known}"
            )
        hint = did_you_mean(self.corpus_name, self.corpora)
        raise UnknownCorpusError(
            f'{self.config_path}: has no corpus "{excerpt(self.corpus_name)}", '
            f"asked for by {self.origins['corpus']}: {hint}it has: {known}"
        )


def describe(settings: Settings) -> tuple[Row, ...]:
    """Return every resolved setting with its origin; secrets are masked."""
    rows = []
    for name, origin in settings.origins.items():
        if name == "corpus":
            value: object = settings.corpus_name
        elif name in CORPUS_ROWS:
            value = getattr(settings.corpus, CORPUS_ROWS[name])
        else:
            value = getattr(settings, name)
        rows.append(Row(name, printable(_shown(value)), origin))
    return tuple(rows)


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else str(value)
