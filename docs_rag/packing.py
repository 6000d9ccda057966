"""
A run of sections cut into spans of whole lines that fit a chunk.

Blocks that fit are never cut. One that does not is cut between its children or lines,
and the span after the cut repeats a few lines, the opening of a fence or the header
of a table. Only a line longer than a chunk is cut within.

Cutting is greedy: each cut is made at the cheapest place near an even share of what
is left. An atom is weighed only by the few chunks it could belong to, so that the time
is linear.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil

from docs_rag.atoms import Atom
from docs_rag.lines import Lines, is_visible

MAX_EXCERPT_CHARS = 300
MIN_EXCERPT_CHARS = 40

_SENTENCE_END = re.compile(r"[.!?…][)\]\"'»”’*_`]*\s|[。！？；]")
_SPACE = re.compile(r"\s")
# Marks, selectors and modifiers belong to the character before them.
_EXTENDING = re.compile(
    "[\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u064b-\u065f\u0900-\u0903\u093a-\u094f"
    "\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u1ab0-\u1aff\u1dc0-\u1dff\u200d\u20d0-\u20ff"
    "\u3099\u309a\ufe00-\ufe0f\ufe20-\ufe2f\U0001f3fb-\U0001f3ff\U000e0100-\U000e01ef]"
)
_JOINER = "\u200d"
_MAX_CLUSTER_CHARS = 40


@dataclass(frozen=True, slots=True)
class Span:
    """Lines that make a chunk; ``body`` is set where it is a part of one line only."""

    first: int
    last: int
    lead: str = ""
    tail: str = ""
    body: str | None = None


@dataclass(frozen=True, slots=True)
class Packer:
    """Cuts atoms into spans; ``lead`` stands before the first of them."""

    lines: Lines
    atoms: list[Atom]
    max_chars: int
    overlap_chars: int
    lead: str = ""

    def spans(self) -> Iterator[Span]:
        """Yield the spans in order."""
        start = 0
        for end in self._stretch_ends():
            while start < end:
                if self._size(start, start) > self.max_chars:
                    yield from self._pieces(start)
                    stop = start + 1
                else:
                    stop, repeated = self._next_cut(start, end)
                    yield self._span(start - repeated, stop)
                start = stop

    def _stretch_ends(self) -> Iterator[int]:
        """Yield where lines that are too long interrupt the atoms, and the end."""
        for index in range(len(self.atoms)):
            if self._size(index, index) > self.max_chars:
                yield index
                yield index + 1
        yield len(self.atoms)

    def _size(self, start: int, last: int) -> int:
        return self.lines.size(self.atoms[start].first, self.atoms[last].last)

    def _lead(self, start: int) -> str:
        return self.lead if start == 0 else self.atoms[start].lead

    def _extra(self, start: int, stop: int) -> int:
        """Count the characters of lead and tail, line ends included."""
        lead, tail = self._lead(start), self.atoms[stop - 1].tail
        return sum(len(part) + 1 for part in (lead, tail) if part)

    def _next_cut(self, start: int, end: int) -> tuple[int, int]:
        """Return where the span from ``start`` stops, and how many atoms it repeats."""
        repeated = self._repeatable(start)
        if self._size(start, end - 1) + self._extra(start, end) <= self.max_chars:
            stop = end
        else:
            stop = self._cheapest_cut(start, end, repeated)
        while repeated and (
            self._size(start - repeated, stop - 1) + self._extra(start - repeated, stop)
            > self.max_chars
        ):
            repeated -= 1
        return stop, repeated

    def _cheapest_cut(self, start: int, end: int, repeated: int) -> int:
        atoms = self.atoms
        overlap = self.lines.distance(atoms[start - repeated].first, atoms[start].first)
        left = self._size(start, end - 1) + self._extra(start, end)
        room = self.max_chars - overlap
        fair = left / ceil(left / room)
        best_stop, best_cost = start + 1, float("inf")
        for stop in range(start + 1, end):
            if self._size(start, stop - 1) > room:
                break
            size = self._size(start, stop - 1) + self._extra(start, stop)
            if size > room:
                continue
            cost = atoms[stop].cost + 2 * (size / fair - 1) ** 2
            if cost <= best_cost:
                best_stop, best_cost = stop, cost
        return best_stop

    def _repeatable(self, start: int) -> int:
        """Count the atoms before ``start`` that may be repeated in front of it."""
        owner = self.atoms[start].owner
        count = 0
        while (
            owner is not None
            and start > count
            and self.atoms[start - count - 1].owner is owner
            and self._size(start - count - 1, start - 1) <= self.overlap_chars
        ):
            count += 1
        return count

    def _span(self, start: int, stop: int) -> Span:
        last = self.atoms[stop - 1]
        tail = last.tail
        if last.keeps_next and stop < len(self.atoms):
            excerpt = self._excerpt(start, stop)
            tail = "\n".join(part for part in (excerpt, tail) if part)
        return Span(self.atoms[start].first, last.last, self._lead(start), tail)

    def _excerpt(self, start: int, stop: int) -> str:
        """Begin the line that a heading could not keep, lest it stand alone."""
        following = self.atoms[stop]
        # Not the opening of a fence, and not a part of a table's row.
        framed = bool(following.lead) == bool(following.tail)
        if following.first != following.last or not framed:
            return ""
        text = self.lines.line(following.first).strip()
        used = self._size(start, stop - 1) + self._extra(start, stop) + 3
        room = min(MAX_EXCERPT_CHARS, self.max_chars - used)
        if room < MIN_EXCERPT_CHARS:
            return ""
        count = len(text) if len(text) <= room else _cut_point(text, 0, room, room)
        return text[:count].rstrip() + " …"

    def _pieces(self, index: int) -> Iterator[Span]:
        """Cut one long line into spans of its own."""
        atom = self.atoms[index]
        lead = self._lead(index)
        extra = sum(len(part) + 1 for part in (lead, atom.tail) if part)
        for body in cut_line(self.lines.line(atom.first), self.max_chars - extra):
            yield Span(atom.first, atom.first, lead, atom.tail, body)
            lead = atom.lead


def cut_line(text: str, room: int) -> Iterator[str]:
    """Cut a line into pieces of at most ``room`` characters, of about even length."""
    start, end = 0, len(text.rstrip())
    while start < end:
        left = end - start
        if left <= room:
            stop = end
        else:
            stop = start + _cut_point(text, start, room, ceil(left / ceil(left / room)))
        piece = text[start:stop].strip()
        if is_visible(piece):
            yield piece
        start = stop


def _cut_point(text: str, start: int, room: int, fair: int) -> int:
    """Return how many characters to take, up to the end of a sentence or a word."""
    window = text[start : start + min(room, fair * 5 // 4)]
    near = fair * 3 // 5
    # A blank near the start is that of a list marker: alone it is no passage.
    for pattern, earliest in (
        (_SENTENCE_END, near),
        (_SPACE, near),
        (_SPACE, near // 3),
    ):
        if ends := [found.end() for found in pattern.finditer(window, earliest)]:
            return min(ends, key=lambda end: abs(end - fair))
    return _cluster_end(text, start, min(room, fair))


def _cluster_end(text: str, start: int, count: int) -> int:
    """Step back from the midst of a character that is written as several."""
    for back in range(min(_MAX_CLUSTER_CHARS, count - 1)):
        stop = start + count - back
        if not _EXTENDING.match(text, stop) and text[stop - 1] != _JOINER:
            return count - back
    return count
