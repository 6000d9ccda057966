"""
How much text a model reads, found by trying, and text cut to fit that.

The windows of a text together hold every character of it that is not blank.
"""

import bisect
import functools
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

from docs_rag.errors import EmbeddingError, TextRefusedError
from docs_rag.records import Capacity, Embedder

if TYPE_CHECKING:
    from docs_rag.records import Vectors

# Texts of up to this ``count`` are tried; no passage is near as long.
SEARCH_LIMIT = 4096

# Two vectors this close (L2) are the same: above the noise of half-precision
# arithmetic, and far below what the tail of 4,096 words changes (0.05).
SAME_VECTOR_DISTANCE = 1e-3
NOISE_FACTOR = 5

# Two tails of words that are one token each in any vocabulary.
_TAIL = " ".join(["is at on my to in if by"] * 4)
_OTHER_TAIL = " ".join(["we do so up he or go an"] * 4)

_WORDS = ("the", "old", "map", "of", "one", "red", "hill", "was", "not", "cut", "for")

# A word longer than this may be cut; shorter ones are cut only to fit a tiny window.
_LONGEST_WHOLE_WORD_CHARS = 12

# How far from a balanced cut a better place (line, sentence) is looked for.
_SLACK = 0.25

_ATOM = re.compile(
    rf"(?:[^\s。！？；]{{1,{_LONGEST_WHOLE_WORD_CHARS}}}|[。！？；]+)\s*"
)
_BLANK_LINE = re.compile(r"\n[^\S\n]*\n")
_SENTENCE_END = re.compile(r"(?:[.!?:;][\"')\]*_`]*\s+|[。！？；]\s*)$")


