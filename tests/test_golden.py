"""Drafted questions: from a corpus' own headings, definitions and errors."""

import json

import pytest
from helpers import make_stored

from docs_rag.golden import as_lines, draft
from docs_rag.tracemisses import Miss


@pytest.mark.parametrize(
    ("body", "family", "query", "evidence"),
    [
        pytest.param(
            "Turn the wheel until it stops.",
            "heading",
            "Open the sluice",
            "Turn the wheel until it stops.",
            id="a heading is asked",
        ),
        pytest.param(
            "# X\nA *sluice* is a gate that lets water through.",
            "definition",
            "What is sluice?",
            "a gate that lets water through",
            id="a definition is asked for",
        ),
        pytest.param(
            "# X\n    GateError: the sluice is open already",
            "error",
            "GateError: the sluice is open already",
            "GateError: the sluice is open already",
            id="an error message is asked as it stands",
        ),
    ],
)
def test_what_is_drafted(body: str, family: str, query: str, evidence: str) -> None:
    """The evidence of a draft stands in the passage it was drafted from."""
    chunk = make_stored(body, heading="Manual > Open the sluice")
    found = {one.family: one for one in draft([chunk], 10)}

    assert (found[family].query, found[family].evidence) == (query, evidence)
    assert found[family].evidence in body


def test_of_several_headings_the_first_is_asked() -> None:
    """A passage over small sections is asked for by its first one."""
    chunk = make_stored("Turn it until it stops.", heading="A > Open it now | Close")

    assert [one.query for one in draft([chunk], 5)] == ["Open it now"]


def test_one_page_does_not_fill_the_list() -> None:
    """Each page gives one question of a family, and no more than were asked for."""
    text = "Turn the wheel until it stops."
    chunks = [
        make_stored(text, id=n, path=f"docs/{n % 3}.md", heading="Open it now")
        for n in range(9)
    ]

    assert len(draft(chunks, 10)) == 3
    assert len(draft(chunks, 2)) == 2


def test_lines_can_be_read_back() -> None:
    """Drafts and misses become lines with ids of their own; hashed misses do not."""
    chunk = make_stored("Turn the wheel until it stops.", heading="Open it now")
    misses = [Miss("a" * 64, "how do I close it?"), Miss("b" * 64)]
    rows = [
        json.loads(line)
        for line in as_lines(draft([chunk], 5), misses).split("\n")
        if line
    ]

    assert [row["id"] for row in rows] == ["draft-001", "draft-002"]
    assert [row["expected"] for row in rows] == [["docs/a.md"], []]
