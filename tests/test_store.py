"""What an index holds of files, chunks, vectors and words, and that it all fits."""

import contextlib
import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from helpers import (
    DIMENSION,
    IDENTITY,
    RECIPE,
    Index,
    digest,
    make_chunk,
    make_document,
    make_entry,
    make_section,
    make_store,
    sha256,
    unit_vector,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from docs_rag.errors import DocsRagError
from docs_rag.lexical import match_any
from docs_rag.records import (
    Capacity,
    ChunkedDocument,
    ModelIdentity,
    Section,
    Skipped,
)
from docs_rag.schema import NO_SPACE
from docs_rag.store import Store
from docs_rag.substrings import by_substrings
from docs_rag.vectors import to_bytes

OTHER = ModelIdentity("stub", "other")
BODIES = st.sampled_from(
    ["the red valve", "the blue valve", "a pump house", "the pump", "databases", "潮汐"]
)
PATHS = st.sampled_from(["a.md", "b.md", "c.md"])
STEPS = st.lists(
    st.one_of(
        st.tuples(PATHS, st.lists(BODIES, max_size=3)), st.tuples(PATHS, st.none())
    ),
    max_size=8,
)


@pytest.fixture
def index(tmp_path: Path):
    index = make_store(tmp_path / "index.sqlite")
    yield index
    index.store.close()


def everything(index: Index) -> list[Any]:
    """All that can be asked of an index, without row ids and generations."""
    store = index.store
    found: list[Any] = [
        dataclasses.replace(file, id=0) for file in store.files().values()
    ]
    of_chunk = store.chunks([chunk.id for chunk in store.all_chunks()])
    found += [dataclasses.replace(c, id=0) for c in store.all_chunks()]
    query = match_any(["valve", "pump", "database", "red", "潮汐"])
    substrings = by_substrings(store, ["valve", "pum", "the "], len(of_chunk), 99)
    for hits in (dict(store.search_words(query, 99)), substrings):
        found.append(
            sorted(
                (round(score, 6), of_chunk[i].path, of_chunk[i].ordinal)
                for i, score in hits.items()
            )
        )
    near = store.nearest(index.space.id, to_bytes(unit_vector("the pump")), 99)
    chunks = store.chunks_of_vectors([i for i, _ in near])
    found.append(
        [
            (
                round(cosine, 5),
                sorted((of_chunk[c].path, of_chunk[c].ordinal) for c in chunks[i]),
            )
            for i, cosine in near
        ]
    )
    stems = ["valv", "pump", "databas", "red"]
    found.append((store.document_frequencies(stems), store.page_frequencies(stems)))
    pages = store.search_pages(match_any(["valve", "pump", "red"]), 99)
    paths = store.paths([i for i, _ in pages])
    found.append(sorted((paths[i], round(score, 6)) for i, score in pages))
    return found


@settings(max_examples=25, deadline=None)
@given(steps=STEPS)
def test_any_edits_end_in_the_same_index_as_a_fresh_one(
    tmp_path_factory: pytest.TempPathFactory, steps
) -> None:
    """After adds, edits and removals nothing of the past is left to be found."""
    folder = tmp_path_factory.mktemp("store")
    edited, fresh = make_store(folder / "one.sqlite"), make_store(folder / "two.sqlite")
    pages: dict[str, list[str]] = {}
    with edited.store, fresh.store:
        for path, bodies in steps:
            pages.pop(path, None)
            if bodies is None:
                edited.drop(path)
            else:
                edited.put(path, *bodies)
                pages[path] = bodies
        for path, bodies in sorted(pages.items()):
            fresh.put(path, *bodies)

        assert edited.store.integrity_problems() == []
        assert sorted(map(repr, everything(edited))) == sorted(
            map(repr, everything(fresh))
        )


def test_a_removed_file_leaves_no_row(index: Index) -> None:
    """Sections, chunks, windows and full text go with their file."""
    index.put("docs/a.md", "the red valve", "a pump house")
    index.drop("docs/a.md")
    for table in ("files", "chunks", "words", "trigrams", "pages"):
        assert index.store.value(f"SELECT count(rowid) FROM {table}") == 0
    for table in ("sections", "windows", "words_vocabulary", "pages_vocabulary"):
        assert index.store.rows(f"SELECT * FROM {table}") == []
    assert index.store.integrity_problems() == []


def test_removing_what_is_not_there_is_no_error(index: Index) -> None:
    """A path that is not indexed can be removed as well as any other."""
    index.put("docs/a.md", "the red valve")
    index.drop("docs/b.md")

    assert set(index.store.files()) == {"docs/a.md"}


def test_a_path_is_indexed_once(index: Index) -> None:
    """Adding a file that is there already is refused, and nothing of it stays."""
    index.put("docs/a.md", "the red valve")
    document = ChunkedDocument("", "", (), (), 1)
    with pytest.raises(DocsRagError), index.store.transaction():
        index.store.add_file(
            make_document("docs/a.md"), document, None, RECIPE, index.space.id, ()
        )
    assert len(index.store.all_chunks()) == 1


def test_a_file_comes_back_as_it_was_written(index: Index) -> None:
    """Every column of a file, its sections and chunks is kept as given."""
    first, second = make_section("Guide > Setup", 1), make_section("", 11)
    chunks = (
        make_chunk("fn a() {", heading="Guide > Setup", lead="```rust", tail="```"),
        make_chunk("one\n\nthree", heading="", ordinal=1, first_line=11),
    )
    vector_ids = index.embed(["x", "y"])
    document = make_document("docs/ä b.md", "text")
    with index.store.transaction():
        index.store.add_file(
            document,
            ChunkedDocument("Title", "", (first, second), chunks, 13),
            "read as Windows-1252",
            RECIPE,
            index.space.id,
            [make_entry(chunk, *vector_ids.values()) for chunk in chunks],
        )
    (file,) = index.store.files().values()
    one, two = index.store.all_chunks()

    assert (file.path, file.sha256, file.size_bytes) == (
        "docs/ä b.md",
        sha256("text"),
        4,
    )
    assert (file.recipe, file.space_id, file.mtime_ns) == (RECIPE, index.space.id, 1)
    assert one.text == chunks[0].text == "```rust\nfn a() {\n```"
    assert (one.heading, one.slug, one.title) == ("Guide > Setup", "setup", "Title")
    assert (one.ordinal, one.first_line, one.last_line) == (0, 1, 1)
    assert (two.ordinal, two.first_line, two.last_line) == (1, 11, 13)
    assert (two.heading, two.slug, two.body) == ("", "", "one\n\nthree")
    assert (one.sha256, one.size_bytes, one.mtime_ns) == (sha256("text"), 4, 1)
    sections = index.store.rows("SELECT slug, path, level, first_line FROM sections")
    assert [
        Section(tuple(json.loads(p)), s, n, f, f + 9) for s, p, n, f in sections
    ] == [
        first,
        second,
    ]


def test_chunks_are_asked_by_id(index: Index) -> None:
    """Unknown ids are left out, and no number of ids is too large for a query."""
    index.put("docs/a.md", "the red valve", "a pump house")
    ids = [chunk.id for chunk in index.store.all_chunks()]
    found = index.store.chunks([*range(10_000, 50_000), *ids])

    assert set(found) == set(ids)
    assert index.store.chunks([]) == {}


def test_a_page_begins_with_its_first_chunk(index: Index) -> None:
    """Whatever was written in between, and only for the files that were asked."""
    index.put("docs/a.md", "the red valve", "a pump house")
    index.put("docs/b.md", "sand", "gravel")
    index.put("docs/a.md", "the blue valve", "a pump house", "a roof")
    found = index.store.first_chunks(["docs/a.md", "docs/none.md"])

    assert list(found) == ["docs/a.md"]
    assert index.store.chunks([found["docs/a.md"]])[found["docs/a.md"]].body == (
        "the blue valve"
    )


def test_touching_moves_size_and_time_only(index: Index) -> None:
    """A file whose bytes are the same gets its new time and keeps its chunks."""
    index.put("docs/a.md", "the red valve")
    before = index.store.files()["docs/a.md"]
    document = dataclasses.replace(make_document("docs/a.md"), mtime_ns=9, size_bytes=8)
    with index.store.transaction():
        index.store.touch_file(document)

    assert index.store.files() == {
        "docs/a.md": dataclasses.replace(before, mtime_ns=9, size_bytes=8)
    }


def test_files_without_text_say_why(index: Index) -> None:
    """A file that yielded no chunk is listed with its reason, others are not."""
    empty = ChunkedDocument("", "", (), (), 0)
    index.put("docs/full.md", "the red valve")
    with index.store.transaction():
        for path, notice in (("docs/z.md", "empty"), ("docs/a.md", None)):
            index.store.add_file(
                make_document(path), empty, notice, RECIPE, index.space.id, ()
            )

    assert index.store.files_without_text() == [
        Skipped("docs/a.md", "no text"),
        Skipped("docs/z.md", "empty"),
    ]


# -- meta and generations ---------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [None, 0, "", "ä潮\U0001f389", ["b\udcf6d.md", "reason"], {"a": [1.5, True, None]}],
)
def test_meta_keeps_any_json(index: Index, value: object) -> None:
    """What is kept under a key comes back, even names that are not UTF-8."""
    with index.store.transaction():
        index.store.set_meta(key=value)

    assert index.store.meta("key", "default") == value
    assert index.store.meta("other", "default") == "default"
    assert index.store.meta("other") is None


