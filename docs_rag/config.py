"""
The settings of one process, resolved once into a frozen value.

Only ``current_environment`` touches the process environment: everything else takes
a mapping. Nothing here exits, configures logging or reads at import.
"""

import os
import re
import urllib.parse
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from docs_rag.corpora import (
    CONFIG_FILE_NAME,
    SERVER_NAME_MAX_CHARS,
    SYSTEM_NOTE_MAX_CHARS,
    Corpus,
    CorpusConfig,
    did_you_mean,
    excerpt,
    one_line,
    place,
    read_corpora,
    resolve_corpora,
)
from docs_rag.errors import ConfigError
from docs_rag.records import Secret
from docs_rag.settings import (
    CORPUS_ROWS,
    Backend,
    Row,
    Settings,
    Transport,
    describe,
)
from docs_rag.variables import VARIABLES, Given, Sources, Variable, open_sources

__all__ = [
    "VARIABLES",
    "Backend",
    "Corpus",
    "CorpusConfig",
    "Row",
    "Settings",
    "Transport",
    "Variable",
    "current_environment",
    "describe",
    "load_settings",
    "merged_environment",
]

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8765
DEFAULT_VECTOR_CACHE_MB = 256
DEFAULT_BASE_URL = "http://127.0.0.1:1234/v1"

_UNSAFE_IN_HEADER = re.compile(r"[\x00-\x1f\x7f]")
_SWITCHES = dict.fromkeys(("1", "true", "yes", "on"), True) | dict.fromkeys(
    ("0", "false", "no", "off"), False
)
_Choice = TypeVar("_Choice", Transport, Backend)


def current_environment() -> Mapping[str, str]:
    """Return the environment of this process, for ``load_settings``."""
    return os.environ


def merged_environment(
    environ: Mapping[str, str], overrides: Mapping[str, object] | None = None
) -> dict[str, str]:
    """Return ``environ`` completed by the known variables of ``<RAG_DIR>/.env``."""
    sources = open_sources(environ, overrides or {})
    names = {variable.name for variable in VARIABLES}
    blank = {name for name in names if not environ.get(name, "").strip()}
    if "RAG_HOST" in environ:
        blank.discard("RAG_HOST")
    return dict(environ) | {
        name: text for name, text in sources.dotenv.items() if name in blank
    }


def load_settings(
    environ: Mapping[str, str], overrides: Mapping[str, object] | None = None
) -> Settings:
    """
    Resolve the settings; ``overrides`` maps setting names to the values of flags.

    An override of None was not given. A missing ``corpora.json`` is an error only
    where a corpus is asked for, because not every command needs one.
    """
    sources = open_sources(environ, overrides or {})
    path = sources.rag_dir / CONFIG_FILE_NAME
    configs = read_corpora(path) if os.path.lexists(path) else {}
    corpora = resolve_corpora(configs, path, sources.home)
    name = sources.take("corpus")
    if name in corpora:
        corpora[name] = _override(corpora[name], configs[name], sources)
    backend, embed_model = _model(sources, configs.get(name or ""))
    auth_token = _secret("auth_token", sources)
    return Settings(
        rag_dir=sources.rag_dir,
        config_path=path,
        corpora=corpora,
        corpus=corpora.get(name or ""),
        corpus_name=name,
        host=_text("host", sources, DEFAULT_HOST),
        port=_port(sources),
        transport=_choice("transport", sources, Transport.STREAMABLE_HTTP),
        backend=backend,
        vector_cache_mb=_megabytes("vector_cache_mb", sources, DEFAULT_VECTOR_CACHE_MB),
        embed_model=embed_model,
        embed_model_path=_location("embed_model_path", sources),
        base_url=_base_url(sources),
        api_key=_secret("api_key", sources),
        auth_token=auth_token if auth_token else None,
        allowed_hosts=_items("allowed_hosts", sources),
        allowed_origins=_items("allowed_origins", sources),
        trace_dir=_location("trace_dir", sources) or sources.rag_dir / "logs",
        trace_content=_switch("trace_content", sources),
        origins=sources.origins,
        notices=(*sources.likely_slips(), *sources.exposed_secrets()),
    )


def _override(corpus: Corpus, config: CorpusConfig, sources: Sources) -> Corpus:
    """Apply what flags and variables say about the chosen corpus."""
    directory = sources.take("corpus_dir", config.corpus_dir)
    server_name = sources.take("server_name", config.server_name)
    system_note = sources.take("system_note", config.system_note)
    for key in CORPUS_ROWS:
        written = "corpora.json" if key in config.written else "default"
        sources.origins.setdefault(key, written)
    return replace(
        corpus,
        directory=(
            place(directory, sources.rag_dir, sources.home)
            if directory
            else corpus.directory
        ),
        server_name=one_line(server_name or "", SERVER_NAME_MAX_CHARS)
        or corpus.server_name,
        system_note=one_line(system_note or "", SYSTEM_NOTE_MAX_CHARS),
    )


