"""The rows of an index as values."""

import pytest
from helpers import make_stored


@pytest.mark.parametrize(
    ("lead", "body", "tail", "text"),
    [
        ("", "body", "", "body"),
        ("```sh", "ls", "```", "```sh\nls\n```"),
        ("| a |\n|---|", "| 1 |", "", "| a |\n|---|\n| 1 |"),
        ("", "line\n\nline", "", "line\n\nline"),
    ],
)
def test_a_stored_chunk_shows_its_text(lead, body, tail, text) -> None:
    """Lead, body and tail stand on lines of their own, absent ones leave none."""
    assert make_stored(body, lead=lead, tail=tail).text == text