def english_words(word_count: int) -> str:
    """Return that many short words, each one token in any English vocabulary."""
    choices = (i * (i + 3) // 2 % len(_WORDS) for i in range(word_count))
    return " ".join(_WORDS[choice] for choice in choices)


def measure_capacity(
    count: Callable[[str], int],
    embed: Callable[[Sequence[str]], "Vectors"],
    fillers: Sequence[Callable[[int], str]] = (english_words,),
) -> Capacity:
    """
    Find vector width and window by embedding texts that differ only at the end.

    The window is the ``count`` of the longest filler after which a change was still
    seen, the shortest over all ``fillers``; None if no filler reached its end. A text
    that is refused (``TextRefusedError``) counts as not read to its end.
    """
    first, again, other = embed([_TAIL, _TAIL, _OTHER_TAIL])
    same = SAME_VECTOR_DISTANCE + NOISE_FACTOR * float(np.linalg.norm(first - again))
    if np.linalg.norm(first - other) <= same:
        raise EmbeddingError(
            "the embedding model returns the same vector for different texts"
        )

    def cut_off(filler: Callable[[int], str], word_count: int) -> bool:
        text = filler(word_count)
        try:
            one, two = embed([f"{text} {_TAIL}", f"{text} {_OTHER_TAIL}"])
        except TextRefusedError:
            return True
        return bool(np.linalg.norm(one - two) <= same)

    window: int | None = None
    for filler in fillers:
        limit = _words_within(filler, count, window or SEARCH_LIMIT)
        if not cut_off(filler, limit):
            continue
        reached = bisect.bisect_left(
            range(1, limit), True, key=functools.partial(cut_off, filler)
        )
        window = count(filler(reached))
    return Capacity(dimension=len(first), window=window)


def _words_within(
    filler: Callable[[int], str], count: Callable[[str], int], window: int
) -> int:
    """Return how many words of ``filler`` fit ``window``."""
    sizes = range(1, SEARCH_LIMIT)
    return bisect.bisect_right(sizes, window, key=lambda size: count(filler(size)))


def split_windows(
    embedder: Embedder, capacity: Capacity, context: str, text: str
) -> tuple[str, ...]:
    """
    Cut ``text`` into as few, balanced windows as fit, each led by ``context``.

    Cuts fall between paragraphs, lines, sentences or words where one is near, and
    inside a word only where nothing else is. A context of more than a third of the
    window loses its beginning.
    """
    whole = _join(context, text)
    if capacity.window is None or not text.strip():
        return (whole,) if whole else ()
    total = embedder.count(whole)
    if total <= capacity.window:
        return (whole,)
    fitting = _Fitting(embedder.count, capacity.window, context)
    return tuple(fitting.windows(text.strip()))


def _join(context: str, text: str) -> str:
    return "\n".join(part for part in (context.strip(), text.strip()) if part)


@dataclass(frozen=True, slots=True)
class _Cut:
    """A place where a text may be cut: ``cost`` is the length in front of it."""

    offset: int
    cost: float
    strength: int


class _Fitting:
    """One text being cut: the window, and what the context leaves of it."""

    def __init__(self, count: Callable[[str], int], window: int, context: str) -> None:
        self._count = functools.cache(count)
        self._window = window
        self._context = self._shorten(context.strip(), window // 3)

    def windows(self, text: str) -> Iterator[str]:
        """Yield the windows of ``text``, which is too long for one."""
        start = 0
        for end in _balanced_cuts(self._cuts(text), self._budget()):
            yield from self._halves(text[start:end].strip())
            start = end

    def _budget(self) -> int:
        """Return what a window holds beside the context and any special tokens."""
        return max(1, self._window - self._count(self._context + "\n"))

    def _shorten(self, context: str, limit: int) -> str:
        """Return the end of ``context`` within ``limit``: it is the most specific."""
        empty = self._count("")
        if self._count(context) - empty <= limit:
            return context
        starts = range(len(context) + 1)
        start = bisect.bisect_left(
            starts, True, key=lambda i: self._count(context[i:]) - empty <= limit
        )
        return context[start:].strip()

    def _cuts(self, text: str) -> list[_Cut]:
        """Return every place to cut, with the length of the text before each."""
        atoms = _ATOM.findall(text)
        empty = self._count("")
        costs = [max(0, self._count(atom.strip()) - empty) for atom in atoms]
        # Atoms counted one by one may add up to less than the text they form.
        scale = max(1.0, (self._count(text) - empty) / max(1, sum(costs)))
        offsets = accumulate(map(len, atoms))
        return [
            _Cut(offset, cost * scale, _strength(atom))
            for offset, cost, atom in zip(
                offsets, accumulate(costs), atoms, strict=True
            )
        ]

    def _halves(self, piece: str) -> Iterator[str]:
        """Yield ``piece`` as a window, or its halves where the estimate was wrong."""
        window = _join(self._context, piece)
        if len(piece) <= 1 or self._count(window) <= self._window:
            if piece:
                yield window
            return
        middle = len(piece) // 2
        space = piece.rfind(" ", 1, middle)
        middle = space if space > middle // 2 else middle
        yield from self._halves(piece[:middle].strip())
        yield from self._halves(piece[middle:].strip())


def _strength(atom: str) -> int:
    """Rank the place after ``atom``: paragraph, line, sentence, word, inside one."""
    if _BLANK_LINE.search(atom):
        return 4
    if "\n" in atom:
        return 3
    if _SENTENCE_END.search(atom):
        return 2
    return 1 if atom[-1].isspace() else 0


def _balanced_cuts(cuts: list[_Cut], budget: float) -> Iterator[int]:
    """Yield the offsets to cut at: as few parts within ``budget`` as can be, alike."""
    costs = [cut.cost for cut in cuts]
    total = costs[-1]
    index, done = 0, 0.0
    while index < len(cuts):
        parts = math.ceil((total - done) / budget)
        if parts <= 1:
            yield cuts[-1].offset
            return
        size = (total - done) / parts
        ideal = done + size
        # Not so early that the rest would need one part more.
        earliest = max(ideal - _SLACK * size, total - budget * (parts - 1))
        first = bisect.bisect_left(costs, earliest, index)
        last = bisect.bisect_right(costs, done + budget, index)
        choices = range(first, last) or range(
            max(index, last - 1), max(index + 1, last)
        )
        best = max(choices, key=lambda i: (cuts[i].strength, -abs(costs[i] - ideal)))
        yield cuts[best].offset
        index, done = best + 1, costs[best]
