"""Which words of a query count, and for how much."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers import Index, make_store

from docs_rag.terms import Terms, terms_of

PAGES = (
    "The harbour opens at dawn. Set max_draft_metres in harbour.toml.",
    "A pilot comes aboard at the harbour wall when the tide allows.",
    "Ropes are checked before every voyage, and after it.",
    "The galley serves soup to the crew.",
)


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    built = make_store(tmp_path / "index.sqlite")
    for number, page in enumerate(PAGES):
        built.put(f"docs/{number}.md", page)
    yield built
    built.store.close()


def of(index: Index, query: str) -> Terms:
    return terms_of(index.store, query, len(PAGES), len(PAGES))


def test_words_that_hold_a_sentence_together_are_left_out(index: Index) -> None:
    """How, do and the are not looked for; ropes is."""
    assert list(of(index, "How do I check the ropes?").weights) == ["check", "ropes"]


def test_a_query_of_such_words_alone_still_asks_for_them(index: Index) -> None:
    """Nothing else is left, so they are searched, and known to say nothing."""
    terms = of(index, "the of and")

    assert terms.weights
    assert not terms.has_content


def test_a_function_word_that_is_a_heading_has_content(index: Index) -> None:
    """Where a page is called While, that word is what the question is about."""
    index.put("docs/while.md", "Runs its body again.", title="While")

    assert of(index, "while").has_content


def test_rare_words_are_worth_more(index: Index) -> None:
    """What one page holds tells it apart better than what two hold."""
    weights = of(index, "galley harbour").weights

    assert weights["galley"] > weights["harbour"]


def test_words_the_corpus_does_not_hold_are_known_as_such(index: Index) -> None:
    """They weigh most, and the share that is known falls."""
    terms = of(index, "galley submarine")

    assert terms.unknown == {"submarine"}
    assert 0 < terms.known < 0.5
    assert "submarine" not in terms.match


def test_of_a_question_in_another_script_only_the_names_can_be_held(
    index: Index,
) -> None:
    """Nothing is missing of a Chinese question where its one Latin name is held."""
    name = of(index, "harbour").ceiling
    asked = of(index, "港口什麼時候開放 harbour")

    assert not asked.is_readable
    assert asked.ceiling == name
    assert asked.page_ceiling == of(index, "harbour").page_ceiling


@pytest.mark.parametrize(
    "query",
    [
        pytest.param("quand ouvre le galley", id="another language, the same letters"),
        pytest.param("galley submarine", id="the same language"),
    ],
)
def test_a_latin_word_that_is_not_held_is_missing(index: Index, query: str) -> None:
    """Languages of one script share words by accident: the rest still counts."""
    assert of(index, query).ceiling > of(index, "galley").ceiling


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        pytest.param("galley soup", (), id="known words"),
        pytest.param("max_draft_metres", ("max_draft_metres",), id="a name with signs"),
        pytest.param("draft", (), id="a part that is a word"),
        pytest.param("harb", ("harb",), id="an unknown word may be part of one"),
        pytest.param("港口開放", ("港口開", "口開放"), id="a script without blanks"),
    ],
)
def test_trigrams_are_asked_only_for_what_words_miss(
    index: Index, query: str, expected: tuple[str, ...]
) -> None:
    """The trigram index is spared plain words that the word index knows."""
    assert of(index, query).substrings == expected


@pytest.mark.parametrize(
    ("query", "readable", "noise"),
    [
        pytest.param("when does the harbour open?", True, False, id="its language"),
        pytest.param("Wann öffnet der Hafen morgens?", False, False, id="German"),
        pytest.param("港口什么时候开放？", False, False, id="Chinese"),
        pytest.param("zzvok blenquar frimble", False, True, id="noise"),
    ],
)
def test_language_is_told_from_noise(
    index: Index, query: str, readable: bool, noise: bool
) -> None:
    """A question in another language has its function words or letters; noise none."""
    terms = of(index, query)

    assert (terms.is_readable, terms.is_noise) == (readable, noise)
