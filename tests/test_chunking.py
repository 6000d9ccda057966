"""Markdown to passages: what is a section, what stays together, what is never lost."""

import re
import time
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docs_rag.chunking import (
    CHUNKER_VERSION,
    ChunkPolicy,
    chunk_markdown,
    elide_payloads,
    slugify,
)
from docs_rag.lines import Lines, is_visible
from docs_rag.records import Chunk, ChunkedDocument, Section

SMALL = ChunkPolicy(max_chars=200, min_chars=60, overlap_chars=40)
SENTENCE = "The warden checks each lock at dusk and notes it in the book. "


def titles(document: ChunkedDocument) -> list[str]:
    return [section.path[-1] for section in document.sections if section.path]


def chunk_with(document: ChunkedDocument, words: str) -> Chunk:
    (chunk,) = [chunk for chunk in document.chunks if words in chunk.body]
    return chunk


def numbered(count: int, form: str = "line {} of the log") -> str:
    return "\n".join(form.format(n) for n in range(1, count + 1))


# What is a section


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# One\n\ntext\n\n## Two ##\n\ntext", ["One", "Two"]),
        ("One\n===\n\ntext\n\nTwo\nlines\n---\n\ntext", ["One", "Two lines"]),
        ("# Ties with F#\n\ntext", ["Ties with F#"]),
        ("# One\n\n```sh\n# not two\n```\n\n# Three", ["One", "Three"]),
        ("# One\n\n~~~\n# no\n```\n# no\n~~~\n\n# Two", ["One", "Two"]),
        ("# One\n\n````md\n```\n# no\n```\n````\n\n# Two", ["One", "Two"]),
        ("# One\n\n```\n``` not the end\n# no\n```\n\n# Two", ["One", "Two"]),
        ("# One\n\n1. step\n\n   ```\n   # no\n   ```\n2. step", ["One"]),
        ("# One\n\n    # no\n\n# Two", ["One", "Two"]),
        ("# One\n\n<!--\n\n## no\n\n-->\n\n# Two", ["One", "Two"]),
        ("# One\n\n<pre>\n\n# no\n\n</pre>\n\n# Two", ["One", "Two"]),
        ("# One\n\n<script>\n\n# no\n</script>\n\n# Two", ["One", "Two"]),
        ("# One\n\n> # no\n\n- # no\n\n# Two", ["One", "Two"]),
        ("# One\r\n\r\ntext\r\n\r\n# Two\r\n", ["One", "Two"]),
        ("# One\r\rtext\r\r# Two\r", ["One", "Two"]),
        ("\ufeff# One\n\ntext", ["One"]),
        ("#no\n\n\\# no\n\n####### no", []),
        ("# One\n\n|a|b|\n|-|-|\n|# no|c|\n# Two", ["One", "Two"]),
        ("import X from 'x'\n\n# One\n\n<Tab label='# no'>\n\ntext\n\n</Tab>", ["One"]),
        ("# One\n\n[^1]: note\n\n    # no\n\n# Two", ["One", "Two"]),
        ("# \x00ne", ["\ufffdne"]),
    ],
    ids=[
        "atx", "setext", "hash-in-title", "fence", "tilde-fence", "four-ticks",
        "text-after-ticks", "fence-in-list", "indented-code", "comment", "pre",
        "script", "quote-and-list", "crlf", "cr", "bom", "not-headings", "table", "mdx",
        "footnote", "nul",
    ],
)  # fmt: skip
def test_headings(text: str, expected: list[str]) -> None:
    """A heading of the document opens a section; what looks like one does not."""
    assert titles(chunk_markdown(text)) == expected


def test_section_lines() -> None:
    """A section runs from its heading to the line before the next one."""
    document = chunk_markdown("intro\n\n# A\n\nx\n\n## B\n\ny\n")

    assert document.sections == (
        Section((), "", 0, 1, 2),
        Section(("A",), "a", 1, 3, 6),
        Section(("A", "B"), "b", 2, 7, 9),
    )
    assert document.line_count == 9


def test_odd_characters_do_not_shift_lines() -> None:
    """Form feeds and Unicode separators are characters of their line."""
    document = chunk_markdown("a\x0cb\u2028c\x85d\n\n# A\n\ntext")

    assert document.sections[1].first_line == 3
    assert document.chunks[0].body.startswith("a\x0cb\u2028c\x85d\n")


