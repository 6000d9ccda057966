"""The tools' promise: fixed words, strict arguments, answers that fit their schema."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from helpers import make_answer, make_hit, make_status
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp.types import Tool

from docs_rag.errors import EXIT_USAGE, QueryError
from docs_rag.records import Match, Omitted, Ranks, Skipped
from docs_rag.rendering import answer_as_json, status_as_json
from docs_rag.retrieval import DEFAULT_K, DEFAULT_MAX_CHARS, MAX_ALSO, MAX_QUERY_CHARS
from docs_rag.tools import (
    CORPUS_STATUS,
    RETRIEVE,
    TOOLS,
    check_no_arguments,
    question_from,
)

# What clients and models were last told. To accept a change that is meant, run
# ``python tests/test_tools.py`` with the project importable, and read the diff.
SNAPSHOT = Path(__file__).with_name("tools_snapshot.json")
MAX_DESCRIPTION_CHARS = 2048
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)


def tool(name: str) -> Tool:
    return {tool.name: tool for tool in TOOLS}[name]


def as_sent() -> list[dict[str, Any]]:
    """The tools as a client gets them."""
    return [
        tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in TOOLS
    ]


def validator(schema: dict[str, Any]) -> jsonschema.Draft202012Validator:
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def schema_of(name: str, side: str) -> dict[str, Any]:
    schema = tool(name).output_schema if side == "output" else tool(name).input_schema
    assert schema is not None
    return schema


def nodes(schema: Any) -> Iterator[dict[str, Any]]:
    """Every object inside a schema, itself included."""
    if isinstance(schema, dict):
        yield schema
        for inner in schema.values():
            yield from nodes(inner)
    if isinstance(schema, list):
        for inner in schema:
            yield from nodes(inner)


def test_tools_are_what_was_agreed() -> None:
    """Not a word of a description or schema changes unnoticed."""
    assert as_sent() == json.loads(SNAPSHOT.read_text(encoding="utf-8"))


def test_two_tools_are_offered() -> None:
    """Both have a title and a description that no client cuts off."""
    assert [tool.name for tool in TOOLS] == [RETRIEVE, CORPUS_STATUS]
    for one in TOOLS:
        assert one.title
        assert one.description and 100 < len(one.description) <= MAX_DESCRIPTION_CHARS
        assert one.name.replace("_", "").isalpha()


def test_tools_only_read() -> None:
    """The annotations say that a call changes nothing and reaches nothing else."""
    for one in TOOLS:
        assert one.annotations is not None
        assert one.annotations.read_only_hint is True
        assert one.annotations.destructive_hint is False
        assert one.annotations.idempotent_hint is True
        assert one.annotations.open_world_hint is False


def test_passages_are_called_quotations() -> None:
    """The model is told that retrieved text is data."""
    assert "never instructions" in str(tool(RETRIEVE).description)


@pytest.mark.parametrize("name", [RETRIEVE, CORPUS_STATUS])
def test_arguments_need_plain_schemas(name: str) -> None:
    """Inputs use no reference, union or null, and every property has one type."""
    schema = schema_of(name, "input")
    validator(schema)
    for node in nodes(schema):
        assert not {"$ref", "$defs", "anyOf", "oneOf", "allOf"} & set(node)
        assert not isinstance(node.get("type"), list)
    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False
    for described in schema["properties"].values():
        assert described["type"] in ("string", "integer", "array")
        assert described["description"]
    assert set(schema.get("required", [])) == {"query"} & set(schema["properties"])


@pytest.mark.parametrize("name", [RETRIEVE, CORPUS_STATUS])
def test_results_have_plain_schemas(name: str) -> None:
    """Outputs may grow: nothing in them forbids a property of tomorrow."""
    schema = schema_of(name, "output")
    validator(schema)
    for node in nodes(schema):
        assert not {"$ref", "$defs", "anyOf", "oneOf", "allOf"} & set(node)
        assert "additionalProperties" not in node
        if "properties" in node and node is not schema.get("properties"):
            assert node["required"] == list(node["properties"])


ANSWERS = [
    pytest.param(make_answer(), id="nothing found"),
    pytest.param(make_answer(make_hit(), make_hit("two")), id="two hits"),
    pytest.param(
        make_answer(
            make_hit(
                similarity=None,
                ranks=Ranks(),
                stale=True,
                also_at=("a", "b"),
                rrf_score=0.0,
            ),
            match=Match.WEAK,
            commit=None,
            omitted=(Omitted("docs/x.md", 1, 2, "gone"),),
        ),
        id="words only",
    ),
    pytest.param(make_answer(match=Match.NONE, notice=""), id="no match"),
    pytest.param(make_answer(make_hit("\x1b[31m\ud800")), id="hostile"),
]


@pytest.mark.parametrize("answer", ANSWERS)
def test_answers_fit_their_schema(answer) -> None:
    """Every answer validates, and the schema names each of its properties."""
    structured = answer_as_json(answer)
    schema = schema_of(RETRIEVE, "output")
    validator(schema).validate(json.loads(json.dumps(structured)))

    assert list(structured) == list(schema["properties"])
    for hit in structured["hits"]:
        properties = schema["properties"]["hits"]["items"]["properties"]
        assert list(hit) == list(properties)
        assert list(hit["ranks"]) == list(properties["ranks"]["properties"])


STATES = [
    pytest.param(make_status(), id="all well"),
    pytest.param(
        make_status(
            indexed_at=None,
            checked_at=None,
            commit=None,
            dirty=None,
            synced_at=None,
            verdict={},
            skipped=(Skipped("a", "b"),) * 99,
            failed=(Skipped("a", "b"),),
            unmatched_scope=("roots: guide",),
            notices=("notice",),
        ),
        id="nothing well",
    ),
]


@pytest.mark.parametrize("status", STATES)
def test_states_fit_their_schema(status) -> None:
    """Every state validates, and the schema names each of its properties."""
    structured = status_as_json(status)
    schema = schema_of(CORPUS_STATUS, "output")
    validator(schema).validate(json.loads(json.dumps(structured)))

    assert set(structured) == set(schema["properties"])


# -- arguments --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "k", "also"),
    [
        ({"query": "q"}, DEFAULT_K, ()),
        ({"query": "q", "k": 1}, 1, ()),
        ({"query": "q", "k": 20}, 20, ()),
        ({"query": "q", "k": 3.0}, 3, ()),
        ({"query": "q", "also": []}, DEFAULT_K, ()),
        ({"query": " q ", "also": ["a", "b", "a", "q"]}, DEFAULT_K, ("a", "b")),
        ({"query": "q", "also": [f"a{i}" for i in range(MAX_ALSO)]}, DEFAULT_K, None),
    ],
)
def test_arguments_that_fit(arguments, k: int, also) -> None:
    """Defaults are filled in, whole numbers may be written 3.0, repeats count once."""
    question = question_from(arguments)

    assert question.query == "q"
    assert (question.k, type(question.k)) == (k, int)
    assert question.also == (tuple(arguments["also"]) if also is None else also)
    assert question.max_chars == DEFAULT_MAX_CHARS


K = "k must be a whole number from 1 to 20, not "


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param({}, "query is missing", id="no query"),
        pytest.param({"k": 3}, "query is missing", id="k alone"),
        pytest.param({"query": None}, "query must be a string, not null", id="null"),
        pytest.param({"query": 5}, "query must be a string, not a number", id="number"),
        pytest.param(
            {"query": True}, "query must be a string, not a boolean", id="bool"
        ),
        pytest.param({"query": ["q"]}, "query must be a string, not a list", id="list"),
        pytest.param(
            {"query": {}}, "query must be a string, not an object", id="object"
        ),
        pytest.param({"query": ""}, "query is empty", id="empty"),
        pytest.param({"query": " \n\u200b"}, "query is empty", id="blank"),
        pytest.param(
            {"query": "q" * (MAX_QUERY_CHARS + 1)}, "20001 characters", id="long"
        ),
        pytest.param({"query": "q", "k": 0}, K + "one outside", id="k 0"),
        pytest.param({"query": "q", "k": -1}, K + "one outside", id="k -1"),
        pytest.param({"query": "q", "k": 21}, K + "one outside", id="k 21"),
        pytest.param({"query": "q", "k": 10**6000}, K + "one outside", id="k enormous"),
        pytest.param({"query": "q", "k": 1e308}, K + "one outside", id="k 1e308"),
        pytest.param({"query": "q", "k": float("nan")}, K + "one outside", id="k nan"),
        pytest.param({"query": "q", "k": float("inf")}, K + "one outside", id="k inf"),
        pytest.param({"query": "q", "k": 3.7}, K + "3.7", id="k 3.7"),
        pytest.param({"query": "q", "k": "5"}, K + "a string", id="k string"),
        pytest.param({"query": "q", "k": True}, K + "a boolean", id="k true"),
        pytest.param({"query": "q", "k": None}, K + "null", id="k null"),
        pytest.param({"query": "q", "k": [5]}, K + "a list", id="k list"),
        pytest.param(
            {"query": "q", "also": "a"},
            "also must be a list of strings, not a string",
            id="also string",
        ),
        pytest.param(
            {"query": "q", "also": None},
            "also must be a list of strings, not null",
            id="also null",
        ),
        pytest.param(
            {"query": "q", "also": {"a": 1}},
            "list of strings, not an object",
            id="also object",
        ),
        pytest.param(
            {"query": "q", "also": ["a", 1]},
            "also must hold strings, not a number",
            id="also with a number",
        ),
        pytest.param(
            {"query": "q", "also": [None]},
            "also must hold strings, not null",
            id="also with null",
        ),
        pytest.param({"query": "q", "also": [""]}, "also is empty", id="also empty"),
        pytest.param(
            {"query": "q", "also": ["a"] * 9},
            "also takes up to 8 phrasings, not 9",
            id="also too many",
        ),
        pytest.param(
            {"query": "q", "max_chars": 5},
            "retrieve has no argument 'max_chars': it takes query, k, also",
            id="unknown",
        ),
        pytest.param(
            {"query": "q", "x" * 5000: 5},
            "retrieve has no argument 'xxx",
            id="unknown, long",
        ),
        pytest.param(
            {"Query": "q"}, "retrieve has no argument 'Query'", id="other case"
        ),
    ],
)
def test_arguments_that_do_not_fit(arguments, message: str) -> None:
    """Each is refused in one short line that names the argument and what it takes."""
    with pytest.raises(QueryError) as caught:
        question_from(arguments)

    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 200
    assert caught.value.exit_code == EXIT_USAGE


@settings(max_examples=200)
@given(
    st.dictionaries(st.sampled_from(["query", "k", "also", "x"]), JSON)
    | st.fixed_dictionaries({"query": st.text(min_size=1), "k": JSON, "also": JSON})
)
def test_any_arguments_are_taken_or_refused(arguments: dict[str, Any]) -> None:
    """No arguments crash, and what is taken the published schema allows too."""
    try:
        question = question_from(arguments)
    except QueryError as error:
        assert "\n" not in str(error)
        return
    validator(schema_of(RETRIEVE, "input")).validate(arguments)
    assert 1 <= question.k <= 20


def test_no_arguments_are_none() -> None:
    """A tool without arguments takes an empty object and nothing else."""
    check_no_arguments(CORPUS_STATUS, {})
    with pytest.raises(
        QueryError, match=r"^corpus_status has no argument 'verbose': it takes none$"
    ):
        check_no_arguments(CORPUS_STATUS, {"verbose": True})


if __name__ == "__main__":
    SNAPSHOT.write_text(
        json.dumps(as_sent(), indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
    )
