"""
``docs-rag query`` and ``docs-rag status``: a corpus asked from the shell.

Each opens the corpus as a server does, but leaves its vectors on disk: one question
does not pay for loading them.
"""

import argparse
import os
from contextlib import closing
from typing import TextIO

from docs_rag.config import Settings
from docs_rag.errors import EXIT_DONE, QueryError
from docs_rag.explaintext import explanation_as_text
from docs_rag.rendering import (
    answer_as_json,
    answer_as_text,
    json_for,
    status_as_json,
    status_as_text,
)
from docs_rag.retrieval import DEFAULT_MAX_CHARS, ask
from docs_rag.service import CallContext, open_service
from docs_rag.tracing import Caller


def query(
    arguments: argparse.Namespace,
    settings: Settings,
    given: TextIO | None,
    out: TextIO,
) -> int:
    """Answer the question in ``arguments``, or the one in ``given``."""
    max_chars = arguments.max_chars
    question = ask(
        _query_text(arguments, given),
        arguments.k,
        [_as_utf8(phrasing) for phrasing in arguments.also],
        DEFAULT_MAX_CHARS if max_chars is None else max_chars,
    )
    with closing(open_service(settings, resident=False)) as service:
        answer = service.retrieve(
            question,
            CallContext(Caller.CLI),
            even_if_none=arguments.all,
            explain=arguments.explain,
        )
    told = answer.explanation
    if arguments.json:
        explain = {} if told is None else {"explain": answer.facts | told}
        out.write(json_for(out, answer_as_json(answer) | explain) + "\n")
        return EXIT_DONE
    out.write(f"{answer_as_text(answer)}\n")
    if told is not None:
        out.write(f"\nexplain:\n{explanation_as_text(answer)}\n")
    return EXIT_DONE


def _query_text(arguments: argparse.Namespace, given: TextIO | None) -> str:
    if arguments.query:
        return _as_utf8(" ".join(arguments.query))
    if given is None or given.isatty():
        raise QueryError('no question: give it as an argument, docs-rag query "..."')
    return given.buffer.read().decode("utf-8", "replace")


def _as_utf8(word: str) -> str:
    """Return an argument with the bytes that are not UTF-8 replaced."""
    return os.fsencode(word).decode("utf-8", "replace")


def show_status(arguments: argparse.Namespace, settings: Settings, out: TextIO) -> int:
    """Say what the index holds."""
    with closing(open_service(settings, resident=False)) as service:
        status = service.status(CallContext(Caller.CLI))
    if arguments.json:
        out.write(json_for(out, status_as_json(status)) + "\n")
    else:
        out.write(f"{status_as_text(status)}\n")
    return EXIT_DONE
