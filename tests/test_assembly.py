"""From ranked chunks to hits: bounded, collapsed, merged line for line, and fresh."""

import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from helpers import make_stored
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from docs_rag.assembly import Assembly, assemble, document_id
from docs_rag.chunking import ChunkPolicy, chunk_markdown
from docs_rag.freshness import FreshnessCheck
from docs_rag.ranking import Fused
from docs_rag.records import Omitted, Ranks
from docs_rag.schema import StoredChunk

LIMIT = 10_000
WORDS = [f"word{number}" for number in range(40)]


def prose(*changed: int, length: int = 40) -> str:
    """A paragraph of distinct words, of which the numbered ones are other words."""
    return " ".join(f"other{i}" if i in changed else f"word{i}" for i in range(length))


def collected(
    tmp_path: Path,
    chunks: Sequence[StoredChunk],
    k: int = 5,
    max_chars: int = LIMIT,
    *,
    gone: Iterable[str] = (),
    stale: Iterable[str] = (),
    similarities: dict[int, float] | None = None,
) -> Assembly:
    """Assemble ``chunks``, best first; their files are there, but for those gone."""
    for chunk in chunks:
        file = tmp_path / chunk.path
        file.parent.mkdir(parents=True, exist_ok=True)
        if chunk.path not in gone:
            file.write_text("edited" if chunk.path in stale else "")
    order = [
        Fused(chunk.id, 1 / (60 + rank), {"vector": rank, "words": rank + 1})
        for rank, chunk in enumerate(chunks, start=1)
    ]
    return assemble(
        "demo",
        order,
        {chunk.id: chunk for chunk in chunks},
        similarities or {},
        FreshnessCheck(tmp_path),
        k,
        max_chars,
    )


def paths(assembly: Assembly) -> list[str]:
    return [hit.path for hit in assembly.hits]


def test_a_hit_says_where_it_comes_from(tmp_path: Path) -> None:
    """Path, lines, heading, numbers and address are those of the chunk."""
    chunk = make_stored(
        "one\ntwo", id=7, path="docs/ä b.md", slug="set-up", first_line=5, lead="```"
    )
    (hit,) = collected(tmp_path, [chunk], similarities={7: 0.123456, 8: 0.9}).hits

    assert (hit.path, hit.first_line, hit.last_line) == ("docs/ä b.md", 5, 6)
    assert (hit.heading, hit.text) == ("Setup", "```\none\ntwo")
    assert (hit.similarity, hit.ranks) == (0.1235, Ranks(1, 2, None))
    assert hit.rrf_score == round(1 / 61, 6)
    assert hit.id == "docs-rag://demo/docs/%C3%A4%20b.md#set-up"
    assert (hit.stale, hit.also_at) == (False, ())


def test_a_page_without_headings_goes_by_its_title(tmp_path: Path) -> None:
    """Text in front of the first heading is headed by the title of its page."""
    chunk = make_stored(heading="", slug="", title="The manual")
    (hit,) = collected(tmp_path, [chunk]).hits

    assert (hit.heading, hit.similarity) == ("The manual", None)
    assert hit.id == "docs-rag://demo/docs/a.md"


# -- bounds -----------------------------------------------------------------------


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    k=st.integers(1, 20),
    max_chars=st.integers(1, 3000),
    shape=st.lists(
        st.tuples(st.integers(0, 4), st.integers(0, 9), st.integers(1, 900)),
        max_size=30,
        unique_by=lambda found: found[:2],
    ),
)
def test_k_and_max_chars_bound_any_answer(tmp_path, k, max_chars, shape) -> None:
    """At most k hits, at most so much text unless one is longer, the rest listed."""
    chunks = [
        make_stored(
            f"{number} {'x' * size}",
            id=number,
            path=f"docs/{page}.md",
            ordinal=ordinal,
            slug=f"s{ordinal // 3}",
            first_line=1 + 5 * ordinal,
        )
        for number, (page, ordinal, size) in enumerate(shape)
    ]
    found = collected(tmp_path, chunks, k, max_chars)
    total = sum(len(hit.text) for hit in found.hits)

    assert len(found.hits) <= k
    assert total <= max_chars or len(found.hits) == 1
    assert bool(found.hits) is bool(chunks)
    if chunks:
        assert chunks[0].body in found.hits[0].text
    assert all("under" in omitted.reason for omitted in found.omitted)
    assert len(found.hits) + len(found.omitted) <= k
    assert found.is_short is (len(found.hits) + len(found.omitted) < k)


