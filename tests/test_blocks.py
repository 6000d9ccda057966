"""The tree of blocks: kinds, spans, tiling, depth."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docs_rag.blocks import Block, BlockKind, parse_blocks
from docs_rag.lines import Lines


def parse(text: str) -> tuple[Block, ...]:
    return parse_blocks(Lines.from_text(text), 1).blocks


def shape(blocks: tuple[Block, ...]) -> list[tuple[str, int, int]]:
    return [(str(block.kind), block.first, block.last) for block in blocks]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("one\ntwo", [("paragraph", 1, 2)]),
        ("# a\n\nb", [("heading", 1, 1), ("paragraph", 3, 3)]),
        ("a\nb\n===", [("heading", 1, 3)]),
        ("- a\n- b\n\nc", [("list", 1, 2), ("paragraph", 4, 4)]),
        ("> a\nlazy\n\nb", [("quote", 1, 2), ("paragraph", 4, 4)]),
        ("|a|b|\n|-|-|\n|1|2|\n\nc", [("table", 1, 3), ("paragraph", 5, 5)]),
        ("|a|b|\n|-|-|\n# c", [("table", 1, 2), ("heading", 3, 3)]),
        ("|a|b|\n|-|-|\n|1|2|\n    c", [("table", 1, 3), ("code", 4, 4)]),
        ("```\na\n\n```\nb", [("fence", 1, 4), ("paragraph", 5, 5)]),
        ("~~~\na", [("fence", 1, 2)]),
        ("    a\n\n    b\n\nc", [("code", 1, 3), ("paragraph", 5, 5)]),
        ("<pre>\n\n# a\n</pre>", [("html", 1, 4)]),
        ("<!-- a\n\n# b\n-->\nc", [("html", 1, 4), ("paragraph", 5, 5)]),
        ("a\n\n---\n\nb", [("paragraph", 1, 1), ("rule", 3, 3), ("paragraph", 5, 5)]),
        ("[a]: b.md\n[c]: d.md", [("definition", 1, 1), ("definition", 2, 2)]),
        ("[^a]: b\n\n    c\n\nd", [("footnote", 1, 3), ("paragraph", 5, 5)]),
        ("<a id='x'></a>\n\nb", [("anchor", 1, 1), ("paragraph", 3, 3)]),
        ("a\n\x0c\nb", [("paragraph", 1, 1), ("paragraph", 3, 3)]),
    ],
)
def test_kinds_and_spans(text: str, expected: list[tuple[str, int, int]]) -> None:
    """A block has the kind CommonMark gives it, and the lines it stands on."""
    assert shape(parse(text)) == expected


@pytest.mark.parametrize(
    ("text", "silent"),
    [
        ("<!-- a note\nto self -->", True),
        ("<!-- a --> <!-- b -->", True),
        ("<a name='x'></a><span id=\"y\"></span>", True),
        ("<a id='x'/>", True),
        ("---", True),
        ("[a]: b.md", True),
        ("<!-- a --> b", False),
        ("<a href='x'>b</a>", False),
        ("<a id='x'>b</a>", False),
        ("<img alt='b'>", False),
        ("b", False),
    ],
)
def test_silent_blocks(text: str, silent: bool) -> None:
    """Comments, anchors, rules and link targets hold no text for a reader."""
    assert [block.silent for block in parse(text)] == [silent]


@pytest.mark.parametrize(
    ("text", "lead", "tail", "foot"),
    [
        ("```sh -x\na\n```", "```sh -x", "```", 3),
        ("````md\n```\n````", "````md", "````", 3),
        ("  ~~~\n  a\n  ~~~", "  ~~~", "  ~~~", 3),
        ("```\na", "```", "```", 0),
        ("```", "```", "```", 0),
        ("```" + "x" * 500 + "\na\n```", "```", "```", 3),
    ],
    ids=["info", "four", "indented", "open", "lone", "long"],
)
def test_frame_of_a_fence(text: str, lead: str, tail: str, foot: int) -> None:
    """A fence knows the line that opens it again, and whether one closes it."""
    (fence,) = parse(text)

    assert (fence.lead, fence.tail, fence.foot) == (lead, tail, foot)


def test_where_a_fence_is_open() -> None:
    """Lines of a quote below a fence are no part of the fence."""
    (quote,) = parse("> ```\n> a\n> ```\n>\n>")
    (fence,) = quote.children

    assert [n for n in range(1, 6) if fence.is_open_before(n)] == [2, 3]
    assert [n for n in range(1, 6) if fence.is_open_after(n)] == [1, 2]


def test_frame_of_a_nested_fence() -> None:
    """The lead of a fence in a list or a quote is indented or marked like its lines."""
    (in_list,) = parse("1. ```py\n   a\n   ```")
    (in_quote,) = parse("> ```py\n> a\n> ```")

    (fence,) = in_list.children[0].children
    assert (fence.lead, fence.tail) == ("   ```py", "   ```")
    (fence,) = in_quote.children
    assert (fence.lead, fence.tail) == ("> ```py", "> ```")


def test_open_tail_reaches_the_last_block() -> None:
    """A fence that is left open at the end of a list item is closed by its tail."""
    (whole,) = parse("- a\n- b\n\n  ```\n  c")

    assert whole.open_tail() == "  ```"
    assert parse("- a\n\n  ```\n  c\n  ```")[0].open_tail() == ""


def test_children_claim_the_lines_between_them() -> None:
    """A line that is only a marker belongs to the block after it."""
    (quote,) = parse("> a\n>\n> - b\n>\n>\n")

    assert shape(quote.children) == [("paragraph", 1, 1), ("list", 2, 5)]
    assert shape(quote.children[1].children) == [("item", 2, 5)]


def test_long_quote() -> None:
    """A quote is one block, however long it is and whatever is open in it."""
    assert shape(parse("> a\n>\n" * 300 + "> b")) == [("quote", 1, 601)]
    assert shape(parse("> ```\n" + "> a\n" * 600 + "> ```\n\nb")) == [
        ("quote", 1, 602),
        ("paragraph", 604, 604),
    ]


def test_last_line_without_an_end() -> None:
    """A file may stop in the midst of anything."""
    assert shape(parse("> - <!-- a\n> ")) == [("quote", 1, 2)]


def leaves(blocks: tuple[Block, ...]) -> list[Block]:
    return [
        leaf for block in blocks for leaf in (leaves(block.children) or [block])
    ]  # fmt: skip


MARKS = [
    "a",
    " ",
    "  ",
    "\n",
    "\n",
    "- ",
    "> ",
    "1. ",
    "#",
    "```",
    "|a|\n|-|",
    "[^1]: ",
    "<!--",
]


@settings(max_examples=300)
@given(st.lists(st.sampled_from(MARKS), max_size=40).map("".join))
def test_leaves_tile_the_document(text: str) -> None:
    """Each line that shows something is in exactly one leaf."""
    lines = Lines.from_text(text)
    claimed = [
        number
        for leaf in leaves(parse(text))
        for number in range(leaf.first, leaf.last + 1)
        if not lines.is_blank(number)
    ]

    assert claimed == [
        number
        for number in range(1, len(lines.lines) + 1)
        if not lines.is_blank(number)
    ]


@pytest.mark.parametrize(
    "deep",
    [
        ">" * 10_000 + " a",
        "".join("  " * depth + "- a\n" for depth in range(1_000)),
        "- " * 5_000 + "a",
        "1) " * 5_000 + "a",
        "> - " * 3_000 + "a",
        "[^a]: " * 3_000 + "a",
    ],
    ids=["quotes", "lists", "one-line", "numbers", "mixed", "footnotes"],
)
def test_depth_does_not_swallow_the_rest(deep: str) -> None:
    """What follows a block nested beyond any sense keeps its structure."""
    blocks = parse(f"{deep}\n\n# After\n\nText.")

    assert [block.kind for block in blocks[-2:]] == [
        BlockKind.HEADING,
        BlockKind.PARAGRAPH,
    ]
    assert blocks[-2].source == "After"
