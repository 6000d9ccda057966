"""
The sections of a document, and which of them are read together.

A section is a heading and what follows it up to the next heading; a heading inside a
quote or a list item opens none. Sections are joined only with neighbours under the
same parent, so that the topmost sections of a run are siblings.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from docs_rag.blocks import Block, BlockKind, BlockTree
from docs_rag.headings import Heading, number_slugs, read_heading
from docs_rag.lines import Lines
from docs_rag.records import Section

_ABOVE = {BlockKind.ANCHOR, BlockKind.HTML}


@dataclass(frozen=True, slots=True)
class Part:
    """
    A section with its blocks, the heading first, and the parts right below it.

    A part ``speaks`` if it holds text besides its heading, comments, anchors and the
    like; ``depth`` counts the parts above it.
    """

    section: Section
    blocks: Sequence[Block]
    depth: int
    speaks: bool
    children: list["Part"] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Outline:
    """The parts in document order, and those of them with no part above."""

    parts: tuple[Part, ...]
    roots: tuple[Part, ...]


def build_outline(tree: BlockTree, line_count: int) -> Outline:
    """Cut the top-level blocks into sections, nested by heading level."""
    openings = list(_openings(tree))
    slugs = number_slugs(heading.slug for heading, _ in openings if heading)
    ends = [blocks[0].heading_line - 1 for _, blocks in openings[1:]]
    parts: list[Part] = []
    above: list[Part] = []
    for (heading, blocks), end in zip(openings, [*ends, line_count], strict=False):
        level = blocks[0].level if heading else 0
        while above and above[-1].section.level >= level:
            above.pop()
        outer = above[-1].section.path if above else ()
        section = Section(
            path=(*outer, heading.title) if heading else (),
            slug=next(slugs) if heading else "",
            level=level,
            first_line=blocks[0].heading_line or blocks[0].first,
            last_line=end,
        )
        text = blocks[1:] if heading else blocks
        part = Part(section, blocks, len(above), not all(b.silent for b in text))
        if above:
            above[-1].children.append(part)
        above.append(part)
        parts.append(part)
    return Outline(tuple(parts), tuple(part for part in parts if part.depth == 0))


def _openings(tree: BlockTree) -> Iterator[tuple[Heading | None, list[Block]]]:
    """Yield each section's heading, if it has one, and its blocks."""
    heading: Heading | None = None
    blocks: list[Block] = []
    for block in tree.blocks:
        found = None
        if block.kind is BlockKind.HEADING:
            found = read_heading(block.source, tree.environment)
        # A heading without words has nothing to be cited by: its line stays text.
        if found and found.title:
            block = _with_anchors(blocks, block)
            if blocks:
                yield heading, blocks
            heading, blocks = found, [block]
        else:
            blocks.append(block)
    if blocks:
        yield heading, blocks


def _with_anchors(blocks: list[Block], heading: Block) -> Block:
    """
    Take anchors right above a heading, and the comments on them, from ``blocks``.

    They are the names that the heading had before.
    """
    start = len(blocks)
    while start and blocks[start - 1].silent and blocks[start - 1].kind in _ABOVE:
        start -= 1
    above = blocks[start:]
    if not any(block.kind is BlockKind.ANCHOR for block in above):
        return heading
    del blocks[start:]
    return replace(heading, first=above[0].first)


@dataclass(slots=True)
class Run:
    """Neighbouring parts that are packed together, and the size of their lines."""

    parts: list[Part]
    size: int


@dataclass(frozen=True, slots=True)
class RunBuilder:
    """
    Joins small sections with their neighbours.

    A section below ``min_chars`` takes in what follows, its first child or its next
    sibling with all below it, while both fit ``max_chars``; one that is still small at
    the end of its row goes to the sibling before it. A heading without text always
    takes its first child along. A neighbour too long for one chunk is joined where
    the two touch: it is cut into chunks in any case. ``lead_chars`` is what the first
    chunk holds besides lines.
    """

    lines: Lines
    outline: Outline
    max_chars: int
    min_chars: int
    lead_chars: int

    def runs(self) -> Iterator[Run]:
        """Yield the runs of the document in order."""
        row: list[list[Run]] = []
        self._add_siblings(row, self.outline.roots)
        return chain.from_iterable(self._joined_back(row, 0))

    def _group(self, part: Part) -> list[Run]:
        """Return the runs of a part and all below; one run if they are all joined."""
        row = [[Run([part], self._size(part, part))]]
        self._add_siblings(row, part.children)
        return list(chain.from_iterable(self._joined_back(row, part.depth + 1)))

    def _add_siblings(self, row: list[list[Run]], siblings: Iterable[Part]) -> None:
        for sibling in siblings:
            group = self._group(sibling)
            if row and len(row[-1]) == 1 and self._takes_in(row[-1][0], group[0]):
                self._join(row[-1][0], group[0])
                row[-1].extend(group[1:])
            else:
                row.append(group)

    def _joined_back(self, row: list[list[Run]], depth: int) -> list[list[Run]]:
        kept = row[:1]
        for group in row[1:]:
            previous = kept[-1]
            if len(group) == 1 and len(previous) == 1:
                left, right = previous[0], group[0]
                # Its last chunk must be of this row, not of a part below it.
                touching = left.parts[-1].depth <= depth
                if right.size < self.min_chars and self._may_join(
                    left, right, touching
                ):
                    self._join(left, right)
                    continue
            kept.append(group)
        return kept

    def _takes_in(self, left: Run, right: Run) -> bool:
        last, first = left.parts[-1], right.parts[0]
        if not last.speaks and last.depth < first.depth:
            return True
        return left.size < self.min_chars and self._may_join(left, right, True)

    def _may_join(self, left: Run, right: Run, touching: bool) -> bool:
        if max(left.size, right.size) > self.max_chars:
            return touching
        return self._size(left.parts[0], right.parts[-1]) <= self.max_chars

    def _join(self, left: Run, right: Run) -> None:
        left.parts.extend(right.parts)
        left.size = self._size(left.parts[0], left.parts[-1])

    def _size(self, first: Part, last: Part) -> int:
        size = self.lines.size(first.blocks[0].first, last.blocks[-1].last)
        return size + (self.lead_chars if first is self.outline.parts[0] else 0)