def test_generations_count_commits(index: Index) -> None:
    """Each advance is one more, with the counts of the moment; undone ones are not."""
    assert index.store.generation == 0
    index.put("docs/a.md", "the red valve", "a pump house")
    with contextlib.suppress(ZeroDivisionError), index.store.transaction():
        index.store.advance()
        raise ZeroDivisionError
    index.put("docs/b.md", "the pump")

    assert index.store.generation == 2
    assert (index.store.meta("files"), index.store.meta("chunks")) == (2, 3)


def test_no_two_builds_have_one_name(tmp_path: Path) -> None:
    """Every new index file has a name of its own and keeps it."""
    names = []
    for name in ("one", "two", "one"):
        with Store(tmp_path / name, writable=True) as store:
            names.append(store.build)

    assert names[0] == names[2] != names[1]
    assert all(len(name) == 32 for name in names)


def test_a_reader_keeps_its_generation(index: Index) -> None:
    """In a snapshot a reader sees one generation throughout, then the next."""
    index.put("docs/a.md", "the red valve")
    with Store(index.store.path) as reader:
        with reader.snapshot():
            generation = reader.generation
            index.put("docs/a.md", "the blue valve")
            index.drop("docs/b.md")

            assert reader.generation == generation
            assert [c.body for c in reader.all_chunks()] == ["the red valve"]
            assert len(reader.search_words('"red"', 9)) == 1
            assert reader.search_words('"blue"', 9) == []
        with reader.snapshot():
            assert reader.generation == generation + 2
            assert [c.body for c in reader.all_chunks()] == ["the blue valve"]
            assert reader.search_words('"red"', 9) == []


