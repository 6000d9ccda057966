"""
What the verdict goes by in this corpus, measured on it when it is indexed.

Questions that ship with docs-rag and have nothing to do with the corpus say what noise
looks like; the corpus' own headings and sentences, asked as questions, what an answer
does. Bounded work: a fixed number of questions, and one pass over the vectors.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
import numpy.typing as npt

from docs_rag.background import DEFAULT_SPREAD, Background, as_json, from_json
from docs_rag.candidates import Searcher
from docs_rag.errors import TextRefusedError
from docs_rag.lexical import words
from docs_rag.paraphrases import PAIRS
from docs_rag.records import Embedder, Match, Purpose
from docs_rag.schema import Space, StoredChunk
from docs_rag.store import Store
from docs_rag.unrelated import QUESTIONS, UNREADABLE_QUESTIONS
from docs_rag.vectors import DiskVectors, live_batches
from docs_rag.verdict import Evidence, Thresholds, verdict

Vectors = npt.NDArray[np.float32]

# Raise when the questions or the evidence change: the next run then measures anew.
CALIBRATION_VERSION = 3

# A corpus of a few passages takes most of its background from unrelated text: so many
# passages' worth of it.
_PRIOR_WEIGHT = 30
_OWN_QUESTIONS = 40
_OWN_QUESTION_WORDS = 12
# Deviations above the median of unrelated questions where the verdict turns: one in
# six passes as weak where the noise is normal, one in a hundred as strong.
_WEAK, _STRONG = 1.0, 2.3
# Meaning alone is less sure of itself.
_WEAK_BY_MEANING = 1.1
# Two scores closer than this are the same.
_LEAST_DEVIATION = 0.02
_QUARTILES_OF_NORMAL = 1.349
# Of its own questions, so many may fall below the line.
_OWN_SHARE_BELOW = 0.02


@dataclass(frozen=True, slots=True)
class Calibration:
    """The background, the thresholds for each kind of evidence, and how they err."""

    background: Background | None
    thresholds: Mapping[str, Thresholds]
    rates: Mapping[str, object]


def calibration_as_json(calibration: Calibration) -> dict[str, object]:
    """Return a calibration in values that JSON has."""
    background = calibration.background
    return {
        "background": as_json(background) if background else None,
        "thresholds": {m: asdict(t) for m, t in calibration.thresholds.items()},
        "rates": dict(calibration.rates),
    }


def calibration_from_json(value: Mapping[str, object] | None) -> Calibration:
    """Return what ``calibration_as_json`` took apart; empty for None."""
    if not value:
        return Calibration(None, {}, {})
    background, thresholds, rates = (
        value[key] for key in ("background", "thresholds", "rates")
    )
    return Calibration(
        background=from_json(background) if isinstance(background, dict) else None,
        thresholds={m: Thresholds(**t) for m, t in dict(thresholds).items()},  # type: ignore[call-overload]
        rates=dict(rates),  # type: ignore[call-overload]
    )


def calibrate(store: Store, space: Space, embedder: Embedder) -> Calibration:
    """Measure ``store``, which holds vectors of ``space``, with shipped questions."""
    texts, vectors, trust = _embedded(embedder, list(_own_questions(store)))
    background, nearest = _sweep(store, space, vectors)
    background = replace(background, trust=trust)
    searcher = Searcher(
        store,
        store.meta("chunks", 0),
        store.meta("files", 0),
        space,
        DiskVectors(),
        background,
    )
    found, by_words = [], []
    for text, vector, (body, heading) in zip(texts, vectors, nearest, strict=True):
        terms = searcher.terms(text)
        lexical = searcher.by_words(terms)
        found.append(searcher.evidence(terms, lexical, vector, body, heading))
        by_words.append(searcher.evidence(terms, lexical, None, None, None))
    count = len(QUESTIONS) + len(UNREADABLE_QUESTIONS)
    unrelated, answered = found[:count], found[count:]
    thresholds = {
        "both": _thresholds(_scores(unrelated, "both"), answered, _WEAK),
        "meaning": _thresholds(_scores(unrelated, "meaning"), [], _WEAK_BY_MEANING),
        "words": _thresholds(
            _scores(by_words[:count], "words"), by_words[count:], _WEAK
        ),
    }
    return Calibration(background, thresholds, _rates(unrelated, answered, thresholds))


def _embedded(embedder: Embedder, own: list[str]) -> tuple[list[str], Vectors, float]:
    """
    Embed all questions; without the corpus' own where the model refuses one.

    Also returns how far the model is to be trusted.
    """
    pairs = [sentence for pair in PAIRS for sentence in pair]
    shipped = [*QUESTIONS, *UNREADABLE_QUESTIONS]
    texts = shipped + own
    try:
        vectors = embedder.embed(pairs + texts, Purpose.QUERY).vectors
    except TextRefusedError:
        texts = shipped
        vectors = embedder.embed(pairs + texts, Purpose.QUERY).vectors
    return texts, vectors[len(pairs) :], _trust(vectors[: len(pairs)])


def _trust(pairs: Vectors) -> float:
    """
    Return how surely sentences that say the same are nearer than others.

    They share no word, so a similarity that only counts words earns nothing: it would
    add noise to what the word index counts better.
    """
    cosines = pairs[::2] @ pairs[1::2].T
    same = np.diag(cosines)
    others = ~np.eye(len(same), dtype=bool)
    nearer = np.mean(
        [np.sign(same[:, None] - side)[others].mean() for side in (cosines, cosines.T)]
    )
    # Two deviations of what chance does: one place in a shuffled row, for each pair.
    chance = 2 / math.sqrt(3 * len(same))
    return round(max(0.0, (float(nearer) - chance) / (1 - chance)), 4)


def _own_questions(store: Store) -> Iterator[str]:
    """Yield headings and first sentences, in turn, from all over the corpus."""
    ids = store.chunk_ids()
    step = max(1, len(ids) // _OWN_QUESTIONS)
    chunks = store.chunks(ids[::step][:_OWN_QUESTIONS])
    for position, chunk in enumerate(chunks[i] for i in ids if i in chunks):
        text = _question_of(chunk, by_heading=position % 2 == 0)
        if words(text):
            yield text


def _question_of(chunk: StoredChunk, *, by_heading: bool) -> str:
    if by_heading and chunk.heading:
        return chunk.heading.rsplit(" > ", 1)[-1]
    return " ".join(chunk.body.split()[:_OWN_QUESTION_WORDS])


def _sweep(
    store: Store, space: Space, queries: Vectors
) -> tuple[Background, list[tuple[float | None, float | None]]]:
    """Pass over all vectors once: their means, and each query's best cosines."""
    headings = store.heading_vector_ids()
    parts = [_Part(len(queries), space.capacity.dimension) for _ in range(2)]
    for ids, matrix in live_batches(store, space):
        is_heading = np.array([i in headings for i in ids.tolist()])
        for part, chosen in zip(parts, (~is_heading, is_heading), strict=True):
            part.add(matrix[chosen], queries)
    noise = queries[: len(QUESTIONS)].mean(axis=0)
    body, heading = parts
    background = Background(
        body=body.mean(noise),
        heading=heading.mean(noise),
        spread=body.spread(),
    )
    return background, list(zip(body.best(), heading.best(), strict=True))


