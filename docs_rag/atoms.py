"""
The smallest pieces that cutting leaves whole, with what a cut before each would cost.

A block that fits a chunk is one atom. A list is never one: its items are. A block that
does not fit falls into its children, and a block without children into its lines.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from docs_rag.blocks import Block, BlockKind
from docs_rag.lines import Lines

# On this scale a chunk that is twice its fair share costs 2, half of it 0.5.
AFTER_HEAD = 100.0
IN_FOOTNOTE_REACH = 5.0
AFTER_OPENER = 1.2
BETWEEN_LINES = 0.7
AFTER_SENTENCE = 0.5
BETWEEN_CHILDREN = 0.35
AFTER_BLANK = 0.3
BETWEEN_ROWS = 0.3
BEFORE_CONTINUATION = 0.15
BEFORE_SECTION = -0.2

_CONTINUATIONS = {
    BlockKind.LIST,
    BlockKind.QUOTE,
    BlockKind.TABLE,
    BlockKind.FENCE,
    BlockKind.CODE,
}
_VERBATIM = {BlockKind.TABLE, BlockKind.FENCE, BlockKind.CODE}
# `as follows:`, `:::note`, `/// tip | Title`, `<Listing number="1">`
_OPENER = re.compile(
    r".*[:：][*_`]*\s*|\s*(?:::+|//+)[:/]\s*[^\s:/].*|\s*<\w[^<>]*(?<!/)>\s*"
)
_CLOSER = re.compile(r"\s*(?::{3,}|/{3,}|</[\w.-]+>)\s*")
_SENTENCE = re.compile(r".*[.!?…。！？][)\]\"'»”’*_`]*\s*")
_NOTE_LABEL = re.compile(r"\[\^([^\]\s]+)\]")


@dataclass(slots=True)
class Atom:
    """
    Lines that stay together.

    ``cost`` is that of starting a chunk here. ``lead`` is repeated by a chunk that
    starts here, ``tail`` is added to one that ends here. ``owner`` is the block that
    was too long for a chunk: its atoms may be repeated across a cut. ``keeps_next``
    marks what is nothing by itself: a heading, a fence's opening, a table's header.
    """

    first: int
    last: int
    cost: float
    lead: str = ""
    tail: str = ""
    owner: Block | None = None
    keeps_next: bool = False


def build_atoms(
    lines: Lines, blocks: Sequence[Block], max_chars: int, lead_chars: int
) -> list[Atom]:
    """Cut the blocks of a run into atoms; ``lead_chars`` stand before the first."""
    builder = _Builder(lines, max_chars)
    previous: Block | None = None
    start, reserved = blocks[0].first, lead_chars
    for block in blocks:
        if previous and previous.kind is not BlockKind.HEADING:
            start, reserved = block.first, 0
        # Headings above are in the same chunk, and leave less room for this block.
        room = max_chars - reserved - lines.distance(start, block.first)
        limit = room if room >= max_chars // 2 else max_chars
        builder.add(block, limit, _cost_between(lines, previous, block), None)
        previous = block
    _bind_footnotes(lines, blocks, builder.atoms, max_chars)
    return builder.atoms


class _Builder:
    def __init__(self, lines: Lines, max_chars: int) -> None:
        self.atoms: list[Atom] = []
        self._lines = lines
        self._max_chars = max_chars

    def add(self, block: Block, limit: int, cost: float, owner: Block | None) -> None:
        """Add a block; its first atom costs ``cost``, and ``limit`` is what fits."""
        is_list = block.kind is BlockKind.LIST
        tail = block.open_tail()
        size = self._lines.size(block.first, block.last) + len(tail) + bool(tail)
        if not is_list and size <= limit:
            heading = block.kind is BlockKind.HEADING
            self.atoms.append(
                Atom(block.first, block.last, cost, "", tail, owner, heading)
            )
        elif block.children:
            inner = owner if is_list else block
            self.add(block.children[0], limit, cost, inner)
            for previous, child in pairwise(block.children):
                cost = max(
                    BETWEEN_CHILDREN, _cost_between(self._lines, previous, child)
                )
                self.add(child, self._max_chars, cost, inner)
        else:
            self._add_lines(block, cost)

    def _add_lines(self, block: Block, cost: float) -> None:
        table = block.kind is BlockKind.TABLE
        heading = block.kind is BlockKind.HEADING
        lead, tail = self._frame(block)
        number = block.first
        while number <= block.last:
            self.atoms.append(
                Atom(
                    first=number,
                    last=number,
                    cost=cost,
                    lead=lead if block.is_open_before(number) else "",
                    tail=tail if block.is_open_after(number) else "",
                    owner=None if table else block,
                    keeps_next=heading or number <= block.head_last,
                )
            )
            if number == block.last:
                break
            following = self._lines.next_solid(number + 1)
            cost = self._line_cost(block, number, following)
            number = following

    def _frame(self, block: Block) -> tuple[str, str]:
        """Return lead and tail, or less where they would leave no room for lines."""
        table = block.kind is BlockKind.TABLE
        if len(block.lead) + len(block.tail) <= self._max_chars // (2 if table else 4):
            return block.lead, block.tail
        mark = block.tail.strip(" >")
        return (mark, mark) if len(mark) <= self._max_chars // 8 else ("", "")

    def _line_cost(self, block: Block, number: int, following: int) -> float:
        if number <= block.head_last or following == block.foot:
            return AFTER_HEAD
        if following > number + 1:
            return AFTER_BLANK
        if block.kind is BlockKind.TABLE:
            return BETWEEN_ROWS
        ended = block.kind not in _VERBATIM and _SENTENCE.fullmatch(
            self._lines.line(number)
        )
        return AFTER_SENTENCE if ended else BETWEEN_LINES


def _cost_between(lines: Lines, previous: Block | None, block: Block) -> float:
    if previous is None:
        return 0.0
    if previous.kind is BlockKind.HEADING:
        return AFTER_HEAD
    if block.kind is BlockKind.HEADING:
        return BEFORE_SECTION
    before, after = lines.line(previous.last), lines.line(block.first)
    opened = previous.kind not in _VERBATIM and _OPENER.fullmatch(before)
    # `:::` ends with a colon, too.
    if _CLOSER.fullmatch(after) or (opened and not _CLOSER.fullmatch(before)):
        return AFTER_OPENER
    continues = block.silent or block.kind in _CONTINUATIONS
    return BEFORE_CONTINUATION if continues else 0.0


def _bind_footnotes(
    lines: Lines, blocks: Sequence[Block], atoms: list[Atom], max_chars: int
) -> None:
    """Make cuts dear between a footnote and the sentence that cites it."""
    notes = {block.first: block for block in blocks if block.kind is BlockKind.FOOTNOTE}
    if not notes:
        return
    cited: dict[str, int] = {}
    reach_ends = [0] * len(atoms)
    for position, atom in enumerate(atoms):
        labels = _NOTE_LABEL.findall(lines.text(atom.first, atom.last))
        if labels and (note := notes.get(atom.first)):
            start = cited.get(labels.pop(0), position)
            if lines.size(atoms[start].first, note.last) <= max_chars:
                reach_ends[start] = position
        cited.update(dict.fromkeys(labels, position))
    reach = 0
    for position, atom in enumerate(atoms):
        if position <= reach:
            atom.cost += IN_FOOTNOTE_REACH
        reach = max(reach, reach_ends[position])
