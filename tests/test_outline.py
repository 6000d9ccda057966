"""Sections, and which of them are joined."""

import pytest

from docs_rag.blocks import parse_blocks
from docs_rag.lines import Lines
from docs_rag.outline import Outline, RunBuilder, build_outline


def outline_of(text: str) -> tuple[Lines, Outline]:
    lines = Lines.from_text(text)
    return lines, build_outline(parse_blocks(lines, 1), lines.count)


def runs(text: str, max_chars: int = 100, min_chars: int = 30) -> list[str]:
    """Name the sections of each run by their titles."""
    lines, outline = outline_of(text)
    builder = RunBuilder(lines, outline, max_chars, min_chars, 0)
    return [
        " ".join(
            part.section.path[-1] if part.section.path else "-" for part in run.parts
        )
        for run in builder.runs()
    ]


def test_sections_nest_by_level() -> None:
    """A section's path runs from the outermost heading, past levels left out."""
    _, outline = outline_of("intro\n# A\n#### B\n\ntext\n## C\n# D\n")

    assert [
        (s.path, s.level, s.first_line, s.last_line)
        for s in (part.section for part in outline.parts)
    ] == [
        ((), 0, 1, 1),
        (("A",), 1, 2, 2),
        (("A", "B"), 4, 3, 5),
        (("A", "C"), 2, 6, 6),
        (("D",), 1, 7, 7),
    ]


def test_slugs_are_unique_in_a_document() -> None:
    """Headings with the same title get numbered slugs, text before them none."""
    _, outline = outline_of("x\n# A\n## A\n## B {#a}\n")

    assert [p.section.slug for p in outline.parts] == ["", "a", "a-1", "a-2"]


def test_heading_without_words_is_text() -> None:
    """A bare hash opens no section."""
    _, outline = outline_of("# A\n\n#\n\n##  ##\n\ntext\n")

    assert [p.section.path for p in outline.parts] == [("A",)]


def test_anchors_above_a_heading_go_with_it() -> None:
    """Former names of a heading are read with it, though its section starts below."""
    text = "# A\n\ntext\n\n<!-- old names -->\n\n<a id='b0'></a>\n\n## B\n\ntext\n"
    _, outline = outline_of(text)
    first, second = outline.parts

    assert [block.first for block in first.blocks] == [1, 3]
    assert (second.blocks[0].first, second.section.first_line) == (5, 9)
    assert first.section.last_line == 8


def test_comment_above_a_heading_stays() -> None:
    """A comment alone is no name of the heading after it."""
    _, outline = outline_of("# A\n\ntext\n\n<!-- end -->\n\n## B\n")

    assert [block.first for block in outline.parts[0].blocks] == [1, 3, 5]


LONG = "w" * 60
HALF = "w" * 30
HUGE = "\n\n".join(["w" * 60] * 3)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# A\n\nx\n\n# B\n\nx\n\n# C\n\nx\n", ["A B C"]),
        (f"# A\n\n{LONG}\n\n# B\n\n{LONG}\n", ["A", "B"]),
        (f"# A\n\nx\n\n# B\n\n{LONG}\n", ["A B"]),
        (f"# A\n\n{LONG}\n\n# B\n\nx\n", ["A B"]),
        (f"# A\n\n{LONG}{HALF}\n\n# B\n\nx\n", ["A", "B"]),
        (f"# A\n\nx\n\n## B\n\n{LONG}\n\n## C\n\n{LONG}\n", ["A B", "C"]),
        (f"# A\n\n{LONG}\n\n## B\n\n{LONG}\n\n## C\n\nx\n\n# D\n", ["A", "B C", "D"]),
        (f"# A\n\n{LONG}\n\n## B\n\n{LONG}\n\n# C\n\nx\n", ["A", "B", "C"]),
        (f"# A\n\n## B\n\n### C\n\n{LONG}\n\n### D\n\n{LONG}\n", ["A B C", "D"]),
        (f"# A\n\n## B\n\n{HUGE}\n", ["A B"]),
        (f"# A\n\nx\n\n# B\n\n{HUGE}\n", ["A B"]),
        (f"# A\n\n{HUGE}\n\n# B\n\nx\n", ["A B"]),
        (f"# A\n\n## B\n\n{HUGE}\n\n# C\n\nx\n", ["A B", "C"]),
        (f"x\n\n# A\n\n{LONG}\n", ["- A"]),
        (f"# A\n\n<!-- {HALF} -->\n\n## B\n\n{HALF}\n\n## C\n\n{HALF}\n", ["A B", "C"]),
        (f"# A\n\n## B\n\nx\n\n## C\n\nx\n\n# D\n\n{HALF}\n", ["A B C D"]),
    ],
    ids=[
        "siblings", "large-siblings", "takes-next", "goes-to-previous", "does-not-fit",
        "intro-takes-child", "last-child-goes-back", "not-across-parents",
        "empty-heading", "empty-above-huge", "before-huge", "after-huge",
        "not-below-huge", "text-before-headings", "comment-is-empty", "whole-subtree",
    ],
)  # fmt: skip
def test_joining(text: str, expected: list[str]) -> None:
    """Small sections are joined with neighbours under one parent while they fit."""
    assert runs(text) == expected


def test_many_empty_headings() -> None:
    """Headings without text fill runs as far as these go."""
    names = runs("# a\n" * 60)

    assert all(len(name.split()) <= 25 for name in names)
    assert sum(len(name.split()) for name in names) == 60
