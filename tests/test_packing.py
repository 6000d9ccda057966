"""Cutting within a line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docs_rag.packing import cut_line


@given(st.text("ab .。汉e\u0301\u200d\t", max_size=300), st.integers(20, 60))
def test_pieces_make_the_line(text: str, room: int) -> None:
    """Each piece fits and is a part of the line, in order, and only blanks get lost."""
    pieces = list(cut_line(text, room))
    position = 0
    for piece in pieces:
        assert len(piece) <= room
        position = text.index(piece, position) + len(piece)

    def inked(parts: list[str]) -> str:
        return "".join("".join(parts).split()).replace("\u200d", "")

    assert inked(pieces) == inked([text])


def test_pieces_are_even() -> None:
    """No crumb is left at the end."""
    assert [len(piece) for piece in cut_line("x" * 250, 100)] == [84, 83, 83]


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("word " * 30, ("word " * 15).strip()),
        ("w" * 70 + ". " + "v" * 40 + " " + "u" * 40, "w" * 70 + "."),
        ("汉字" * 35 + "。" + "汉字" * 40, "汉字" * 35 + "。"),
        ("- " + "x" * 150, "- " + "x" * 74),
    ],
    ids=["blank", "sentence", "full-stop", "list-marker"],
)
def test_cut_at_a_natural_place(text: str, first: str) -> None:
    """A cut prefers a sentence's end, then a blank, but not that of a list marker."""
    assert next(iter(cut_line(text, 100))) == first


@pytest.mark.parametrize(
    "cluster",
    ["e\u0301\u0323", "👩\u200d👩\u200d👧\u200d👦", "👍🏽", "☎\ufe0f", "नि"],
    ids=["accents", "family", "skin", "selector", "vowel-sign"],
)
def test_characters_are_not_cut(cluster: str) -> None:
    """What is shown as one character is not torn apart."""
    pieces = list(cut_line(cluster * 100, 50))

    assert len(pieces) > 1
    assert [piece.replace(cluster, "") for piece in pieces] == [""] * len(pieces)