# -- vectors ----------------------------------------------------------------------


def spare_texts(index: Index, *texts: str) -> set[str]:
    """Which of ``texts`` have a vector that no chunk uses."""
    live = set(index.store.vector_ids_by_use(index.space.id, spare=False))
    known = index.store.vector_ids(index.space.id, map(digest, texts))
    return {text for text in texts if known.get(digest(text), 0) not in live | {0}}


def test_vectors_are_spare_until_used_and_after(index: Index) -> None:
    """A vector counts as live exactly while some chunk uses it."""
    red, pump = "the red valve", "the pump"
    with index.store.transaction():
        index.embed([red, pump])
    assert spare_texts(index, red, pump) == {red, pump}
    index.put("docs/a.md", red, pump)
    index.put("docs/b.md", red)
    assert spare_texts(index, red, pump) == set()
    index.drop("docs/a.md")
    assert spare_texts(index, red, pump) == {pump}
    index.drop("docs/b.md")
    assert spare_texts(index, red, pump) == {red, pump}
    index.put("docs/c.md", red)
    assert spare_texts(index, red, pump) == {pump}
    assert index.store.integrity_problems() == []


def test_a_known_text_keeps_its_vector(index: Index) -> None:
    """Embedding a text again changes neither its id nor its vector."""
    ids = index.embed(["the pump"])
    with index.store.transaction():
        index.store.add_vectors(
            index.space.id, {digest("the pump"): to_bytes(unit_vector("another"))}
        )

    assert index.store.vector_ids(index.space.id, [digest("the pump")]) == ids
    assert index.store.vectors(list(ids.values())) == [
        to_bytes(unit_vector("the pump"))
    ]