def test_the_first_hit_is_whole(tmp_path: Path) -> None:
    """One passage that is longer than allowed is still not cut."""
    chunks = [
        make_stored("x" * 500, id=1),
        make_stored("y" * 50, id=2, path="docs/b.md"),
    ]
    found = collected(tmp_path, chunks, max_chars=100)

    assert [hit.text for hit in found.hits] == ["x" * 500]
    assert found.omitted == (
        Omitted("docs/b.md", 1, 1, "left out to keep the answer under 100 characters"),
    )


def test_a_shorter_passage_may_still_fit(tmp_path: Path) -> None:
    """A passage that is left out does not take those behind it along."""
    sizes = {1: 60, 2: 60, 3: 40}
    chunks = [
        make_stored(str(i) * size, id=i, path=f"docs/{i}.md")
        for i, size in sizes.items()
    ]
    found = collected(tmp_path, chunks, max_chars=100)

    assert paths(found) == ["docs/1.md", "docs/3.md"]
    assert [omitted.path for omitted in found.omitted] == ["docs/2.md"]


@pytest.mark.parametrize(("count", "is_short"), [(0, True), (4, True), (5, False)])
def test_too_few_passages_are_said(tmp_path, count: int, is_short: bool) -> None:
    """Fewer than k different passages call for more candidates."""
    chunks = [make_stored(f"text {i}", id=i, path=f"{i}.md") for i in range(count)]

    assert collected(tmp_path, chunks).is_short is is_short


# -- copies -----------------------------------------------------------------------


def test_copies_collapse_into_the_best(tmp_path: Path) -> None:
    """Equal passages of several files take one place, which names the others."""
    pages = ["docs/c.md", "docs/a.md", "docs/b.md", "docs/a.md"]
    chunks = [make_stored("same", id=i, path=page) for i, page in enumerate(pages)]
    other = make_stored("other", id=9, path="docs/o.md")
    found = collected(tmp_path, [*chunks, other], k=2)

    assert paths(found) == ["docs/c.md", "docs/o.md"]
    assert found.hits[0].also_at == ("docs/a.md", "docs/b.md")
    assert found.hits[1].also_at == ()


def test_copies_of_the_last_place_are_still_named(tmp_path: Path) -> None:
    """With k hits found, the copies that directly follow belong to them."""
    chunks = [
        make_stored("same", id=1),
        make_stored("same", id=2, path="docs/b.md"),
        make_stored("another", id=3, path="docs/c.md"),
    ]
    found = collected(tmp_path, chunks, k=1)

    assert [(hit.path, hit.also_at) for hit in found.hits] == [
        ("docs/a.md", ("docs/b.md",))
    ]


CHINESE = "".join(chr(0x4E00 + 7 * number) for number in range(120))


@pytest.mark.parametrize(
    ("one", "two", "is_copy"),
    [
        pytest.param(prose(), prose(7), True, id="one word of forty"),
        pytest.param(prose(), prose().upper(), True, id="other case"),
        pytest.param(prose(), prose().replace(" ", "\n"), True, id="other line ends"),
        pytest.param(prose(), prose(1, 2, 3, 4, 5), False, id="five words of forty"),
        pytest.param(prose(), prose() + " and more" * 9, False, id="much longer"),
        pytest.param(CHINESE, CHINESE + "潮", True, id="one ideograph more"),
        pytest.param(CHINESE, CHINESE[60:] + "潮汐" * 30, False, id="half of it"),
        pytest.param("a", "b", False, id="short"),
        pytest.param("", "", True, id="empty"),
    ],
)
def test_near_copies_collapse_across_files_only(tmp_path, one, two, is_copy) -> None:
    """Nearly equal passages are one across files; in one file they are two."""
    here = make_stored(one, id=1, slug="x")
    elsewhere = make_stored(two, id=2, path="docs/b.md", slug="x")
    below = make_stored(two, id=2, slug="y", ordinal=5, first_line=50)

    assert len(collected(tmp_path, [here, elsewhere]).hits) == (1 if is_copy else 2)
    assert len(collected(tmp_path, [here, below]).hits) == (1 if one == two else 2)


