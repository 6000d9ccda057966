"""
Which words a model wants in front of a query or a passage.

Keyed by the family in the model's name, because servers and repackagers rename
models but keep the family; a model of no known family gets none.
"""

import re
from dataclasses import dataclass

from docs_rag.records import Purpose

_PASSAGES_EN = "Represent this sentence for searching relevant passages: "
_PASSAGES_ZH = "为这个句子生成表示以用于检索相关文章："
_TASK = "Given a web search query, retrieve relevant passages that answer the query"


@dataclass(frozen=True, slots=True)
class Prefixes:
    """What goes in front of a query, and in front of a passage."""

    query: str = ""
    passage: str = ""

    def of(self, purpose: Purpose) -> str:
        """Return the prefix for ``purpose``."""
        return self.query if purpose is Purpose.QUERY else self.passage


# The first pattern found in the lower-cased name decides, so the exceptions of a
# family stand above it.
_FAMILIES: tuple[tuple[re.Pattern[str], Prefixes], ...] = tuple(
    (re.compile(pattern), prefixes)
    for pattern, prefixes in (
        (r"\bbge-m3\b|\bbge-reranker", Prefixes()),
        (r"\bbge-(?:\w+-)?zh\b", Prefixes(query=_PASSAGES_ZH)),
        (r"\bbge-(?:micro|small|base|large)", Prefixes(query=_PASSAGES_EN)),
        (r"\be5-.*instruct\b", Prefixes(query=f"Instruct: {_TASK}\nQuery: ")),
        (r"\be5-", Prefixes(query="query: ", passage="passage: ")),
        (
            r"\bnomic-embed-code\b",
            Prefixes(query="Represent this query for searching relevant code: "),
        ),
        (
            r"\bnomic-embed",
            Prefixes(query="search_query: ", passage="search_document: "),
        ),
        (r"\barctic-embed(?:2|.*-v2)", Prefixes(query="query: ")),
        (r"\barctic-embed", Prefixes(query=_PASSAGES_EN)),
        (
            r"\bmxbai-embed-de\b",
            Prefixes(query="query: ", passage="passage: "),
        ),
        (r"\bmxbai-embed", Prefixes(query=_PASSAGES_EN)),
        (r"\buae-large", Prefixes(query=_PASSAGES_EN)),
        (r"\bgte-qwen", Prefixes(query=f"Instruct: {_TASK}\nQuery: ")),
        (r"\bqwen3-embedding", Prefixes(query=f"Instruct: {_TASK}\nQuery:")),
        (
            r"\bembedding-?gemma",
            Prefixes(
                query="task: search result | query: ",
                passage="title: none | text: ",
            ),
        ),
    )
)


def prefixes_for(model: str) -> Prefixes:
    """Return the prefixes of the family that ``model`` is named after."""
    name = model.lower().replace("_", "-")
    for pattern, prefixes in _FAMILIES:
        if pattern.search(name):
            return prefixes
    return Prefixes()