class _Part:
    """What a pass over some of the vectors adds up to."""

    def __init__(self, query_count: int, dimension: int) -> None:
        self._count = 0
        self._sum = np.zeros(dimension, dtype=np.float64)
        self._best = np.full(query_count, -1.0, dtype=np.float32)
        self._squares = np.zeros(query_count)
        self._sums = np.zeros(query_count)

    def add(self, matrix: Vectors, queries: Vectors) -> None:
        if not len(matrix):
            return
        cosines = matrix @ queries.T
        self._count += len(matrix)
        self._sum += matrix.sum(axis=0, dtype=np.float64)
        self._sums += cosines.sum(axis=0, dtype=np.float64)
        self._squares += np.square(cosines, dtype=np.float64).sum(axis=0)
        self._best = np.maximum(self._best, cosines.max(axis=0))

    def mean(self, prior: Vectors) -> Vectors:
        total = self._sum + _PRIOR_WEIGHT * prior.astype(np.float64)
        mean: Vectors = (total / (self._count + _PRIOR_WEIGHT)).astype(np.float32)
        return mean

    def spread(self) -> float:
        """Return the standard deviation of a query's cosines; a prior where few."""
        if not self._count:
            return DEFAULT_SPREAD
        variances = self._squares / self._count - np.square(self._sums / self._count)
        measured = self._count * float(
            np.maximum(variances, 0)[: len(QUESTIONS)].mean()
        )
        prior = _PRIOR_WEIGHT * DEFAULT_SPREAD**2
        spread: float = ((measured + prior) / (self._count + _PRIOR_WEIGHT)) ** 0.5
        return round(spread, 6)

    def best(self) -> list[float | None]:
        return [float(value) if self._count else None for value in self._best]


def _scores(found: Iterable[Evidence], mode: str) -> list[float]:
    return [evidence.score for evidence in found if evidence.mode == mode]


def _thresholds(
    noise: Sequence[float], answered: Iterable[Evidence], weak_at: float
) -> Thresholds:
    """
    Set the lines at deviations above the noise, but not above what is answered.

    Median and quartiles, for a few of the questions may be answered after all.
    """
    low, middle, high = np.percentile(noise or [0.0], [25, 50, 75])
    deviation = max(float(high - low) / _QUARTILES_OF_NORMAL, _LEAST_DEVIATION)
    weak, strong = middle + weak_at * deviation, middle + _STRONG * deviation
    own = [evidence.score for evidence in answered if evidence.known]
    if own:
        weak = min(weak, np.quantile(own, _OWN_SHARE_BELOW, method="lower"))
        strong = min(strong, np.median(own))
    return Thresholds(weak=round(float(weak), 4), strong=round(float(strong), 4))


def _rates(
    unrelated: Sequence[Evidence],
    answered: Sequence[Evidence],
    thresholds: Mapping[str, Thresholds],
) -> dict[str, object]:
    noise = [verdict(evidence, thresholds) for evidence in unrelated]
    own = [verdict(evidence, thresholds) for evidence in answered]
    return {
        "false_none": _share(own, Match.NONE),
        "false_strong": _share(noise, Match.STRONG),
        "false_weak": _share(noise, Match.WEAK),
        "own_questions": len(own),
        "unrelated_questions": len(noise),
    }


def _share(verdicts: Sequence[Match], match: Match) -> float:
    return round(verdicts.count(match) / len(verdicts), 4) if verdicts else 0.0
