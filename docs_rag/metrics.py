"""
Ranks in, numbers out: the measures of a retrieval run, and how sure they are.

Pure. A rank is 1-based; None means that the page was not found. Everything random
is seeded, so a report can be made again to the last digit.
"""

import math
import random
from collections.abc import Callable, Sequence

Rank = int | None

_RESAMPLES = 2000
_SEED = 20260101


def mean(values: Sequence[float]) -> float:
    """Return the mean, 0 for none."""
    return sum(values) / len(values) if values else 0.0


def recall_at(ranks: Sequence[Rank], k: int) -> float:
    """Return the share of questions whose page is among the first ``k``."""
    return mean([float(rank is not None and rank <= k) for rank in ranks])


def reciprocal(rank: Rank) -> float:
    """Return 1 / rank, 0 where the page was not found."""
    return 1 / rank if rank else 0.0


def mean_reciprocal_rank(ranks: Sequence[Rank]) -> float:
    """Return the mean of 1 / rank; a miss counts 0."""
    return mean([reciprocal(rank) for rank in ranks])


def ndcg(found: Sequence[bool], relevant_count: int, k: int = 10) -> float:
    """
    Return the normalised discounted cumulative gain of one question, gains 0 or 1.

    ``found`` says for each returned page, best first, whether it is a right one;
    ``relevant_count`` is how many right ones there are.
    """
    gain = sum(
        1 / math.log2(position + 1)
        for position, is_right in enumerate(found[:k], start=1)
        if is_right
    )
    count = min(relevant_count, k)
    ideal = sum(1 / math.log2(position + 1) for position in range(1, count + 1))
    return gain / ideal if ideal else 0.0


def percentile(values: Sequence[float], share: float) -> float:
    """Return the nearest-rank percentile (``share`` in [0, 1]), 0 for none."""
    if not values:
        return 0.0
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, math.ceil(share * len(ordered)) - 1))]


def bootstrap_interval(
    values: Sequence[float],
    statistic: Callable[[Sequence[float]], float] = mean,
    share: float = 0.95,
) -> tuple[float, float]:
    """Return the percentile bootstrap interval of a statistic over the questions."""
    if not values:
        return 0.0, 0.0
    generator = random.Random(_SEED)
    drawn = [
        statistic(generator.choices(values, k=len(values))) for _ in range(_RESAMPLES)
    ]
    tail = (1 - share) / 2
    return percentile(drawn, tail), percentile(drawn, 1 - tail)


def paired_p_value(first: Sequence[float], second: Sequence[float]) -> float:
    """
    Return how often chance alone would differ as much: a paired permutation test.

    Under the null hypothesis the two settings are exchangeable question by question,
    so each difference may as well have the other sign. Exact up to 12 differences,
    by 10,000 seeded draws beyond.
    """
    if len(first) != len(second):
        raise ValueError("a paired test needs the same questions on both sides")
    differences = [a - b for a, b in zip(first, second, strict=True) if a != b]
    if not differences:
        return 1.0
    seen = abs(sum(differences)) - 1e-12
    if len(differences) <= 12:
        count = 1 << len(differences)
        sums = (
            sum(d if mask >> i & 1 else -d for i, d in enumerate(differences))
            for mask in range(count)
        )
        return sum(abs(total) >= seen for total in sums) / count
    generator = random.Random(_SEED)
    draws = 10_000
    extreme: int = sum(
        abs(sum(d if generator.random() < 0.5 else -d for d in differences)) >= seen
        for _ in range(draws)
    )
    return (extreme + 1) / (draws + 1)


def roc_area(positives: Sequence[float], negatives: Sequence[float]) -> float:
    """Return the chance that a positive scores above a negative (AUROC)."""
    if not positives or not negatives:
        return 0.5
    wins = sum(
        (positive > negative) + 0.5 * (positive == negative)
        for positive in positives
        for negative in negatives
    )
    return wins / (len(positives) * len(negatives))
