"""What the verdict goes by is measured on the corpus, cheaply, and kept."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from helpers import Index, make_store

from docs_rag.calibration import (
    calibrate,
    calibration_as_json,
    calibration_from_json,
)
from docs_rag.embedding import BuiltinEmbedder, StubEmbedder
from docs_rag.errors import TextRefusedError
from docs_rag.functionwords import ENGLISH
from docs_rag.lexical import query_words
from docs_rag.paraphrases import PAIRS
from docs_rag.records import Embedder, EmbeddingBatch, Purpose
from docs_rag.unrelated import QUESTIONS, UNREADABLE_QUESTIONS
from docs_rag.vectors import to_bytes


class Counting(StubEmbedder):
    """Notes what it embeds, and refuses texts that hold a word."""

    def __init__(self, refused: str = "\0") -> None:
        self.texts: list[str] = []
        self._refused = refused

    def embed(self, texts: Sequence[str], purpose: Purpose) -> EmbeddingBatch:
        for position, text in enumerate(texts):
            if self._refused in text:
                raise TextRefusedError("no", position)
        self.texts += texts
        return super().embed(texts, purpose)


def build(path: Path, count: int) -> Index:
    """Lay out pages whose vectors are the stub model's."""
    index = make_store(path, dimension=StubEmbedder().probe().dimension)
    bodies = [f"Page {n} tells how pump number {n} is oiled." for n in range(count)]
    vectors = StubEmbedder().embed(bodies, Purpose.PASSAGE).vectors
    with index.store.transaction():
        index.store.add_vectors(
            index.space.id,
            {
                hashlib.sha256(body.encode()).digest(): to_bytes(vector)
                for body, vector in zip(bodies, vectors, strict=True)
            },
        )
    for number, body in enumerate(bodies):
        index.put(f"docs/{number}.md", body)
    return index


def test_the_work_does_not_grow_with_the_corpus(tmp_path: Path) -> None:
    """However many pages, the same bounded number of questions is embedded."""
    index = build(tmp_path / "index.sqlite", 90)
    embedder = Counting()
    calibrate(index.store, index.space, embedder)
    index.store.close()

    shipped = len(QUESTIONS) + len(UNREADABLE_QUESTIONS) + 2 * len(PAIRS)
    assert len(embedder.texts) <= shipped + 40


@pytest.mark.parametrize(
    ("embedder", "low", "high"),
    [
        pytest.param(StubEmbedder(), 0, 0, id="hashed words know no meaning"),
        pytest.param(BuiltinEmbedder(), 0.9, 1, id="the built-in model does"),
    ],
)
def test_a_model_is_trusted_as_far_as_it_knows_meaning(
    tmp_path: Path, embedder: Embedder, low: float, high: float
) -> None:
    """Sentences that say the same without sharing a word tell a model from a count."""
    index = make_store(tmp_path / "index.sqlite", embedder.probe().dimension)
    background = calibrate(index.store, index.space, embedder).background
    index.store.close()

    assert background is not None
    assert low <= background.trust <= high


def test_paraphrases_share_no_word_that_matters() -> None:
    """Whoever counts words must find nothing in common."""
    for first, second in PAIRS:
        shared = set(query_words(first)) & set(query_words(second)) - ENGLISH
        assert not shared, (first, second)


def test_its_own_words_are_answered_and_others_are_not(tmp_path: Path) -> None:
    """The rates say how the corpus' own sentences and unrelated ones come out."""
    index = build(tmp_path / "index.sqlite", 12)
    rates = calibrate(index.store, index.space, StubEmbedder()).rates
    index.store.close()

    assert rates["false_none"] == 0
    assert float(str(rates["false_strong"])) <= 0.05


def test_a_refused_question_of_its_own_is_done_without(tmp_path: Path) -> None:
    """A model that refuses a text of the corpus does not stop the calibration."""
    index = build(tmp_path / "index.sqlite", 5)
    embedder = Counting(refused="pump")
    rates = calibrate(index.store, index.space, embedder).rates
    index.store.close()

    assert rates["own_questions"] == 0


def test_an_empty_index_can_be_calibrated(tmp_path: Path) -> None:
    """No page, no vector: there are thresholds all the same."""
    index = make_store(tmp_path / "index.sqlite", StubEmbedder().probe().dimension)
    found = calibrate(index.store, index.space, StubEmbedder())
    index.store.close()

    assert set(found.thresholds) == {"both", "meaning", "words"}


def test_a_calibration_survives_json(tmp_path: Path) -> None:
    """What is kept in the index is what was measured, to six digits."""
    index = build(tmp_path / "index.sqlite", 4)
    found = calibrate(index.store, index.space, StubEmbedder())
    index.store.close()
    kept = calibration_from_json(json.loads(json.dumps(calibration_as_json(found))))

    assert (kept.thresholds, kept.rates) == (found.thresholds, found.rates)
    assert kept.background is not None
    assert found.background is not None
    assert abs(kept.background.body - found.background.body).max() < 1e-6
    assert kept.background.spread == found.background.spread
    assert kept.background.trust == found.background.trust


def test_no_calibration_reads_as_an_empty_one() -> None:
    """An index that was never calibrated has no thresholds and no rates."""
    empty = calibration_from_json(None)

    assert (empty.background, empty.thresholds, empty.rates) == (None, {}, {})


def test_two_calibrations_of_one_index_are_the_same(tmp_path: Path) -> None:
    """Nothing in it depends on chance."""
    index = build(tmp_path / "index.sqlite", 20)
    first, second = (
        json.dumps(
            calibration_as_json(calibrate(index.store, index.space, StubEmbedder()))
        )
        for _ in range(2)
    )
    index.store.close()

    assert first == second