# Title, front matter, empty pages


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("---\ntitle: Locks\n---\n# Gates", "Locks"),
        ("intro\n\n## Sub\n\n# Gates & `bars`", "Gates & bars"),
        ("## Sub\n\ntext", "lock-keeping"),
        ("", "lock-keeping"),
    ],
    ids=["front-matter", "first-h1", "no-h1", "empty"],
)
def test_title(text: str, title: str) -> None:
    """The title is the front matter's, else the first H1, else the file's name."""
    assert chunk_markdown(text, path="guide/lock-keeping.md").title == title


def test_front_matter_is_text_of_the_first_chunk_only() -> None:
    """Title, description and aliases stand before the first passage only."""
    text = (
        "---\ntitle: Lock manual\nsummary: How locks work.\naliases: [sluices]\n"
        f"weight: 7\n---\n\n# Locks\n\n{SENTENCE * 3}\n\n# Gates\n\n{SENTENCE * 3}\n"
    )
    document = chunk_markdown(text, SMALL)
    first, *others = document.chunks

    assert first.lead == "Lock manual\nHow locks work.\nsluices"
    assert first.first_line == 8
    assert document.description == "How locks work."
    assert [chunk.lead for chunk in others] == [""] * len(others)
    assert all("weight" not in chunk.text for chunk in document.chunks)


@pytest.mark.parametrize(
    "body", [numbered(20), numbered(8), "# A\n\nx\n\n# B\n\n" + "w" * 90]
)
def test_front_matter_counts_towards_the_first_chunk(body: str) -> None:
    """The first passage fits although it is introduced."""
    chunks = chunk_markdown(f"---\ntitle: {'t' * 60}\n---\n{body}", SMALL).chunks

    assert len(chunks) > 1
    assert chunks[0].lead == "t" * 60
    assert all(len(chunk.text) <= 200 for chunk in chunks)


def test_ruled_letterhead_is_text() -> None:
    """A page that opens with text between rules keeps all of it."""
    (chunk,) = chunk_markdown("---\n**Tool shed**\nopen at noon\n---\n\nBody.").chunks

    assert chunk.body == "---\n**Tool shed**\nopen at noon\n---\n\nBody."


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n\n",
        " \t\r\n",
        "\x0c\u200b\n",
        "---\ntitle: x\n---\n",
        "---\ntitle: x\n---\n\n \n",
    ],
    ids=[
        "empty",
        "newlines",
        "blanks",
        "invisible",
        "front-matter",
        "front-matter-blank",
    ],
)
def test_nothing_to_say(text: str) -> None:
    """A page without visible text gives no passage."""
    assert chunk_markdown(text).chunks == ()


def test_bare_heading() -> None:
    """A heading without text is a passage: the page is found by its title."""
    (chunk,) = chunk_markdown("# Lamp list\n").chunks

    assert (chunk.body, chunk.heading) == ("# Lamp list", "Lamp list")


# What stays together


def test_small_sections_share_a_chunk() -> None:
    """A passage of several sections names them all and cites the first that speaks."""
    (chunk,) = chunk_markdown("# A\n\n## B\n\none\n\n## C\n\ntwo\n", SMALL).chunks

    assert [section.path[-1] for section in chunk.sections] == ["A", "B", "C"]
    assert chunk.section.path == ("A", "B")
    assert chunk.heading == "A > B | C"


@pytest.mark.parametrize("count", [8, 9, 10, 30])
def test_heading_stays_with_its_text(count: int) -> None:
    """A heading is followed by text even where that just fits, or does not."""
    lines = numbered(count)
    document = chunk_markdown(f"# A\n\n{lines}\n\n## B\n\n```\n{lines}\n```\n", SMALL)

    assert "line 1 of" in chunk_with(document, "# A").body
    assert "line 1 of" in chunk_with(document, "## B").body
    assert all(len(chunk.text) <= 200 for chunk in document.chunks)


