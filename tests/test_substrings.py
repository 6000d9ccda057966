"""Strings anywhere in a passage: found by trigrams, held against the passage."""

from collections.abc import Iterator

import pytest
from helpers import Index, make_store
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from docs_rag import substrings
from docs_rag.lexical import fold, searchable
from docs_rag.substrings import by_substrings

TEXTS = (
    "Set max_draft_metres, then max-draft again: max_draft_metres is read twice.",
    "The draft of a letter; abcd and bcde, but never the five in a row.",
    "潮汐表格在港口。港口開放時間 and std::vector<T>.",
    "abcde abcdef ÅNGSTRÖM straße",
)
PARTS = st.sampled_from([fold(text) for text in TEXTS]).flatmap(
    lambda text: st.tuples(st.integers(0, len(text) - 3), st.integers(3, 12)).map(
        lambda cut: text[cut[0] : cut[0] + cut[1]]
    )
)


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    built = make_store(tmp_path_factory.mktemp("trigrams") / "index.sqlite")
    for number, text in enumerate(TEXTS):
        built.put(f"docs/{number}.md", text)
    yield built
    built.store.close()


def holders(index: Index, part: str) -> set[int]:
    """Return who holds a string, by reading everything."""
    return {
        chunk.id
        for chunk in index.store.all_chunks()
        if part in searchable(chunk.path, chunk.heading, chunk.text)
    }


@given(parts=st.lists(PARTS | st.text(min_size=3, max_size=6), max_size=4))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_found_is_who_holds_it(index: Index, parts: list[str]) -> None:
    """Neither more nor less than reading everything finds, whatever is asked."""
    parts = [part for part in map(fold, parts) if "\0" not in part and len(part) > 2]
    found = by_substrings(index.store, parts, len(TEXTS), 99)

    assert set(found) == {i for part in parts for i in holders(index, part)}
    assert list(found.values()) == sorted(found.values(), reverse=True)


def test_trigrams_alone_are_no_hit(index: Index) -> None:
    """A passage that has all trigrams of a string, but not the string, is left out."""
    found = by_substrings(index.store, ["abcde"], len(TEXTS), 99)

    assert [index.store.chunks([i])[i].path for i in found] == ["docs/3.md"]


def test_more_of_it_is_better(index: Index) -> None:
    """Two mentions before one, and a rare string before a common one."""
    found = by_substrings(index.store, ["draft", "max_draft"], len(TEXTS), 99)

    assert [index.store.chunks([i])[i].path for i in found] == [
        "docs/0.md",
        "docs/1.md",
    ]


def test_work_is_bounded(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many passages may hold a string, so many are read."""
    monkeypatch.setattr(substrings, "_READ_CHUNKS", 2)
    monkeypatch.setattr(substrings, "_NAMED_CHUNKS", 3)

    assert len(by_substrings(index.store, ["docs/"], len(TEXTS), 99)) == 2
