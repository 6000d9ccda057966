"""Words in an index of any size: exact scores, and bounded work."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers import Index, make_store
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from docs_rag import fulltext, wordsearch
from docs_rag.store import Store
from docs_rag.terms import terms_of
from docs_rag.wordsearch import Lexical, by_words

WORDS = [f"mot{chr(97 + i)}{chr(97 + i)}" for i in range(26)]
FILES, CHUNKS = 60, 180


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    """Pages of words, the first of which are in most of them and the last in few."""
    chance = random.Random(3)
    built = make_store(tmp_path_factory.mktemp("words") / "index.sqlite")
    weights = [1 / (rank + 1) for rank in range(len(WORDS))]
    for number in range(FILES):
        bodies = [
            " ".join(chance.choices(WORDS, weights, k=chance.randint(5, 40)))
            for _ in range(CHUNKS // FILES)
        ]
        title = " ".join(chance.choices(WORDS, weights, k=2))
        built.put(f"docs/{number}.md", *bodies, title=title)
    yield built
    built.store.close()


def search(store: Store, query: str, near: tuple[int, ...] = ()) -> Lexical:
    return by_words(store, terms_of(store, query, CHUNKS, FILES), near)


def everything(store: Store, query: str) -> Lexical:
    """Rank every row, as in an index of this size."""
    return search(store, query)


QUERY = st.lists(st.sampled_from(WORDS), min_size=1, max_size=9).map(" ".join)


@settings(
    deadline=None,
    max_examples=80,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(query=QUERY, budget=st.integers(1, 150), near=st.sets(st.integers(1, CHUNKS)))
def test_what_pruning_keeps_is_scored_exactly(
    index: Index, query: str, budget: int, near: set[int]
) -> None:
    """Every passage and page has the score it has where nothing is pruned."""
    whole = everything(index.store, query)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wordsearch, "_RANKED_CHUNKS", budget)
        patch.setattr(wordsearch, "_RANKED_PAGES", budget)
        patch.setattr(wordsearch, "_RESCORED_CHUNKS", 20)
        patch.setattr(wordsearch, "_SCORED_CHUNKS", 5)
        patch.setattr(wordsearch, "_BESIDE", CHUNKS)
        pruned = search(index.store, query, tuple(sorted(near)))

    assert pruned.words == pytest.approx(
        {i: whole.words[i] for i in pruned.words}, abs=1e-9
    )
    assert pruned.pages == pytest.approx(
        {path: whole.pages[path] for path in pruned.pages}, abs=1e-9
    )
    assert list(pruned.words.values()) == sorted(pruned.words.values(), reverse=True)
    assert near & set(whole.words) <= set(pruned.words)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(query=QUERY, budget=st.integers(1, 150))
def test_holders_of_the_rarest_word_are_kept(
    index: Index, query: str, budget: int
) -> None:
    """Whoever holds the rarest word is ranked, as long as the budget has room."""
    terms = terms_of(index.store, query, CHUNKS, FILES)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wordsearch, "_RANKED_CHUNKS", budget)
        pruned = search(index.store, query)

    term, frequency = min(
        terms.chunk_frequencies.items(), key=lambda one: (one[1], one[0])
    )
    if frequency <= budget:
        holders = {i for i, _ in index.store.search_words(term, CHUNKS)}
        assert holders <= set(pruned.words)


def test_a_small_index_is_ranked_whole(index: Index) -> None:
    """Scores are those of the full-text index itself, to the last bit."""
    terms = terms_of(index.store, " ".join(WORDS[:9]), CHUNKS, FILES)
    found = search(index.store, " ".join(WORDS[:9]))

    assert found.words == {
        i: score / terms.ceiling
        for i, score in index.store.search_words(terms.match, 500)
    }


@given(text=st.text(max_size=60), budget=st.integers(1, 9))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_text_is_too_odd(index: Index, text: str, budget: int) -> None:
    """Whatever is asked together with known words, nothing is raised."""
    text = text.encode("utf-8", "replace").decode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wordsearch, "_RANKED_CHUNKS", budget)
        patch.setattr(wordsearch, "_RANKED_PAGES", budget)
        search(index.store, f"{text} {WORDS[0]} {text}{WORDS[9]}", (1, 2, 10**9))


def test_common_terms_are_counted_as_the_vocabulary_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kept counts equal those that the index would give, and only common ones are."""
    monkeypatch.setattr(fulltext, "_COMMON_FROM", 3)
    index = make_store(tmp_path / "index.sqlite")
    for number in range(6):
        index.put(f"docs/{number}.md", f"valve {'pump ' * (number < 3)}x{number}y")
    with index.store as store:
        store.settle_text()
        kept = {
            (row[0], row[1]): row[2] for row in store.rows("SELECT * FROM frequencies")
        }
        for table in ("words", "pages", "trigrams"):
            counted = dict(store.rows(f"SELECT term, doc FROM {table}_vocabulary"))
            expected = {term: n for term, n in counted.items() if n >= 3}
            assert {t: n for (kind, t), n in kept.items() if kind == table} == expected
        assert store.document_frequencies(["valv", "pump", "x1y", "gone"]) == {
            "valv": 6,
            "pump": 3,
            "x1y": 1,
            "gone": 0,
        }


def test_stale_counts_of_common_terms_do_no_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A small run leaves them as they were; answers still hold what was added."""
    monkeypatch.setattr(fulltext, "_COMMON_FROM", 3)
    monkeypatch.setattr(wordsearch, "_RANKED_CHUNKS", 2)
    index = make_store(tmp_path / "index.sqlite")
    for number in range(6):
        index.put(f"docs/{number}.md", f"valve pump {number}")
    with index.store as store:
        store.settle_text()
        index.put("docs/0.md", "gone")
        index.put("docs/new.md", "valve pump brandnew")
        found = by_words(store, terms_of(store, "valve brandnew", 20, 20))
        best = store.chunks([next(iter(found.words))])

    assert [chunk.path for chunk in best.values()] == ["docs/new.md"]
