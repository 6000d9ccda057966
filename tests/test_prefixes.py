"""Tests of the prefixes by model family."""

import pytest

from docs_rag.prefixes import Prefixes, prefixes_for
from docs_rag.records import Purpose

BGE = "Represent this sentence for searching relevant passages: "


@pytest.mark.parametrize(
    ("model", "query", "passage"),
    [
        ("BAAI/bge-small-en-v1.5", BGE, ""),
        ("text-embedding-bge-large-en-v1.5", BGE, ""),
        ("BAAI/bge-small-zh-v1.5", "为这个句子生成表示以用于检索相关文章：", ""),
        ("bge-m3:latest", "", ""),
        ("intfloat/multilingual-e5-large", "query: ", "passage: "),
        ("intfloat/e5-base-v2", "query: ", "passage: "),
        ("nomic-ai/nomic-embed-text-v1.5-Q", "search_query: ", "search_document: "),
        (
            "text-embedding-nomic-embed-text-v1.5",
            "search_query: ",
            "search_document: ",
        ),
        ("snowflake/snowflake-arctic-embed-m", BGE, ""),
        ("Snowflake/snowflake-arctic-embed-l-v2.0", "query: ", ""),
        ("snowflake-arctic-embed2", "query: ", ""),
        ("mixedbread-ai/mxbai-embed-large-v1", BGE, ""),
        (
            "google/embeddinggemma-300m",
            "task: search result | query: ",
            "title: none | text: ",
        ),
        ("thenlper/gte-large", "", ""),
        ("sentence-transformers/all-MiniLM-L6-v2", "", ""),
        ("text-embedding-3-small", "", ""),
        ("shoe5-large", "", ""),
    ],
)
def test_a_family_keeps_its_prefixes_under_any_name(
    model: str, query: str, passage: str
) -> None:
    """The family in the name decides, whoever repackaged the model."""
    assert prefixes_for(model) == Prefixes(query, passage)


@pytest.mark.parametrize(
    "model", ["intfloat/multilingual-e5-large-instruct", "Qwen/Qwen3-Embedding-0.6B"]
)
def test_an_instructed_model_gets_its_task_with_the_query_only(model: str) -> None:
    """Models that follow instructions want one for the query and none for passages."""
    prefixes = prefixes_for(model)

    assert prefixes.query.startswith("Instruct: Given a web search query")
    assert prefixes.query.rstrip().endswith("Query:")
    assert prefixes.passage == ""


def test_a_prefix_is_chosen_by_purpose() -> None:
    """Queries and passages each get their own."""
    prefixes = Prefixes("q: ", "p: ")

    assert prefixes.of(Purpose.QUERY) == "q: "
    assert prefixes.of(Purpose.PASSAGE) == "p: "