def test_a_merged_passage_knows_all_its_copies(tmp_path: Path) -> None:
    """A copy of any part of a merged passage belongs to it."""
    parts = [prose(), prose(*range(20), length=30)]
    here = [
        make_stored(part, id=i, ordinal=i, first_line=1 + i)
        for i, part in enumerate(parts)
    ]
    copies = [
        make_stored(part, id=10 + i, path="docs/b.md", ordinal=i, first_line=1 + i)
        for i, part in enumerate(parts)
    ]
    for order in ([1, 0], [0, 1]):
        found = collected(tmp_path, [*(here[i] for i in order), *copies])
        assert [(hit.path, hit.also_at) for hit in found.hits] == [
            ("docs/a.md", ("docs/b.md",))
        ]


def test_a_bridge_keeps_the_copies_of_both_sides(tmp_path: Path) -> None:
    """Hits that grow together name the copies that either of them had."""
    bodies = [prose(*range(start, start + 20)) for start in (0, 10, 20)]
    here = section(*bodies)
    copies = [
        make_stored(body, id=10 + i, path=f"docs/{name}.md")
        for i, (body, name) in enumerate(zip(bodies, "xyz", strict=True))
    ]
    ranked = [here[0], copies[0], here[2], copies[2], here[1], copies[1]]
    (hit,) = collected(tmp_path, ranked).hits

    assert hit.also_at == ("docs/x.md", "docs/y.md", "docs/z.md")


# -- merging ----------------------------------------------------------------------


def section(*bodies: str, **changes: object) -> list[StoredChunk]:
    """Chunks of one section, one after the other, a blank line between them."""
    chunks: list[StoredChunk] = []
    line = 1
    for ordinal, body in enumerate(bodies):
        chunk = make_stored(
            body,
            id=ordinal,
            ordinal=ordinal,
            first_line=line,
            **changes,  # type: ignore[arg-type]
        )
        chunks.append(chunk)
        line = chunk.last_line + 2
    return chunks


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (0, 2, 1), (2, 0, 1)])
def test_neighbours_become_one_passage(tmp_path: Path, order) -> None:
    """Adjacent chunks of a section merge in any order, also around a late bridge."""
    chunks = section("one\n1", "two", "three")
    ranked = [chunks[i] for i in order]
    found = collected(tmp_path, ranked, similarities={0: 0.1, 1: 0.7, 2: 0.3})
    (hit,) = found.hits

    assert hit.text == "one\n1\n\ntwo\n\nthree"
    assert (hit.first_line, hit.last_line) == (1, 6)
    # Ranked as its best part, and as similar as its most similar one.
    assert hit.rrf_score == round(1 / 61, 6)
    assert hit.ranks.vector == 1
    assert hit.similarity == 0.7


def test_neighbours_grow_together_over_a_heading(tmp_path: Path) -> None:
    """What one section begins the next may go on with; the better one names the hit."""
    one = make_stored("one", id=1, slug="first")
    two = make_stored("two", id=2, slug="second", ordinal=1, first_line=3)
    (hit,) = collected(tmp_path, [two, one]).hits

    assert hit.text == "one\n\ntwo"
    assert hit.id.endswith("#second")


def test_a_bridge_frees_a_place(tmp_path: Path) -> None:
    """Two hits that grow together leave room for another."""
    chunks = section("one", "two", "three")
    other = make_stored("other", id=9, path="docs/o.md")
    found = collected(tmp_path, [chunks[2], other, chunks[0], chunks[1]], k=4)

    assert [hit.text for hit in found.hits] == ["one\n\ntwo\n\nthree", "other"]
    assert found.is_short


