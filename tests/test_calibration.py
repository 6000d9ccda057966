"""The noise level of an index: measured, robust, and the same in any order."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from helpers import DIMENSION, IDENTITY, Index, make_store, unit_vector

from docs_rag.calibration import UNRELATED_QUESTIONS, measure_background
from docs_rag.errors import EmbeddingError
from docs_rag.records import Capacity, EmbeddingBatch, ModelIdentity, Purpose
from docs_rag.verdict import Background


class SeededEmbedder:
    """Gives every text its own direction, and notes what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[Purpose, int]] = []

    @property
    def identity(self) -> ModelIdentity:
        return IDENTITY

    def probe(self) -> Capacity:
        return Capacity(DIMENSION, None)

    def count(self, text: str) -> int:
        return len(text)

    def embed(self, texts: Sequence[str], purpose: Purpose) -> EmbeddingBatch:
        self.asked.append((purpose, len(texts)))
        return EmbeddingBatch(np.stack([unit_vector(text) for text in texts]))


class FailingEmbedder(SeededEmbedder):
    def embed(self, texts: Sequence[str], purpose: Purpose) -> EmbeddingBatch:
        raise EmbeddingError("the endpoint is gone")


@pytest.fixture
def index(tmp_path: Path):
    index = make_store(tmp_path / "index.sqlite")
    yield index
    index.store.close()


def measured(index: Index) -> Background:
    return measure_background(index.store, index.space, SeededEmbedder())


def best_cosines(texts: Sequence[str]) -> list[float]:
    matrix = np.stack([unit_vector(text) for text in texts])
    return [float((matrix @ unit_vector(q)).max()) for q in UNRELATED_QUESTIONS]


def test_the_background_is_what_unrelated_questions_reach(index: Index) -> None:
    """Median and spread of each question's best cosine over the live vectors."""
    texts = [f"text {number}" for number in range(40)]
    index.put("docs/a.md", *texts)
    with index.store.transaction():
        index.embed([UNRELATED_QUESTIONS[0], "spare"])
    low, middle, high = np.percentile(best_cosines(texts), [25, 50, 75])
    found = measured(index)

    assert found.mean == pytest.approx(middle, abs=1e-5)
    assert found.deviation == pytest.approx((high - low) / 1.349, abs=1e-5)


def test_a_few_answers_do_not_move_it(index: Index) -> None:
    """A corpus that answers some of the questions is no louder for it."""
    texts = [f"text {number}" for number in range(40)]
    index.put("docs/a.md", *texts)
    quiet = measured(index)
    index.put("docs/b.md", *UNRELATED_QUESTIONS[:4])
    louder = measured(index)

    assert max(best_cosines([*texts, *UNRELATED_QUESTIONS[:4]])) > 0.999
    assert louder.mean == pytest.approx(quiet.mean, abs=0.1)


def test_the_order_of_the_pages_does_not_matter(tmp_path: Path) -> None:
    """The same texts indexed in another order have the same background."""
    texts = [f"text {number}" for number in range(12)]
    one, two = make_store(tmp_path / "1.sqlite"), make_store(tmp_path / "2.sqlite")
    one.put("docs/a.md", *texts)
    two.put("docs/a.md", *reversed(texts))
    with one.store, two.store:
        assert measured(one) == measured(two)


def test_an_empty_index_has_a_background(index: Index) -> None:
    """Nothing is measured where nothing is indexed, and no model is asked."""
    embedder = SeededEmbedder()

    assert measure_background(index.store, index.space, embedder) == Background(0, 1)
    assert embedder.asked == []


def test_questions_are_embedded_as_questions(index: Index) -> None:
    """All of them at once, with the prefix that the model wants for a query."""
    embedder = SeededEmbedder()
    index.put("docs/a.md", "text")
    measure_background(index.store, index.space, embedder)

    assert embedder.asked == [(Purpose.QUERY, len(UNRELATED_QUESTIONS))]


def test_the_spread_is_never_zero(index: Index) -> None:
    """Where all questions are equally far away, no cosine stands out without end."""
    index.put("docs/a.md", *UNRELATED_QUESTIONS)
    found = measured(index)

    assert found.mean == pytest.approx(1.0, abs=1e-5)
    assert found.deviation == 0.01


def test_a_failing_model_is_not_hidden(index: Index) -> None:
    """No background is better than an invented one."""
    index.put("docs/a.md", "text")
    with pytest.raises(EmbeddingError, match="the endpoint is gone"):
        measure_background(index.store, index.space, FailingEmbedder())


def test_questions_are_many_and_distinct() -> None:
    """Enough of them that quartiles mean something, each asked once."""
    assert len(set(UNRELATED_QUESTIONS)) == len(UNRELATED_QUESTIONS) >= 30
    assert all(question.endswith("?") for question in UNRELATED_QUESTIONS)