@pytest.mark.parametrize(("keep", "left"), [(0, 0), (2, 2), (9, 3)])
def test_old_spare_vectors_are_dropped(index: Index, keep: int, left: int) -> None:
    """The youngest spare vectors stay, live ones are never touched."""
    index.put("docs/a.md", "the pump")
    with index.store.transaction():
        index.embed(["one", "two", "three"])
        index.store.drop_spare_vectors(index.space.id, keep)

    assert spare_texts(index, "one", "two", "three") == set(
        ["one", "two", "three"][3 - left :]
    )
    assert index.store.vector_ids(index.space.id, [digest("the pump")])
    assert index.store.integrity_problems() == []


def test_windows_share_a_vector(index: Index) -> None:
    """Chunks of the same text use one vector; a long chunk uses several."""
    long = make_chunk("long text")
    index.put("docs/a.md", "the pump")
    index.put("docs/b.md", "the pump")
    ids = index.embed(["the pump", "first half", "second half"])
    with index.store.transaction():
        index.store.add_file(
            make_document("docs/c.md"),
            ChunkedDocument("", "", (), (long,), 1),
            None,
            RECIPE,
            index.space.id,
            [make_entry(long, ids[digest("first half")], ids[digest("second half")])],
        )
    chunks = {chunk.path: chunk.id for chunk in index.store.all_chunks()}

    assert index.store.chunks_of_vectors([*ids.values(), 9999]) == {
        ids[digest("the pump")]: [chunks["docs/a.md"], chunks["docs/b.md"]],
        ids[digest("first half")]: [chunks["docs/c.md"]],
        ids[digest("second half")]: [chunks["docs/c.md"]],
    }
    assert index.store.vector_ids_by_use(index.space.id, spare=False) == sorted(
        ids.values()
    )


def test_one_chunk_may_use_a_vector_twice(index: Index) -> None:
    """Two windows of one chunk with the same text are no contradiction."""
    chunk = make_chunk("twice")
    (vector_id,) = index.embed(["same"]).values()
    with index.store.transaction():
        index.store.add_file(
            make_document("docs/a.md"),
            ChunkedDocument("", "", (), (chunk,), 1),
            None,
            RECIPE,
            index.space.id,
            [make_entry(chunk, vector_id, vector_id)],
        )
    assert index.store.integrity_problems() == []
    index.drop("docs/a.md")
    assert spare_texts(index, "same") == {"same"}


def test_nearest_is_ordered_and_bounded(index: Index) -> None:
    """Cosines fall, equal ones go by id, spare vectors are not found."""
    index.put("docs/a.md", *(f"text {number}" for number in range(30)))
    with index.store.transaction():
        index.embed(["text 3", "spare"])
    query = unit_vector("text 3")
    found = index.store.nearest(index.space.id, to_bytes(query), 5)
    everything = index.store.nearest(index.space.id, to_bytes(query), 99)

    assert found == everything[:5]
    assert len(everything) == 30
    assert found[0][1] == pytest.approx(1.0, abs=1e-6)
    assert [cosine for _, cosine in everything] == sorted(
        (cosine for _, cosine in everything), reverse=True
    )


def test_spaces_keep_apart(index: Index) -> None:
    """Two models' vectors of one text never meet, and one space can leave."""
    index.put("docs/a.md", "the pump")
    with index.store.transaction():
        other = index.store.add_space(OTHER, Capacity(4, 77))
        index.store.add_vectors(
            other.id, {digest("the pump"): to_bytes(unit_vector("the pump", 4))}
        )

    assert index.store.space(OTHER.fingerprint) == other
    assert index.store.space(IDENTITY.fingerprint) == index.space
    assert index.store.space("none") is None
    assert (other.capacity, other.model) == (Capacity(4, 77), "other")
    assert other.id != index.space.id
    assert index.store.vector_ids_by_use(other.id, spare=False) == []

    with index.store.transaction():
        index.store.remove_other_spaces(index.space.id)

    assert index.store.space(OTHER.fingerprint) is None
    assert index.store.vector_ids(other.id, [digest("the pump")]) == {}
    assert index.store.integrity_problems() == []
    with index.store.transaction():
        again = index.store.add_space(OTHER, Capacity(4, None))
    # A resident matrix knows a space by its id: a later one is another.
    assert again.id not in (other.id, index.space.id)


