"""
Does the corpus answer at all? A verdict from evidence, never from fused ranks.

Pure. What is high for one model and corpus is noise for another, so the evidence is
read against the background that was measured when the index was built.
"""

from dataclasses import dataclass

from docs_rag.records import Match


@dataclass(frozen=True, slots=True)
class Evidence:
    """
    What is known about how well the corpus answers one query.

    ``similarity`` is the best passage's cosine, None where vectors were not used;
    ``known`` is the share of the query's IDF mass whose words the corpus holds at
    all, ``covered`` the share that the best lexical passage holds, both in [0, 1].
    ``word_count`` counts the query's words that carry weight.
    """

    similarity: float | None
    known: float
    covered: float
    word_count: int


@dataclass(frozen=True, slots=True)
class Background:
    """
    How similar this corpus is to text it has nothing to do with, under this model.

    ``mean`` and ``deviation`` describe the best cosine that unrelated questions
    reach; measured when the index is built.
    """

    mean: float
    deviation: float

    def stands_out(self, similarity: float) -> float:
        """Return how many deviations ``similarity`` lies above the background."""
        return (similarity - self.mean) / max(self.deviation, 1e-6)


def verdict(evidence: Evidence, background: Background | None) -> Match:
    """Say whether the corpus answers at all, from two independent signs."""
    if not evidence.word_count and evidence.similarity is None:
        return Match.NONE
    if evidence.similarity is None or background is None:
        return Match.WEAK if evidence.covered >= 0.5 else Match.NONE
    stands_out = background.stands_out(evidence.similarity)
    score = stands_out + 4 * evidence.covered
    if score >= 4:
        return Match.STRONG
    return Match.WEAK if score >= 2 else Match.NONE