@pytest.mark.parametrize("count", range(10, 34))
def test_heading_of_a_joined_section_stays_with_its_text(count: int) -> None:
    """Wherever a long section is cut, the small one joined to it stays whole."""
    document = chunk_markdown(f"# A\n\n{numbered(count)}\n\n# B\n\nshort", SMALL)

    assert "# B\n\nshort" in chunk_with(document, "# B").body


def test_heading_over_a_long_line_shows_its_beginning() -> None:
    """A heading that cannot keep a line too long to share is not left alone."""
    document = chunk_markdown(f"# A\n\n{SENTENCE * 9}", SMALL)
    first, second, *_ = document.chunks

    assert first.body == "# A"
    assert first.tail == (SENTENCE * 3).strip() + " …"
    assert second.body.startswith(SENTENCE.strip())
    assert len(first.text) <= 200


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("```" + "i" * 194, "code\n```"),
        ("| a | b |\n|---|---|", "| " + "w" * 182 + " | c |"),
    ],
    ids=["fence", "row"],
)
def test_heading_shows_no_part_of_a_structure(first: str, second: str) -> None:
    """What a heading shows of the next passage is text, not half a fence or row."""
    chunk = chunk_markdown(f"# A\n\n{first}\n{second}", SMALL).chunks[0]

    assert "```" not in chunk.text
    assert all(n.endswith("|") for n in chunk.text.split("\n") if n.startswith("|"))


def test_blocks_are_not_cut() -> None:
    """Paragraphs, items, tables and fences that fit a passage are whole in one."""
    blocks = [
        "one\ntwo\nthree " + "w" * 90,
        "- item " + "w" * 60 + "\n  more\n\n  more still",
        "- item " + "v" * 70,
        "|a|b|\n|-|-|\n|" + "w" * 80 + "|d|\n|e|f|",
        "```\n" + "w" * 60 + "\n\n" + "v" * 60 + "\n```",
        "> quote " + "w" * 60 + "\n>\n> more",
        "<div>\n" + "w" * 90 + "\n</div>",
    ]
    document = chunk_markdown("\n\n".join(blocks), SMALL)

    assert len(document.chunks) > 3
    for block in blocks:
        assert sum(block in chunk.body for chunk in document.chunks) == 1


def test_shares_are_even() -> None:
    """What is cut in two is cut near the middle, not into a passage and a crumb."""
    paragraphs = [f"{n} " + "w" * 40 for n in range(5)]
    first, second = chunk_markdown("\n\n".join(paragraphs), SMALL).chunks

    assert min(len(first.text), len(second.text)) >= 80


@pytest.mark.parametrize(
    ("opener", "closer"),
    [
        ("All of these:", ""),
        ("/// tip | A hint", "///"),
        (":::note", ":::"),
        ("<Listing number='1'>", "</Listing>"),
    ],
)
def test_cut_is_not_inside_a_bracket(opener: str, closer: str) -> None:
    """What opens something stays with what follows, a closing with what it closes."""
    before, after = "w" * (98 - len(opener)), "x" * (98 - len(closer))
    opened = chunk_markdown(f"{before}\n\n{opener}\n\n{'x' * 100}", SMALL)
    closed = chunk_markdown(f"{'w' * 100}\n\n{closer}\n\n{after}", SMALL)

    assert "xxx" in chunk_with(opened, opener).body
    assert not closer or "www" in chunk_with(closed, closer).body


def test_footnote_stays_with_its_sentence() -> None:
    """A footnote is in the passage of the sentence that cites it, if both fit."""
    words = [
        "w" * 70,
        "cited[^n] " + "x" * 60,
        "[^n]: the note\n\n    goes on",
        "y" * 70,
    ]
    for order in ([0, 1, 2, 3], [1, 2, 0, 3], [0, 3, 1, 2]):
        document = chunk_markdown("\n\n".join(words[i] for i in order), SMALL)

        assert len(document.chunks) > 1
        assert "cited[^n]" in chunk_with(document, "goes on").body


# How the oversized is cut


FENCE = re.compile(r"^(?:[\s>-]|\d\.)*(?:`{3,}|~{3,})", re.MULTILINE)