@pytest.mark.parametrize(
    "second",
    [
        pytest.param({"path": "docs/b.md", "ordinal": 1}, id="another file"),
        pytest.param({"ordinal": 2}, id="not adjacent"),
    ],
)
def test_strangers_stay_apart(tmp_path: Path, second) -> None:
    """Only direct neighbours in one file grow together."""
    one = make_stored("one", id=1)
    two = make_stored("two", id=2, first_line=3, **second)

    assert [hit.text for hit in collected(tmp_path, [one, two]).hits] == ["one", "two"]


def test_merging_is_bounded(tmp_path: Path) -> None:
    """A passage does not grow into a whole long page, nor beyond the answer."""
    chunks = section(*(f"{i}" * 1000 for i in range(8)))
    grown = collected(tmp_path, chunks, k=8, max_chars=100_000)
    small = collected(tmp_path, chunks, k=8, max_chars=2_500)

    assert [len(hit.text) for hit in grown.hits] == [3004, 3004, 2002]
    assert [len(hit.text) for hit in small.hits] == [2002]


def test_repeated_lines_are_shown_once(tmp_path: Path) -> None:
    """Lines in which neighbours overlap come once, split fences stay one fence."""
    one = make_stored("# T\n```rust\na\nb\nc", id=1, tail="```")
    two = make_stored(
        "c\nd\ne", id=2, ordinal=1, first_line=5, lead="```rust", tail="```"
    )
    three = make_stored("e\nf\n```\nend", id=3, ordinal=2, first_line=7, lead="```rust")
    texts = {
        tuple(hit.text for hit in collected(tmp_path, order).hits)
        for order in ([one, two, three], [three, two, one], [two, one, three])
    }
    (pair,) = collected(tmp_path, [two, three]).hits
    (front,) = collected(tmp_path, [one, two]).hits

    assert texts == {("# T\n```rust\na\nb\nc\nd\ne\nf\n```\nend",)}
    assert pair.text == "```rust\nc\nd\ne\nf\n```\nend"
    assert front.text == "# T\n```rust\na\nb\nc\nd\ne\n```"


def test_pieces_of_one_line_stay_apart(tmp_path: Path) -> None:
    """Parts of a line that is too long are not glued where no line number tells."""
    before = make_stored("before", id=1, first_line=1)
    first = make_stored("first part", id=2, ordinal=1, first_line=2)
    second = make_stored("second part", id=3, ordinal=2, first_line=2)
    after = make_stored("after", id=4, ordinal=3, first_line=3)
    found = collected(tmp_path, [before, first, second, after])

    assert [hit.text for hit in found.hits] == [
        "before\nfirst part",
        "second part\nafter",
    ]


BLOCKS = st.one_of(
    # Short of a line that would have to be cut: its parts cannot be compared.
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=20).map(" ".join),
    st.lists(st.sampled_from(WORDS), min_size=2, max_size=30).map("\n".join),
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=30).map(
        lambda lines: "```sh\n" + "\n".join(lines) + "\n```"
    ),
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=30).map(
        lambda rows: "| a |\n|---|\n" + "\n".join(f"| {row} |" for row in rows)
    ),
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=20).map(
        lambda items: "\n".join(f"- {item}" for item in items)
    ),
    st.sampled_from(["## Part", "### Detail", "\n\n"]),
)


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    blocks=st.lists(BLOCKS, min_size=1, max_size=8),
    seed=st.integers(0, 99),
    k=st.integers(1, 9),
)
def test_merged_passages_are_the_lines_they_cite(tmp_path, blocks, seed, k) -> None:
    """Between lead and tail a hit is exactly its lines, whatever was merged into it."""
    source = "# Top\n\n" + "\n\n".join(
        f"{block}{number}" if block.startswith("#") else block
        for number, block in enumerate(blocks)
    )
    policy = ChunkPolicy(max_chars=200, min_chars=60, overlap_chars=60)
    chunks = [
        StoredChunk(
            *(chunk.ordinal, "docs/a.md", chunk.ordinal, chunk.section.slug),
            *(chunk.heading, "Top", chunk.first_line, chunk.last_line),
            *(chunk.lead, chunk.body, chunk.tail, "", 0, 0),
        )
        for chunk in chunk_markdown(source, policy).chunks
    ]
    ranked = random.Random(seed).sample(chunks, len(chunks))
    lines = source.split("\n")
    starts = {chunk.first_line: chunk.lead for chunk in chunks}
    ends = {chunk.last_line: chunk.tail for chunk in chunks}
    for hit in collected(tmp_path, ranked, k, 100_000).hits:
        cited = "\n".join(lines[hit.first_line - 1 : hit.last_line])
        parts = (starts[hit.first_line], cited, ends[hit.last_line])

        assert hit.text == "\n".join(part for part in parts if part)