def _model(sources: Sources, config: CorpusConfig | None) -> tuple[Backend, str | None]:
    """
    Decide on backend and model, where a model may name its backend.

    A model that names a backend brings it along, unless the backend itself was set
    by a source of higher precedence: then the model belongs to a backend that is
    not in force, and the default model of the one in force stands.
    """
    written = sources.find("embed_model", config.embed_model if config else None)
    backend = _choice("backend", sources, Backend.BUILTIN)
    set_by = sources.find("backend")
    sources.origins["embed_model"] = written.origin if written else "default"
    if written is None:
        return backend, None
    named, model = split_model(written.text)
    if named is None or named == backend:
        return backend, model
    if set_by is None or set_by.level < written.level:
        sources.origins["backend"] = written.origin
        return named, model
    if set_by.level == written.level:
        raise _contradiction(written, set_by, backend)
    sources.origins["embed_model"] = "default"
    return backend, None


def split_model(text: str) -> tuple[Backend | None, str | None]:
    """
    Split ``backend:model``; a colon behind anything else belongs to the model.

    A bare backend name stands for that backend with its own default model.
    """
    head, _, tail = text.partition(":")
    if head in list(Backend):
        return Backend(head), tail.strip() or None
    return None, text


def _contradiction(model: Given, backend: Given, in_force: Backend) -> ConfigError:
    return ConfigError(
        f'{model.origin}: "{excerpt(model.text)}" names another backend than '
        f"{backend.origin} ({in_force}): make them agree, or leave one out"
    )


def _text(setting: str, sources: Sources, default: str) -> str:
    text = sources.take(setting)
    return default if text is None else text


def _port(sources: Sources) -> int:
    text = sources.take("port")
    if text is None:
        return DEFAULT_PORT
    if re.fullmatch(r"[0-9]{1,5}", text) and 1 <= int(text) <= 65535:
        return int(text)
    raise sources.problem(
        "port", f'"{excerpt(text)}" is no port: give a number from 1 to 65535'
    )


def _megabytes(setting: str, sources: Sources, default: int) -> int:
    text = sources.take(setting)
    if text is None:
        return default
    if re.fullmatch(r"[0-9]{1,7}", text):
        return int(text)
    raise sources.problem(
        setting,
        f'"{excerpt(text)}" is no number of megabytes: give a whole number from 0',
    )


def _choice(setting: str, sources: Sources, default: _Choice) -> _Choice:
    text = sources.take(setting)
    if text is None:
        return default
    members = list(type(default))
    for member in members:
        if member == text.lower():
            return member
    hint = did_you_mean(text, members)
    raise sources.problem(
        setting, f'"{excerpt(text)}" is unknown: {hint}use {", ".join(members)}'
    )


def _location(setting: str, sources: Sources) -> Path | None:
    text = sources.take(setting)
    return place(text, sources.rag_dir, sources.home) if text else None


def _base_url(sources: Sources) -> str:
    text = sources.take("base_url")
    if text is None:
        return DEFAULT_BASE_URL
    try:
        url = urllib.parse.urlsplit(text)
        usable = url.scheme in ("http", "https") and bool(url.hostname)
        _ = url.port  # raises where it is not a number in range
    except ValueError:
        usable = False
    # The text stays out of both messages: it may carry a password or a key.
    if not usable or _UNSAFE_IN_HEADER.search(text):
        raise sources.problem(
            "base_url", "is no http or https URL: write http://host:port/v1"
        )
    if url.username is not None or url.query or url.fragment:
        raise sources.problem(
            "base_url",
            "holds a user, a query or a fragment: keep scheme, host, port and path, "
            "and put the key into LMSTUDIO_API_KEY",
        )
    return text.rstrip("/")


def _secret(setting: str, sources: Sources) -> Secret:
    text = sources.take(setting) or ""
    if _UNSAFE_IN_HEADER.search(text):
        raise sources.problem(
            setting, "holds a line end or control character: remove it"
        )
    return Secret(text)


def _items(setting: str, sources: Sources) -> tuple[str, ...]:
    items = (item.strip() for item in (sources.take(setting) or "").split(","))
    return tuple(dict.fromkeys(item for item in items if item))


def _switch(setting: str, sources: Sources) -> bool:
    text = sources.take(setting)
    if text is None:
        return False
    if text.lower() not in _SWITCHES:
        raise sources.problem(
            setting, f'"{excerpt(text)}" is neither: write 1 for yes or 0 for no'
        )
    return _SWITCHES[text.lower()]
