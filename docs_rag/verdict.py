"""
Does the corpus answer at all? A verdict from evidence, never from fused ranks.

Pure. What is high for one model and corpus is noise for another, so the evidence is
read against what unrelated questions reach in the same corpus.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from docs_rag.records import Match

# A long question shares a smaller part of its words with any one page.
_LENGTH = 0.25
# One spread of the model's similarity is worth so much of a share of the words.
_MEANING = 0.054
# In a few chunks no word is rare, and BM25 says little: there the plain share of the
# words that one passage holds takes its place. Half and half at this many chunks.
_SMALL_CORPUS_CHUNKS = 20


@dataclass(frozen=True, slots=True)
class Evidence:
    """
    What is known about how well the corpus answers one query.

    ``similarity`` is the best passage's cosine, None where vectors were not used;
    ``body`` and ``heading`` say how far the best passage and the best heading stand
    out of the query's background, in spreads. ``known`` is the share of the query's
    worth in words that the corpus holds at all; ``words`` and ``page`` the share that
    the best passage and page hold by BM25, ``covered`` by plain presence.
    """

    similarity: float | None
    body: float
    heading: float
    known: float
    words: float
    page: float
    covered: float
    word_count: int
    chunk_count: int
    is_readable: bool
    has_content: bool
    is_noise: bool

    @property
    def mode(self) -> str:
        """
        Which evidence there is: ``meaning``, ``words`` or ``both``.

        Words say nothing of a question in a language that the corpus is not in.
        """
        if self.similarity is None:
            return "words"
        return "both" if self.is_readable else "meaning"

    @property
    def parts(self) -> dict[str, float]:
        """What meaning, words and length add to the score."""
        meaning = {"meaning": _MEANING * (self.body + self.heading)}
        if self.mode == "meaning":
            return meaning
        share = self.chunk_count / (self.chunk_count + _SMALL_CORPUS_CHUNKS)
        words = share * (self.words + self.page) + (1 - share) * self.covered
        length = _LENGTH * math.log1p(self.word_count)
        return {**meaning, "words": words, "length": length}

    @property
    def score(self) -> float:
        """All evidence in one number, comparable within one corpus and mode."""
        return sum(self.parts.values())


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Below ``weak`` the verdict is none, from ``strong`` on it is strong."""

    weak: float
    strong: float


def verdict(evidence: Evidence, thresholds: Mapping[str, Thresholds]) -> Match:
    """Say whether the corpus answers at all; see ``judge``."""
    return judge(evidence, thresholds)[0]


def judge(
    evidence: Evidence, thresholds: Mapping[str, Thresholds]
) -> tuple[Match, str]:
    """
    Say whether the corpus answers at all, and why.

    Noise, and a question of which the corpus holds not one word though it is in its
    language, is never answered. Without thresholds nothing is called strong.
    """
    if not evidence.has_content:
        return Match.NONE, "the question has no word with content"
    if evidence.is_noise:
        return Match.NONE, "not one of its words is known, and it reads as no language"
    if evidence.mode != "meaning" and not evidence.known:
        return Match.NONE, "the corpus holds not one of the words"
    limits = thresholds.get(evidence.mode)
    if limits is None:
        return Match.WEAK, "the index has no thresholds to compare with"
    score = evidence.score
    if score >= limits.strong:
        return Match.STRONG, f"{score:.4f} reaches {limits.strong}, where strong begins"
    if score >= limits.weak:
        return (
            Match.WEAK,
            f"{score:.4f} is between {limits.weak}, where weak begins, and "
            f"{limits.strong}, where strong begins",
        )
    return Match.NONE, f"{score:.4f} is below {limits.weak}, where weak begins"