# -- freshness --------------------------------------------------------------------


def test_stale_files_are_marked(tmp_path: Path) -> None:
    """A passage of a file that changed says so, the others do not."""
    chunks = [
        make_stored("one", id=1),
        make_stored("two", id=2, path="docs/b.md"),
    ]
    found = collected(tmp_path, chunks, stale=["docs/b.md"])

    assert [(hit.path, hit.stale) for hit in found.hits] == [
        ("docs/a.md", False),
        ("docs/b.md", True),
    ]
    assert not found.unchecked


def test_gone_files_are_omitted_and_said(tmp_path: Path) -> None:
    """Of a removed file nothing is quoted; it is listed once, and its place filled."""
    chunks = [
        make_stored("one", id=1, path="docs/gone.md", first_line=3),
        make_stored("two", id=2, path="docs/gone.md", ordinal=4, first_line=30),
        make_stored("three", id=3),
    ]
    found = collected(tmp_path, chunks, k=1, gone=["docs/gone.md"])

    assert paths(found) == ["docs/a.md"]
    assert found.omitted == (
        Omitted("docs/gone.md", 3, 3, "the file is gone since it was indexed"),
    )


def test_a_gone_copy_is_not_named(tmp_path: Path) -> None:
    """A copy in a file that is no longer there is no other place to look."""
    chunks = [make_stored("same", id=1), make_stored("same", id=2, path="docs/b.md")]
    found = collected(tmp_path, chunks, gone=["docs/b.md"])

    assert found.hits[0].also_at == ()


def test_many_gone_files_are_counted(tmp_path: Path) -> None:
    """After a large removal an answer names a few files and says how many more."""
    gone = [f"docs/{number}.md" for number in range(300)]
    chunks = [make_stored("x", id=i, path=path) for i, path in enumerate(gone)]
    (tmp_path / "docs").mkdir()
    found = collected(tmp_path, chunks, gone=gone)

    assert found.hits == ()
    assert [omitted.path for omitted in found.omitted] == gone[:10]
    assert found.omitted[-1].reason.endswith(", and so are 290 more")


def test_an_unreachable_corpus_is_said(tmp_path: Path) -> None:
    """Where freshness cannot be checked the passages stand, with a warning."""
    chunks = {1: make_stored("one", id=1)}
    found = assemble(
        "demo",
        [Fused(1, 0.1, {})],
        chunks,
        {},
        FreshnessCheck(tmp_path / "not-mounted"),
        5,
        LIMIT,
    )

    assert found.unchecked
    assert [hit.stale for hit in found.hits] == [False]


# -- addresses --------------------------------------------------------------------


@given(
    path=st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1),
    slug=st.text(st.characters(codec="utf-8"), max_size=200),
)
def test_an_address_can_be_taken_apart(path: str, slug: str) -> None:
    """Path and slug come back out of an address, which is plain ASCII."""
    address = document_id("demo", path, slug)
    parts = urlsplit(address)

    assert address.isascii() and " " not in address
    assert (parts.scheme, parts.netloc) == ("docs-rag", "demo")
    assert unquote(parts.path) == f"/{path}"
    assert unquote(parts.fragment) == slug


def test_an_address_is_bounded_and_unique() -> None:
    """A heading as long as a page does not make an address as long as one."""
    one, two = (document_id("demo", "a.md", "x" * 5000 + end) for end in "ab")

    assert len(one) < 300
    assert one != two
    assert one == document_id("demo", "a.md", "x" * 5000 + "a")
