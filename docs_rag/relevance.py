"""
What speaks for a passage, added up: its meaning, its heading, its words, its page.

Pure. Ranks throw away by how much one passage is better than the next; these numbers
keep it, and are comparable because each is measured against the corpus it comes from.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

# Weights, in spreads of the model's similarity over the corpus; chosen by the mean over
# sets of questions on several corpora: eval/README.md has the ablation.
_HEADING = 0.3
_WORDS = 9.0
_PAGE_WORDS = 11.0
_PAGE_MEANING = 0.3
_LEAD = 0.1
_SUBSTRINGS = 5.5
# What a page loses for each of its passages that stands before: the next one adds less
# than the first of another page would.
_REPEAT = 0.3


@dataclass(frozen=True, slots=True)
class Signals:
    """
    What is known of one passage for one query.

    ``body``, ``heading`` and ``lead`` are cosines, None where there is no vector; the
    lead is the passage that the page begins with, where it says what it is about.
    ``words`` and ``page`` are the shares of the query's worth that passage and page
    hold, and ``substrings`` that which only the trigram index finds in it, all in
    [0, 1].
    """

    path: str
    body: float | None = None
    heading: float | None = None
    lead: float | None = None
    words: float = 0.0
    page: float = 0.0
    substrings: float = 0.0

    def meaning(self) -> float | None:
        """Return the similarity of body and heading together."""
        if self.body is None:
            return None
        heading = self.body if self.heading is None else self.heading
        return self.body + _HEADING * heading


@dataclass(frozen=True, slots=True)
class Worth:
    """What each signal of a passage adds, in spreads of the model's similarity."""

    meaning: float
    words: float
    page: float
    substrings: float
    repeats: float = 0.0

    @property
    def total(self) -> float:
        """All of it."""
        return self.meaning + self.words + self.page + self.substrings + self.repeats


def relevance(signals: Sequence[Signals], spread: float) -> list[float]:
    """Return how much speaks for each passage; see ``worths``."""
    return [worth.total for worth in worths(signals, spread)]


def worths(signals: Sequence[Signals], spread: float) -> list[Worth]:
    """
    Return what speaks for each passage, comparable within one query only.

    ``spread`` is the standard deviation of the similarity over this corpus: the unit
    in which one model's cosines mean what another's do. Of equal passages of a page
    the earlier in ``signals`` goes first.
    """
    best: dict[str, float] = {}
    meanings = [one.meaning() for one in signals]
    lowest = min((m for m in meanings if m is not None), default=0.0)
    filled = [lowest if meaning is None else meaning for meaning in meanings]
    for one, meaning in zip(signals, filled, strict=True):
        best[one.path] = max(meaning, best.get(one.path, meaning))
    least = min((one.lead for one in signals if one.lead is not None), default=0.0)
    found = [
        _worth(one, meaning, best, least, spread)
        for one, meaning in zip(signals, filled, strict=True)
    ]
    return _with_repeats(signals, found)


def _with_repeats(signals: Sequence[Signals], found: Sequence[Worth]) -> list[Worth]:
    """Take off, from all but the best passage of a page, for those before it."""
    taken = list(found)
    before: Counter[str] = Counter()
    for i in sorted(range(len(found)), key=lambda i: (-found[i].total, i)):
        path = signals[i].path
        taken[i] = replace(found[i], repeats=0.0 - _REPEAT * before[path])
        before[path] += 1
    return taken


def _worth(
    one: Signals, meaning: float, best: Mapping[str, float], least: float, spread: float
) -> Worth:
    lead = least if one.lead is None else one.lead
    near = meaning + _PAGE_MEANING * best[one.path] + _LEAD * lead
    return Worth(
        meaning=near / spread,
        words=_WORDS * one.words,
        page=_PAGE_WORDS * one.page,
        substrings=_SUBSTRINGS * one.substrings,
    )