def test_a_space_is_opened_once(index: Index) -> None:
    """A model that is known already has no second space."""
    with pytest.raises(DocsRagError), index.store.transaction():
        index.store.add_space(IDENTITY, Capacity(DIMENSION, None))


def test_the_share_of_text_in_vectors(index: Index) -> None:
    """Characters of chunks with a vector of this space count, others do not."""
    assert index.store.text_in_vectors(index.space.id) == (1, 1)
    index.put("docs/a.md", "12345")
    assert index.store.text_in_vectors(index.space.id) == (1, 1)
    bare = make_chunk("123")
    with index.store.transaction():
        index.store.add_file(
            make_document("docs/b.md"),
            ChunkedDocument("", "", (), (bare,), 1),
            None,
            RECIPE,
            NO_SPACE,
            [make_entry(bare)],
        )

    assert index.store.text_in_vectors(index.space.id) == (5, 8)
    assert index.store.text_in_vectors(-1) == (0, 8)


# -- full text --------------------------------------------------------------------


def test_title_and_heading_weigh_more_than_text(index: Index) -> None:
    """Of equal pages the one that is about a word comes before one that says it."""
    index.put("docs/body.md", "The capstan turns here.", title="Manual")
    index.put("docs/title.md", "The windlass turns here.", title="Capstan")
    found = index.store.search_words('"capstan"', 9)
    paths = [index.store.chunks([i])[i].path for i, _ in found]

    assert paths == ["docs/title.md", "docs/body.md"]
    assert found[0][1] > found[1][1] > 0


def test_searches_are_bounded_and_ordered(index: Index) -> None:
    """At most so many are returned, better ones first, equal ones by id."""
    index.put("docs/a.md", *["valve same"] * 5, "valve valve valve same")

    def substrings(text: str, count: int) -> list[tuple[int, float]]:
        return list(by_substrings(index.store, [text], 6, count).items())

    for search in (index.store.search_words, substrings):
        found = search("valve", 99)
        scores = [score for _, score in found]
        equal = [chunk_id for chunk_id, score in found if score == scores[-1]]

        assert len(found) == 6
        assert scores == sorted(scores, reverse=True)
        assert equal == sorted(equal)
        assert search("valve", 2) == found[:2]
        assert search("nothing", 99) == []


def test_frequencies_follow_the_index(index: Index) -> None:
    """A stem is counted once for each chunk that holds it, as long as it does."""
    index.put("docs/a.md", "databases and a database", "database")
    stems = index.store.stems(["databases", "database", "!", "潮汐"])
    assert stems == {
        "databases": "databas",
        "database": "databas",
        "!": "",
        "潮汐": "潮汐",
    }
    assert index.store.document_frequencies(["databas", "gone", ""]) == {
        "databas": 2,
        "gone": 0,
        "": 0,
    }
    index.put("docs/a.md", "a pump house")
    assert index.store.document_frequencies(["databas"]) == {"databas": 0}


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("DELETE FROM words WHERE rowid = 1", "chunk without its words: 1"),
        ("DELETE FROM trigrams WHERE rowid = 1", "chunk without its trigrams: 1"),
        ("INSERT INTO words(rowid, body) VALUES(77, 'x')", "words without their chunk"),
        ("INSERT INTO trigrams(rowid, body) VALUES(77, 'xyz')", "trigrams without"),
        ("DELETE FROM pages WHERE rowid = 1", "page without its words: 1"),
        ("INSERT INTO pages(rowid, body) VALUES(77, 'x')", "words without their page"),
        ("DELETE FROM windows", "chunk without a vector: 1"),
        ("UPDATE vectors SET spare = 1", "vector that is used and counts as spare"),
        ("UPDATE files SET space_id = 99", "vector of another space"),
        (
            "PRAGMA foreign_keys = OFF; DELETE FROM chunks WHERE id = 1",
            "orphan row: ('windows'",
        ),
    ],
)
def test_contradictions_are_found(index: Index, statement: str, problem: str) -> None:
    """Each way in which parts of an index can stop fitting each other is named."""
    index.put("docs/a.md", "the red valve")
    assert index.store.integrity_problems() == []
    index.store.rows(statement)

    assert any(problem in found for found in index.store.integrity_problems())
