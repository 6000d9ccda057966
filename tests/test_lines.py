"""The numbered lines of a document: ends, blanks, spans and payloads."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docs_rag.lines import ELIDED_FROM_CHARS, Lines, elide_payloads, is_visible


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\nb", ("a", "b")),
        ("a\r\nb", ("a", "b")),
        ("a\rb", ("a", "b")),
        ("a\r\r\nb", ("a", "", "b")),
        ("\ufeffa", ("a",)),
        ("a\x0cb\x0bc\u2028d\x85e", ("a\x0cb\x0bc\u2028d\x85e",)),
        ("a\0b", ("a\ufffdb",)),
        ("a\ud800b", ("a\ufffdb",)),
        ("", ("",)),
    ],
    ids=["lf", "crlf", "cr", "mixed", "bom", "no-ends", "nul", "surrogate", "empty"],
)
def test_line_ends(text: str, expected: tuple[str, ...]) -> None:
    """LF, CR LF and CR end a line and nothing else does; the unstorable is replaced."""
    assert expected == Lines.from_text(text).lines


@pytest.mark.parametrize(
    ("text", "count"), [("", 0), ("a", 1), ("a\n", 1), ("a\n\n", 2), ("\n", 1)]
)
def test_count(text: str, count: int) -> None:
    """A final line end opens no new line."""
    assert count == Lines.from_text(text).count


@given(st.lists(st.text("ab \t"), min_size=1), st.data())
def test_spans(texts: list[str], data: st.DataObject) -> None:
    """The size of a span is the length of its text, and blanks are found by search."""
    lines = Lines.from_text("\n".join(texts))
    first = data.draw(st.integers(1, len(texts)))
    last = data.draw(st.integers(first, len(texts)))
    solid = [n for n, line in enumerate(texts, 1) if line.strip()]

    assert len(lines.text(first, last)) == lines.size(first, last)
    assert lines.distance(first, last) == sum(
        len(t) + 1 for t in texts[first - 1 : last - 1]
    )
    assert max([first, *(n for n in solid if n <= last)]) == lines.last_solid(
        first, last
    )
    assert next((n for n in solid if n >= first), len(texts)) == lines.next_solid(first)
    assert [n for n in range(1, len(texts) + 1) if not lines.is_blank(n)] == solid


@pytest.mark.parametrize(
    "text", ["", " \t", "\x0c", "\u3000", "\u200b\ufeff", "\u2028"]
)
def test_invisible(text: str) -> None:
    """White space and zero-width marks show nothing, so a line of them is blank."""
    assert not is_visible(text)
    assert Lines.from_text(f"a\n{text}\nb").is_blank(2)


def test_payload_is_elided() -> None:
    """A picture in a link is replaced by its size; its type and alt text stay."""
    line = f"See ![a lamp](data:image/png;base64,{'iVBORw0K' * 100}) here."

    elided = elide_payloads(line)

    assert (
        elided == "See ![a lamp](data:image/png;base64,…800-characters-left-out…) here."
    )
    assert elided == elide_payloads(elided)


@pytest.mark.parametrize(
    "line",
    [
        f"![x](data:image/gif;base64,{'A' * (ELIDED_FROM_CHARS - 1)})",
        'data: {"event": "' + "x" * 500 + '"}',
        "a sentence about data: and " + "y" * 500,
        f"metadata:{'z' * 500}",
    ],
    ids=["short", "event-stream", "prose", "other-word"],
)
def test_other_text_is_kept(line: str) -> None:
    """Only a long payload of a data address is left out."""
    assert line == elide_payloads(line)


@pytest.mark.parametrize(
    "kind", ["image/svg+xml;utf8", "font/woff2;charset=utf-8", ";base64"]
)
def test_payload_kinds(kind: str) -> None:
    """The media type may be anything, or left out."""
    assert "…300-characters-left-out…" in elide_payloads(
        f"<a b='data:{kind},{'%3C' * 100}>"
    )