@pytest.mark.parametrize(
    ("opening", "closing", "indent"),
    [
        ("```sh", "```", ""),
        ("~~~ text", "~~~", ""),
        ("````md", "````", ""),
        ("```", "", ""),
        ("1. ```py", "   ```", "   "),
        ("- step\n\n  ```py", "  ```", "  "),
        ("> ```py", "> ```", "> "),
    ],
    ids=["plain", "tildes", "four", "unclosed", "item", "in-item", "quote"],
)
def test_split_fence(opening: str, closing: str, indent: str) -> None:
    """Each piece of a fence opens and closes it; its opening line is repeated."""
    code = numbered(40, indent + "command {}")
    chunks = chunk_markdown(f"{opening}\n{code}\n{closing}", SMALL).chunks
    marks = opening.splitlines()[-1].lstrip("1.- >")

    assert len(chunks) > 2
    for chunk in chunks:
        assert len(FENCE.findall(chunk.text)) == 2
        assert len(chunk.text) <= 200
    for chunk in chunks[1:]:
        assert chunk.lead.strip(" >") == marks
        assert chunk.body.startswith(f"{indent}command")


@pytest.mark.parametrize("size", range(185, 205))
def test_unclosed_fence_fits(size: int) -> None:
    """The closing that a fence lacks is counted."""
    code = "```\n" + "a\n" * ((size - 4) // 2)

    for chunk in chunk_markdown(code.rstrip(), SMALL).chunks:
        assert len(FENCE.findall(chunk.text)) == 2
        assert len(chunk.text) <= 200


@pytest.mark.parametrize("count", range(8, 40, 3))
def test_fence_is_not_cut_at_its_ends(count: int) -> None:
    """No passage has the opening or the closing line of a fence and no code."""
    code = numbered(count, "command {}")
    text = f"{numbered(4)}\n\n```\n{code}\n```\n\n{numbered(4)}"

    for chunk in chunk_markdown(text, SMALL).chunks:
        assert "```" not in chunk.text or "command" in chunk.body


def test_split_table() -> None:
    """Each piece of a table has the header; rows are whole and none is there twice."""
    rows = [f"| part-{n} | {n} mm |" for n in range(60)]
    table = "\n".join(["| part | width |", "|---|---|", *rows])
    first, *others = chunk_markdown(f"# Parts\n\n{table}", SMALL).chunks

    assert first.body.startswith("# Parts\n\n| part | width |\n|---|---|\n| part-0 |")
    assert {chunk.lead for chunk in others} == {"| part | width |\n|---|---|"}
    found = [r for c in (first, *others) for r in c.body.splitlines() if "part-" in r]
    assert found == rows


def test_table_row_too_long() -> None:
    """A row longer than a passage is cut, and each piece has the header."""
    text = f"| a | b |\n|---|---|\n| x | y |\n| {SENTENCE * 6} | z |\n"
    chunks = chunk_markdown(text, SMALL).chunks

    assert len(chunks) > 3
    assert all("| a | b |" in chunk.text for chunk in chunks)
    assert all(len(chunk.text) <= 200 for chunk in chunks)


def test_table_header_too_long() -> None:
    """A header that would leave no room for rows is not repeated."""
    header = "| " + "h" * 120 + " | b |\n|---|---|"
    chunks = chunk_markdown(header + "\n" + "| row | x |\n" * 60, SMALL).chunks

    assert all(len(chunk.text) <= 200 for chunk in chunks)


@pytest.mark.parametrize(
    "text",
    [
        numbered(40),
        "```\n" + numbered(40) + "\n```",
        "    " + numbered(40, "code {}\n    more").removeprefix("    "),
        "<div>\n" + numbered(40) + "\n</div>",
        "- " + numbered(40, "text {}\n  more"),
    ],
    ids=["paragraph", "fence", "code", "html", "item"],
)
def test_overlap(text: str) -> None:
    """A cut within a block repeats whole lines, as many as the overlap has room for."""
    chunks = chunk_markdown(text, SMALL).chunks

    assert len(chunks) > 2
    for before, after in pairwise(chunks):
        repeated = before.last_line - after.first_line + 1
        lines = before.body.splitlines()[-repeated:]
        assert repeated >= 1
        assert after.body.splitlines()[:repeated] == lines
        assert len("\n".join(lines)) <= 40


def test_no_overlap_between_blocks() -> None:
    """Nothing is repeated where no block is cut, or where the policy asks for none."""
    items = "\n".join(f"- item {n} " + "w" * 40 for n in range(20))
    paragraph = chunk_markdown(numbered(40), ChunkPolicy(200, 60, 0))

    for document in (chunk_markdown(items, SMALL), paragraph):
        for before, after in pairwise(document.chunks):
            assert before.last_line < after.first_line


def test_oversized_item_is_cut_at_nested_items() -> None:
    """A list item too long for a passage comes apart between what it holds."""
    text = "- top\n" + "\n".join(f"  - sub {n}\n    " + "w" * 50 for n in range(12))

    for chunk in chunk_markdown(text, SMALL).chunks:
        assert chunk.body.lstrip().startswith(("- top", "- sub"))


def test_long_line_is_cut_at_sentences() -> None:
    """The pieces of a long line share its number and are parts of it."""
    line = (SENTENCE * 12).strip()
    document = chunk_markdown(f"one\n\n{line}\n\ntwo", SMALL)
    pieces = [chunk for chunk in document.chunks if chunk.first_line == 3]

    assert {chunk.last_line for chunk in pieces} == {3}
    assert " ".join(chunk.body for chunk in pieces) == line
    assert all(chunk.body.endswith("book.") for chunk in pieces)


def test_long_code_line() -> None:
    """A long line in a fence is cut into pieces that are fenced."""
    text = '```json\n{"a": [' + "1234567," * 90 + "0]}\n```"
    chunks = chunk_markdown(text, SMALL).chunks

    assert all(len(FENCE.findall(chunk.text)) == 2 for chunk in chunks)
    assert all(len(chunk.text) <= 200 for chunk in chunks)


def test_dense_script_and_addresses() -> None:
    """Length is counted in characters, so text without blanks fits as well."""
    address = "https://example.invalid/" + "p" * 70
    text = (
        numbered(30, f"등대지기는 밤마다 불을 켠다 {{}} {address}")
        + "\n\n"
        + "灯" * 900
    )

    assert all(len(c.text) <= 200 for c in chunk_markdown(text, SMALL).chunks)


# What is kept as it is


@pytest.mark.parametrize(
    "text",
    [
        "See [the clock](https://x.example/Clock_(sun)#hands) at noon.",
        "Read ![[Rope Store]] and [[knots|how we tie]] first.",
        '<Callout kind="warn" title="Mind the gap" />',
        "{{#include ../listing.rs}}",
        "{* ../src/app.py hl[3] *}",
        "<!-- a hidden remark -->\n\ntext",
        "/// tip | Hint\n\ntext\n\n///",
        ":::note\n\ntext\n\n:::",
    ],
    ids=[
        "link",
        "wikilink",
        "jsx",
        "mdbook",
        "macro",
        "comment",
        "block",
        "admonition",
    ],
)
def test_source_is_not_rewritten(text: str) -> None:
    """A passage shows the source as it is written."""
    (chunk,) = chunk_markdown(text).chunks

    assert chunk.body == text


def test_pictures_are_elided() -> None:
    """An embedded picture makes no passages; its alt text and neighbours stay."""
    picture = f"![a brass lamp](data:image/png;base64,{'QUJD' * 5000})"
    (chunk,) = chunk_markdown(f"Before.\n\n{picture}\n\nAfter.").chunks

    assert chunk.body == f"Before.\n\n{elide_payloads(picture)}\n\nAfter."
    assert "a brass lamp" in chunk.text
    assert len(chunk.text) < 200


# Policy


def test_fingerprint() -> None:
    """The fingerprint tells chunkers and sizes apart."""
    policies = [ChunkPolicy(), ChunkPolicy(900), ChunkPolicy(1500, 200), SMALL]

    assert len({policy.fingerprint for policy in policies}) == 4
    assert str(CHUNKER_VERSION) in ChunkPolicy().fingerprint
    assert ChunkPolicy().fingerprint == ChunkPolicy(1500, 500, 120).fingerprint


@pytest.mark.parametrize("sizes", [(99, 0, 0), (200, -1, 0), (200, 0, -1)])
def test_impossible_policy(sizes: tuple[int, int, int]) -> None:
    """Sizes that leave no room are refused with the remedy."""
    with pytest.raises(ValueError, match="set it to"):
        ChunkPolicy(*sizes)


def test_slugify_is_public() -> None:
    """Who links to a section can make its slug."""
    assert slugify("Lock keeping, part 2") == "lock-keeping-part-2"


# Promises


WORDS = st.text("abc de.:#*`[]<>|-~ éß灯🎉\u0301", min_size=1, max_size=50).map(
    lambda text: "w" + text.replace("\n", " ")
)
LINES = st.lists(WORDS, min_size=1, max_size=12).map("\n".join)
PAGES = st.lists(
    st.one_of(
        LINES,
        st.builds("{} {}".format, st.sampled_from(["#", "##", "###", "#####"]), WORDS),
        st.builds("{}\n{}".format, WORDS, st.sampled_from(["===", "---"])),
        st.builds(
            "```{}\n# {}\n\n{}\n```".format, st.sampled_from(["", "sh"]), WORDS, LINES
        ),
        st.builds("~~~\n{}\n~~~~".format, LINES),
        st.lists(WORDS, min_size=1, max_size=9).map(
            lambda rows: (
                "| a | b |\n|---|---|\n" + "\n".join(f"| {r} | |" for r in rows)
            )
        ),
        st.lists(WORDS, min_size=1, max_size=9).map(
            lambda rows: "- " + "\n- ".join(rows)
        ),
        st.builds(
            "1. {}\n\n   ```\n   # {}\n   ```\n   - {}".format, WORDS, WORDS, WORDS
        ),
        st.builds("<!--\n# {}\n\n{}\n-->".format, WORDS, WORDS),
        st.builds("<a id='x'></a>\n\n## {}".format, WORDS),
        st.builds("> {}\n>\n> > {}".format, WORDS, WORDS),
        st.builds("{}[^1]\n\n[^1]: {}\n\n    {}".format, WORDS, WORDS, WORDS),
        st.integers(1, 6).map(lambda count: SENTENCE * count),
        st.integers(150, 900).map(lambda count: "x" * count),
        st.integers(1, 4).map(lambda count: " \n" * count),
        st.sampled_from(["\x0c", "\u200b", "a\u2028b\x0cc", "---", "[a]: b.md", "\0"]),
    ),
    max_size=14,
).flatmap(
    lambda blocks: st.sampled_from(["\n\n", "\n", "\r\n\r\n"]).map(
        lambda joint: ("\ufeff" if len(blocks) > 8 else "") + joint.join(blocks)
    )
)
POLICIES = st.sampled_from(
    [SMALL, ChunkPolicy(100, 0, 0), ChunkPolicy(100, 300, 200), ChunkPolicy()]
)


@settings(max_examples=80, deadline=None)
@given(PAGES, POLICIES)
def test_no_line_is_lost(text: str, policy: ChunkPolicy) -> None:
    """Each line that shows something is in a passage whose span covers it."""
    lines = Lines.from_text(text)
    bodies: dict[int, list[str]] = {}
    for chunk in chunk_markdown(text, policy).chunks:
        for number in range(chunk.first_line, chunk.last_line + 1):
            bodies.setdefault(number, []).append(chunk.body)

    for number, line in enumerate(lines.lines, 1):
        if is_visible(line):
            found = bodies[number]
            pieces = "".join("".join(found).split())
            assert any(line in body for body in found) or pieces == "".join(
                line.split()
            )


@settings(max_examples=80, deadline=None)
@given(PAGES, POLICIES)
def test_spans_reproduce_the_source(text: str, policy: ChunkPolicy) -> None:
    """A body is the lines of its span, or a part of one; passages come in order."""
    lines = Lines.from_text(text)
    chunks = chunk_markdown(text, policy).chunks

    assert [chunk.ordinal for chunk in chunks] == list(range(len(chunks)))
    assert sorted(c.first_line for c in chunks) == [c.first_line for c in chunks]
    assert sorted(c.last_line for c in chunks) == [c.last_line for c in chunks]
    for chunk in chunks:
        assert chunk.body == lines.text(chunk.first_line, chunk.last_line) or (
            chunk.first_line == chunk.last_line
            and chunk.body in lines.line(chunk.first_line)
        )
        assert is_visible(chunk.body)


@settings(max_examples=80, deadline=None)
@given(PAGES, POLICIES)
def test_budget(text: str, policy: ChunkPolicy) -> None:
    """A text exceeds the budget for the sake of one line only, and never twofold."""
    for chunk in chunk_markdown(text, policy).chunks:
        if len(list(filter(is_visible, chunk.body.split("\n")))) > 1:
            assert len(chunk.text) <= policy.max_chars
        assert len(chunk.text) <= 2 * policy.max_chars


def parents(sections: tuple[Section, ...]) -> dict[Section, Section | None]:
    found: dict[Section, Section | None] = {}
    above: list[Section] = []
    for section in sections:
        while above and above[-1].level >= section.level:
            above.pop()
        found[section] = above[-1] if above else None
        above.append(section)
    return found


@settings(max_examples=80, deadline=None)
@given(PAGES, POLICIES)
def test_sections_of_a_chunk_are_a_family(text: str, policy: ChunkPolicy) -> None:
    """The topmost sections of a passage have one parent, and one of them is cited."""
    document = chunk_markdown(text, policy)
    above = parents(document.sections)

    for chunk in document.chunks:
        tops = {above[s] for s in chunk.sections if above[s] not in chunk.sections}
        assert len(tops) == 1
        assert chunk.section in chunk.sections


@settings(max_examples=40, deadline=None)
@given(PAGES, POLICIES)
def test_chunking_is_deterministic(text: str, policy: ChunkPolicy) -> None:
    """The same page gives the same passages, whatever was chunked before."""
    assert chunk_markdown(text, policy) == chunk_markdown(text, policy)


@settings(max_examples=150, deadline=None)
@given(st.text("#-`~>|*:[]^<!/\n\n \tab\r\x0c{}$=1.", max_size=120))
def test_any_text_is_chunked(text: str) -> None:
    """No text is refused."""
    chunk_markdown(text, ChunkPolicy(100, 50, 30))


HOSTILE: dict[str, Callable[[], str]] = {
    "headings": lambda: "# a\n" * 100_000,
    "nested-headings": lambda: "".join(
        "#" * (n % 6 + 1) + f" t{n}\n" for n in range(10_000)
    ),
    "same-title": lambda: "## a\n\ntext of the section\n\n" * 5_000,
    "one-line": lambda: "x" * 2_000_000,
    "one-line-of-words": lambda: "word " * 200_000,
    "combining": lambda: "e" + "\u0301" * 200_000,
    "items": lambda: "- item\n" * 10_000,
    "rows": lambda: "|a|b|\n|-|-|\n" + "|1|2|\n" * 30_000,
    "deep-list": lambda: "".join("  " * n + "- a\n" for n in range(1_000)),
    "deep-quote": lambda: (">" * 10_000 + " a\n") * 20,
    "lazy-quotes": lambda: "    a\n> ```\n" * 8_000,
    "brackets": lambda: "[" * 1_000_000,
    "stars": lambda: "# " + "*" * 1_000_000,
    "ticks": lambda: "`" * 1_000_000,
    "tags": lambda: "<a" + " b" * 300_000,
    "comments": lambda: "<!-- " * 200_000,
    "open-fences": lambda: "- ```\n" * 8_000,
    "code": lambda: "```\n" + "x\n" * 30_000,
    "footnotes": lambda: "".join(f"a[^{n}]\n\n[^{n}]: b\n\n" for n in range(3_000)),
    "definitions": lambda: "[a]: b 'c\n" + "d\n" * 20_000,
    "payloads": lambda: "data:a/b;c=d;" * 100_000,
    "blank-lines": lambda: "a" + "\n" * 200_000 + "b",
    "colons": lambda: ":" * 500_000 + "\n\n" + "a:\n\n" * 5_000,
    "front-matter": lambda: "---\n" + "a: b\n" * 50_000 + "---\ntext",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_time_is_linear(name: str) -> None:
    """Input made to be slow is merely long: a quadratic step would take minutes."""
    text = HOSTILE[name]()
    start = time.process_time()

    document = chunk_markdown(text)

    assert document.chunks
    assert max(len(chunk.text) for chunk in document.chunks) <= ChunkPolicy().max_chars
    assert time.process_time() - start < 60
