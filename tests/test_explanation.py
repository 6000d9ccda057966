"""An explanation names every term, and the terms add up to rank and verdict."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from layouts import make_corpus

from docs_rag.embedding import StubEmbedder
from docs_rag.explaintext import explanation_as_text
from docs_rag.indexer import index_corpus
from docs_rag.records import Answer
from docs_rag.retrieval import Retriever, ask
from docs_rag.vectors import DiskVectors

PAGES = {
    "docs/anchor.md": "# Anchor\n\nLet go the anchor in mud or sand, never on rock.\n",
    "docs/pump.md": "# Pump\n\nRun the pump with `--drain-fast` until it sucks air.\n",
    "docs/paint.md": "# Paint\n\nScrape and prime the hull before the green paint.\n",
}
QUESTION = "where do I let go the anchors, zymurgy or --drain-fast?"


@pytest.fixture(scope="module")
def retriever(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Retriever]:
    corpus = make_corpus(tmp_path_factory.mktemp("ship"), PAGES)
    embedder = StubEmbedder()
    index_corpus(corpus, embedder)
    opened = Retriever(
        corpus.name, corpus.directory, corpus.index_path, embedder, DiskVectors()
    )
    yield opened
    opened.close()


def explained(retriever: Retriever, query: str, *also: str) -> tuple[Answer, Any]:
    question = ask(query, 3, also)
    answer = retriever.retrieve(question, even_if_none=True, explain=True)
    return answer, answer.explanation


def test_nothing_is_explained_unasked(retriever: Retriever) -> None:
    """The terms are only gathered where they were asked for."""
    assert retriever.retrieve(ask(QUESTION)).explanation is None


def test_every_word_has_its_weight_or_its_reason(retriever: Retriever) -> None:
    """A word is asked with a weight, or pruned and the reason is given."""
    _, told = explained(retriever, QUESTION)
    words = {word["word"]: word for word in told["phrasings"][0]["words"]}

    assert words["anchors"]["stem"] == "anchor"
    assert words["anchors"]["passages"] == 1
    assert words["zymurgy"]["passages"] == 0
    assert "sentence" in words["where"]["pruned"]
    for word in words.values():
        assert (word["weight"] == 0) == (word["pruned"] is not None), word
    assert any("drain" in part for part in told["phrasings"][0]["substrings"])


@pytest.mark.parametrize(
    ("query", "word", "reason"),
    [
        pytest.param("anchor anchors", "anchors", "same stem", id="stem"),
        pytest.param("hull of keel", "of", "sentence", id="function word"),
    ],
)
def test_why_a_word_is_pruned(
    retriever: Retriever, query: str, word: str, reason: str
) -> None:
    """The reason is the rule that left the word out."""
    _, told = explained(retriever, query)
    pruned = {
        one["word"]: one["pruned"]
        for one in told["phrasings"][0]["words"]
        if one["pruned"]
    }

    assert list(pruned) == [word]
    assert reason in pruned[word]


def test_a_word_in_most_passages_is_pruned(tmp_path: Path) -> None:
    """What more than half of the passages hold is asked for nothing."""
    pages = {
        f"docs/{n}.md": f"# Sheet {n}\n\nThe keel number{n} is oak.\n" for n in range(4)
    }
    corpus = make_corpus(tmp_path, pages)
    embedder = StubEmbedder()
    index_corpus(corpus, embedder)
    retriever = Retriever(
        corpus.name, corpus.directory, corpus.index_path, embedder, DiskVectors()
    )
    _, told = explained(retriever, "keel number3")
    retriever.close()
    words = {word["word"]: word["pruned"] for word in told["phrasings"][0]["words"]}

    assert words == {"keel": "in more than half of the passages", "number3": None}


def test_the_parts_of_the_evidence_add_up_to_its_score(retriever: Retriever) -> None:
    """The verdict follows from the score and the two lines beside it."""
    answer, told = explained(retriever, QUESTION)
    evidence = told["phrasings"][0]["evidence"]

    assert sum(evidence["adds"].values()) == pytest.approx(evidence["score"], abs=1e-4)
    assert evidence["score"] == pytest.approx(answer.facts["verdict_score"], abs=1e-4)
    assert evidence["weak_from"] == answer.facts["weak_from"]
    assert told["match"] == answer.match.value
    assert str(evidence["weak_from"]) in told["why"] or "strong" in told["why"]


def test_the_background_is_the_mean_and_the_deviation(retriever: Retriever) -> None:
    """How far the best similarity stands out can be worked out from what is shown."""
    _, told = explained(retriever, QUESTION)
    background = told["phrasings"][0]["background"]

    for kind in ("body", "heading"):
        shown = background[kind]
        above = (shown["best"] - shown["mean"]) / background["deviation"]
        trusted = above * max(background["trust"], 0.001)
        assert trusted == pytest.approx(shown["trusted_deviations_above"], abs=1e-3)


def test_the_lists_of_a_hit_add_up_to_its_score(retriever: Retriever) -> None:
    """Each hit has its place in each list that held it, and what that is worth."""
    answer, told = explained(retriever, QUESTION)
    hits = told["phrasings"][0]["hits"]

    assert [hit["path"] for hit in hits] == [hit.path for hit in answer.hits]
    for hit, shown in zip(answer.hits, hits, strict=True):
        total = sum(place["adds"] for place in shown["lists"].values())
        assert total == pytest.approx(hit.rrf_score, abs=1e-5)
        assert sum(shown["adds"].values()) == pytest.approx(shown["sum"], abs=1e-3)
        assert set(shown["signals"]) == {
            *("body", "heading", "lead", "words", "page", "substrings")
        }
    assert hits[0]["lists"]["evidence"]["rank"] == 1


def test_each_phrasing_is_explained(retriever: Retriever) -> None:
    """The caller's other phrasings have words and verdicts of their own."""
    _, told = explained(retriever, "zymurgy", "green paint on the hull")
    first, second = told["phrasings"]

    assert first["query"] == "zymurgy"
    assert first["why"] == "not one of its words is known, and it reads as no language"
    ranks = {h["path"]: h["lists"]["evidence"]["rank"] for h in second["hits"]}
    assert ranks["docs/paint.md"] == 1


def test_facts_stay_free_of_the_question(retriever: Retriever) -> None:
    """The words are in the explanation; the facts, which are traced, have none."""
    answer, told = explained(retriever, QUESTION)

    assert "zymurgy" in json.dumps(told)
    assert "zymurgy" not in json.dumps(answer.facts)


def test_the_text_shows_every_term(retriever: Retriever) -> None:
    """Whatever is in the JSON stands in the lines for a terminal."""
    answer, told = explained(retriever, QUESTION)
    text = explanation_as_text(answer)

    def leaves(value: object) -> Iterator[object]:
        if isinstance(value, dict):
            for one in value.values():
                yield from leaves(one)
        elif isinstance(value, list):
            for one in value:
                yield from leaves(one)
        elif value is not None:
            yield value

    assert [leaf for leaf in leaves(told) if str(leaf) not in text] == []
    assert all(f"  {name}: " in text for name in answer.facts)


def test_the_text_moves_no_cursor(retriever: Retriever) -> None:
    """What moves a cursor in a question does not reach the terminal."""
    answer, _ = explained(retriever, "anchor \x1b[2J rock")

    assert "\x1b" not in explanation_as_text(answer)
