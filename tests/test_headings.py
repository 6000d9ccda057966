"""Titles and slugs of headings."""

import pytest

from docs_rag.headings import (
    MAX_TITLE_CHARS,
    Heading,
    number_slugs,
    read_heading,
    slugify,
)

TARGETS = {"references": {"LAMPS": {"title": "", "href": "lamps.md"}}}


@pytest.mark.parametrize(
    ("source", "title"),
    [
        ("Plain words", "Plain words"),
        ("The `lamp` **and** its _wick_", "The lamp and its wick"),
        ("[Lamps](a.md) and [more][lamps]", "Lamps and more"),
        ("[Clock](https://x.example/a_(b)#c)", "Clock"),
        ("![a wick](wick.png) Wicks", "a wick Wicks"),
        ("Ties with F#", "Ties with F#"),
        (r"A \*star\* and \#hash", "A *star* and #hash"),
        ("Salt &amp; pepper &copy;", "Salt & pepper ©"),
        ("Lamps<br>and wicks <a id='x'></a>", "Lampsand wicks"),
        ("The type Box<T>", "The type Box<T>"),
        ("snake_case_name and 2 * 3", "snake_case_name and 2 * 3"),
        ("two\nlines", "two lines"),
        ("  wide   spaces ", "wide spaces"),
        ("Tags <!-- not shown -->", "Tags"),
        ("<https://x.example>", "https://x.example"),
        ("灯の手入れ", "灯の手入れ"),
        ("[unknown] and [x][unknown]", "[unknown] and [x][unknown]"),
    ],
)
def test_title_is_plain_text(source: str, title: str) -> None:
    """Markup goes, what it marks up stays."""
    assert title == read_heading(source, TARGETS).title


def test_footnote_is_no_title() -> None:
    """The mark of a footnote that exists is not part of the title."""
    environment = {"footnotes": {"refs": {":1": -1}, "list": {}}}

    assert read_heading("Lamps[^1]", environment).title == "Lamps"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("Lamp care {#care}", Heading("Lamp care", "care")),
        ("Lamp care { #care }", Heading("Lamp care", "care")),
        ("Lamp care {#care .wide}", Heading("Lamp care", "care")),
        ("Lamp care {/* #care */}", Heading("Lamp care", "care")),
        ("{#care}", Heading("{#care}", "care")),
        ("Use `{#each}`", Heading("Use {#each}", "use-each")),
        ("Sets {a, b}", Heading("Sets {a, b}", "sets-a-b")),
    ],
)
def test_explicit_slug(source: str, expected: Heading) -> None:
    """A slug given in braces is taken, and is no part of the title."""
    assert expected == read_heading(source, {})


@pytest.mark.parametrize(
    ("title", "slug"),
    [
        ("Lamp care", "lamp-care"),
        ("C#", "c"),
        ("What's new?", "whats-new"),
        ("std::vec::Vec", "stdvecvec"),
        ("--flag and under_score", "--flag-and-under_score"),
        ("Größe 灯", "größe-灯"),
        ("a  b", "a--b"),
        ("1.2.0 (2024-01-01)", "120-2024-01-01"),
        ("🎉", ""),
    ],
)
def test_slugify(title: str, slug: str) -> None:
    """A slug is what GitHub makes of the title."""
    assert slug == slugify(title)


def test_slugs_are_unique() -> None:
    """Repeated slugs are numbered, past numbers that are taken."""
    slugs = ["a", "a", "a-1", "a", "b", "", "a-1", ""]

    assert list(number_slugs(slugs)) == [
        "a", "a-1", "a-1-1", "a-2", "b", "section", "a-1-2", "section-1",
    ]  # fmt: skip


def test_many_brackets() -> None:
    """A heading of brackets is taken as it is written."""
    assert read_heading("*x* " + "[" * 41, {}).title == "*x* " + "[" * 41
    assert read_heading("*x* " + "[" * 40, {}).title == "x " + "[" * 40


@pytest.mark.parametrize("unit", ["[", "![", "*a_ ", "`", "<a ", "[a](", "word "])
def test_long_heading(unit: str) -> None:
    """A title is bounded, and finding it takes no more for a heading of a megabyte."""
    heading = read_heading("x " + unit * 300_000, {})

    assert heading.title.startswith("x ")
    assert len(heading.title) <= MAX_TITLE_CHARS
