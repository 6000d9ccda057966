"""The verdict: what the evidence has to show."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docs_rag.records import Match
from docs_rag.verdict import Evidence, Thresholds, verdict

LINES = {mode: Thresholds(1.0, 2.0) for mode in ("both", "meaning", "words")}
EVIDENCE = Evidence(
    similarity=0.5,
    body=5.0,
    heading=5.0,
    known=0.8,
    words=0.4,
    page=0.5,
    covered=0.6,
    word_count=4,
    chunk_count=1000,
    is_readable=True,
    has_content=True,
    is_noise=False,
)


def changed(**changes: object) -> Evidence:
    return dataclasses.replace(EVIDENCE, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("evidence", "expected"),
    [
        pytest.param(changed(words=0.9, page=0.9), Match.STRONG, id="all of it"),
        pytest.param(EVIDENCE, Match.WEAK, id="some of it"),
        pytest.param(
            changed(words=0.05, page=0.05, body=1.0, heading=1.0),
            Match.NONE,
            id="little",
        ),
        pytest.param(changed(has_content=False), Match.NONE, id="no content"),
        pytest.param(changed(is_noise=True), Match.NONE, id="noise"),
        pytest.param(changed(known=0.0, body=99.0), Match.NONE, id="no word known"),
        pytest.param(
            changed(known=0.0, is_readable=False, body=30.0),
            Match.WEAK,
            id="another language",
        ),
        pytest.param(
            changed(similarity=None, body=0.0, heading=0.0, words=0.9, page=0.9),
            Match.STRONG,
            id="by words alone",
        ),
    ],
)
def test_verdicts(evidence: Evidence, expected: Match) -> None:
    """Enough evidence answers; noise, and words that are not there, never do."""
    assert verdict(evidence, LINES) is expected


def test_nothing_is_strong_before_it_was_measured() -> None:
    """Without thresholds the best verdict is weak."""
    assert verdict(changed(words=1.0, page=1.0), {}) is Match.WEAK


def test_words_count_for_nothing_in_another_language() -> None:
    """Where the corpus does not speak the question's language, meaning decides."""
    other = changed(is_readable=False, words=0.0, page=0.0)

    assert other.mode == "meaning"
    assert other.score == changed(is_readable=False, words=1.0).score


def test_a_few_chunks_go_by_plain_presence() -> None:
    """In a corpus of three passages BM25 knows no rare word, and presence counts."""
    tiny = changed(chunk_count=3, words=0.0, page=0.0)

    assert tiny.score > changed(words=0.0, page=0.0).score


@given(st.floats(0, 1), st.floats(0, 1), st.floats(-5, 30))
def test_more_evidence_is_never_less(words: float, more: float, body: float) -> None:
    """The score grows with every piece of evidence."""
    low, high = sorted((words, more))
    assert changed(words=low).score <= changed(words=high).score
    assert changed(body=body).score < changed(body=body + 1).score
