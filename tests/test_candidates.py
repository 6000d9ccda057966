"""What the rankers propose, and in what order."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers import Index, make_store, unit_vector

from docs_rag.candidates import Candidates, Searcher
from docs_rag.ranking import fuse
from docs_rag.resident import ResidentVectors
from docs_rag.vectors import DiskVectors, VectorEngine

PAGES = {
    "docs/anchor.md": "Let go the anchor in mud. Set anchor_chain_metres first.",
    "docs/bilge.md": "Pump the bilge at noon, and oil the valve.",
    "docs/log.md": "Noon, dusk, dawn: write the log, whatever the weather is.",
    "docs/sails.md": "Reef the sails before the wind tells you to.",
}


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    built = make_store(tmp_path / "index.sqlite")
    for path, body in PAGES.items():
        built.put(path, body, title=path)
    yield built
    built.store.close()


def search(
    index: Index, query: str, near: str = "", engine: VectorEngine | None = None
) -> Candidates:
    """Ask for ``query``, whose meaning is that of the page ``near``."""
    searcher = Searcher(
        index.store,
        len(PAGES),
        len(PAGES),
        index.space,
        engine or DiskVectors(),
        None,
    )
    vector = unit_vector(PAGES[near]) if near else None
    return searcher.search(query, vector, 10)


def order(found: Candidates) -> list[str]:
    return [found.chunks[fused.key].path for fused in fuse(found.lists)]


@pytest.mark.parametrize(
    ("query", "near", "first"),
    [
        pytest.param("oil the valve", "", "docs/bilge.md", id="words alone"),
        pytest.param("qqq", "docs/sails.md", "docs/sails.md", id="meaning alone"),
        pytest.param("valve", "docs/bilge.md", "docs/bilge.md", id="both agree"),
        pytest.param("chain_metres", "", "docs/anchor.md", id="a part of a name"),
        pytest.param("ilge", "", "docs/bilge.md", id="a part of a word"),
    ],
)
def test_the_right_page_comes_first(
    index: Index, query: str, near: str, first: str
) -> None:
    """Words, meaning and substrings each find what only they can."""
    assert order(search(index, query, near))[0] == first


def test_a_query_without_any_hit_is_empty(index: Index) -> None:
    """Nothing is made up where no list names a passage."""
    found = search(index, "qqq")

    assert (order(found), found.exhausted) == ([], True)


def test_both_engines_propose_the_same(index: Index) -> None:
    """Vectors read from disk and vectors in memory give one order."""
    disk = search(index, "noon", "docs/log.md", DiskVectors())
    resident = search(index, "noon", "docs/log.md", ResidentVectors())

    assert [r.keys for r in disk.lists] == [r.keys for r in resident.lists]


def test_equal_passages_are_ordered_by_path(tmp_path: Path) -> None:
    """Row ids depend on the order of indexing; the order of an answer does not."""
    orders = []
    for name, paths in (
        ("one", ("docs/a.md", "docs/b.md")),
        ("two", ("docs/b.md", "docs/a.md")),
    ):
        built = make_store(tmp_path / f"{name}.sqlite")
        for path in paths:
            built.put(path, "Same words in both.", title="Same")
        built.put("docs/other.md", "Something else entirely.", title="Other")
        searcher = Searcher(built.store, 3, 3, None, DiskVectors(), None)
        orders.append(order(searcher.search("same words", None, 10)))
        built.store.close()

    assert orders[0] == orders[1]


def test_evidence_says_what_the_corpus_knows(index: Index) -> None:
    """Known words, and the share that one passage holds, are between 0 and 1."""
    evidence = search(index, "oil the gearbox valve").evidence

    assert 0 < evidence.known < 1
    assert 0 < evidence.covered < 1
    assert evidence.similarity is None
