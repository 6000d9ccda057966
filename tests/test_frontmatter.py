"""The block of metadata at the top of a page."""

import pytest

from docs_rag.frontmatter import FrontMatter, read_front_matter


def read(text: str) -> FrontMatter:
    return read_front_matter(text.split("\n"))


def test_yaml() -> None:
    """Title, description and other names are read; the rest only counts as lines."""
    front = read(
        "---\n"
        "title: Kettle care\n"
        "summary: >\n"
        "  How to descale\n"
        "  a kettle.\n"
        "aliases: [boiler-care, 'hot pot']\n"
        "weight: 30\n"
        "---\n"
        "Body."
    )

    assert (
        FrontMatter(
            title="Kettle care",
            description="How to descale a kettle.",
            aliases=("boiler-care", "hot pot"),
            line_count=8,
        )
        == front
    )


def test_toml() -> None:
    """The same keys are read from a block between plus signs."""
    front = read('+++\ntitle = "Kettles"\nlinkTitle = "Pots"\n[params]\na = 1\n+++\n')

    assert FrontMatter(title="Kettles", aliases=("Pots",), line_count=6) == front


@pytest.mark.parametrize(
    "entry",
    [
        "alias: Pots",
        "aliases:\n  - Pots",
        "linkTitle: Pots",
        "link_title: Pots",
        "sidebar_label: Pots",
        "sidebar:\n  label: Pots",
        "nav-title: Pots",
    ],
)
def test_alias_keys(entry: str) -> None:
    """Each tool's key for the page's other name is known, however it is spelt."""
    assert read(f"---\ntitle: Kettles\n{entry}\n---\n").aliases == ("Pots",)


@pytest.mark.parametrize("key", ["description", "summary", "Description", "excerpt"])
def test_description_keys(key: str) -> None:
    """A description goes by several names."""
    assert read(f"---\n{key}: Short.\n---\n").description == "Short."


@pytest.mark.parametrize("value", ["404", "yes", "2024-02-30", "null", "0x10", "1e3"])
def test_scalars_stay_as_written(value: str) -> None:
    """A title is text even where YAML sees a number, a date or a truth value."""
    assert value == read(f"---\ntitle: {value}\n---\n").title


@pytest.mark.parametrize(
    ("block", "title", "description"),
    [
        ('title: "Brass polish\n\tdescription: shine', "Brass polish", "shine"),
        ("title: Wax: a guide\ndescription: ok", "Wax: a guide", "ok"),
        ("title: Wax\ndescription: >-\n\ttwo\n\twords", "Wax", "two words"),
        ("title: Wax\ntags: [a, b\ndescription: ok", "Wax", "ok"),
        ("title: Wax\nimage: *nowhere", "Wax", ""),
        ("title: Wax\nfile: !include x.txt", "Wax", ""),
    ],
    ids=["quote-and-tab", "colon", "tabbed-block", "open-list", "anchor", "tag"],
)
def test_broken_yaml(block: str, title: str, description: str) -> None:
    """A slip in the syntax costs at most the value it stands in."""
    front = read(f"---\n{block}\n---\nBody.")

    assert (title, description) == (front.title, front.description)
    assert block.count("\n") + 3 == front.line_count


def test_broken_yaml_list() -> None:
    """A list of names survives a slip elsewhere."""
    front = read("---\ntitle: a: b\naliases:\n  - one\n  - 'two'\n---\n")

    assert front.aliases == ("one", "two")


@pytest.mark.parametrize(
    "text",
    [
        "---\n**Tool shed**\nopen at noon\n---\nBody.",
        "---\nLamp room: second floor\nAsk at the desk.\n---\nBody.",
        "---\nLamp room: second floor\n---\nBody.",
        "---\nNote: closed today\nAsk at the desk.\n---\nBody.",
        "---\n# Lamps\n---\nBody.",
        "---\n- one\n- two\n---\nBody.",
        "---\ntitle: never closed",
        "---",
        "----\ntitle: x\n----",
        " ---\ntitle: x\n---",
        "Text\n---\ntitle: x\n---",
        "+++\nplus, plus, plus\n+++\n",
        "",
    ],
    ids=[
        "bold", "two-lines", "one-line", "note", "heading", "list", "unclosed", "lone",
        "long-rule", "indented", "not-first", "toml-prose", "empty",
    ],
)  # fmt: skip
def test_text_between_rules_is_no_front_matter(text: str) -> None:
    """A page that opens with text between two rules has no metadata to drop."""
    assert FrontMatter() == read(text)


@pytest.mark.parametrize("block", ["", "\n", "draft: true"])
def test_nothing_of_interest(block: str) -> None:
    """A block without a name for the page is metadata all the same."""
    front = read(f"---\n{block}\n---\nBody.")

    assert FrontMatter(line_count=block.count("\n") + 3) == front


def test_long_block_is_read_by_lines() -> None:
    """A block longer than anyone writes by hand is not parsed as a whole."""
    short, long = 'title: "a\\u0062"\n', "key: value\n" * 3_000

    assert read(f"---\n{short}---\n").title == "ab"
    assert read(f"---\n{short}{long}---\n").title == r"a\u0062"


@pytest.mark.parametrize(
    "block",
    [
        "title: x\n" + "  more words\n" * 50_000,
        "title: x\n" + "key: value\n" * 50_000,
        "title: x\nlist: " + "[" * 15_000,
        "title: x\nmap: " + "{a: " * 4_000,
        "title: x\n"
        + "".join(f"k{n}: &k{n} [*k{n - 1}, *k{n - 1}]\n" for n in range(99)),
    ],
    ids=["continued", "many", "brackets", "braces", "laughs"],
)
def test_hostile_blocks(block: str) -> None:
    """Size, depth and self-reference cost no more than the lines they take."""
    front = read(f"---\n{block}\n---\nBody.")

    assert front.title.startswith("x")
    assert block.count("\n") + 3 == front.line_count


def test_lead_leaves_out_what_the_heading_says() -> None:
    """The title is not repeated above a heading that has the same words."""
    front = FrontMatter("Kettles", "All about them.", ("pots", "urns"))

    assert front.lead("Pots", 200) == "Kettles\nAll about them.\npots, urns"
    assert front.lead("kettles", 200) == "All about them.\npots, urns"
    assert FrontMatter("Kettles").lead("Kettles", 200) == ""


def test_lead_is_bounded() -> None:
    """A long description is cut between words."""
    lead = FrontMatter("Kettles", "word " * 100).lead("", 60)

    assert len(lead) <= 60
    assert lead.endswith("word…")
