"""
Vectors in memory, in blocks that never change, so that generations share them.

A new generation marks what is gone and adds what is new; readers of the one before
keep theirs. Pure: candidates by their signs are compared by whoever has the vectors.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from docs_rag import sketches

Vectors = npt.NDArray[np.float32]
Ids = npt.NDArray[np.int64]
# Arrays with a row for each vector; which, is the form's to say.
Columns = tuple[npt.NDArray[Any], ...]
Scores = npt.NDArray[np.float32]

# Rows of a block: its signs fit into a processor's cache, and a few blocks more or
# less cost a generation nothing.
BLOCK_ROWS = 16_384
# An id, and whether it is live; and what the signs are multiplied by.
_ROW_BYTES, _SCALE_BYTES = 9, 2
# Vectors that are compared exactly, for each neighbour asked for, at least, and at
# most beyond their number; chosen by estimate among so many times more by distance, and
# one in so many of all. eval/bench measures what that leaves out.
_COMPARED_EACH, _LEAST_COMPARED, _MOST_EXTRA_COMPARED = 4, 1_024, 4_096
_ESTIMATED_EACH, _ESTIMATED_SHARE = 8, 64

Fetch = Callable[[list[int]], Vectors]


@dataclass(frozen=True, slots=True)
class Exact:
    """Whole vectors: 4 x dimension bytes each; their cosines are exact."""

    name = "resident"

    @staticmethod
    def bytes_of(count: int, dimension: int) -> int:
        """Return the memory that so many vectors take."""
        return count * (4 * dimension + _ROW_BYTES)

    def pack(self, vectors: Vectors) -> Columns:
        """Return vectors (count, dimension) as this form keeps them."""
        return (vectors,)

    def tidy(self, column: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return a column in the order in memory that it is read in."""
        return column


@dataclass(frozen=True, slots=True)
class Signs:
    """One bit a dimension, seen from ``centre``, and a scale: no cosines."""

    centre: Vectors
    name = "resident-signs"

    @staticmethod
    def bytes_of(count: int, dimension: int) -> int:
        """Return the memory that so many vectors take."""
        signs = 8 * sketches.words_per_vector(dimension)
        return count * (signs + _SCALE_BYTES + _ROW_BYTES)

    def pack(self, vectors: Vectors) -> Columns:
        """Return vectors (count, dimension) as this form keeps them."""
        return (
            sketches.signs(vectors, self.centre),
            sketches.scales(vectors, self.centre),
        )

    def tidy(self, column: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return a column in the order in memory that it is read in: word by word."""
        return np.asfortranarray(column)


Form = Exact | Signs


@dataclass(frozen=True, slots=True)
class Block:
    """Some vectors: ``ids`` ascending, their columns, and which are ``live``."""

    ids: Ids
    columns: Columns
    live: npt.NDArray[np.bool_]

    def joined(self, other: "Block", form: Form) -> "Block":
        """
        Return what is live in this block, and ``other``, as one, by id.

        A vector that is used again is there twice, once marked as gone: never in one
        block, where an id is looked up.
        """
        ids = np.concatenate([self.ids[self.live], other.ids])
        order = np.argsort(ids)
        columns = (
            form.tidy(np.concatenate([mine[self.live], others])[order])
            for mine, others in zip(self.columns, other.columns, strict=True)
        )
        return Block(ids[order], tuple(columns), np.ones(len(ids), dtype=np.bool_))

    def without(self, gone: Ids) -> "Block":
        """Return this block with those of ``gone`` that it holds marked."""
        places = np.searchsorted(self.ids, gone)
        held = places < len(self.ids)
        held[held] = self.ids[places[held]] == gone[held]
        if not self.live[places[held]].any():
            return self
        live = self.live.copy()
        live[places[held]] = False
        return replace(self, live=live)

    def compacted(self, form: Form) -> "Block":
        """Return only what is live, where that is less than half."""
        if 2 * np.count_nonzero(self.live) >= len(self.ids):
            return self
        columns = (form.tidy(column[self.live]) for column in self.columns)
        return Block(self.ids[self.live], tuple(columns), self.live[self.live])


@dataclass(frozen=True, slots=True)
class Shelf:
    """All vectors of one generation, in one form."""

    form: Form
    blocks: tuple[Block, ...] = ()

    def __len__(self) -> int:
        return sum(int(np.count_nonzero(block.live)) for block in self.blocks)

    @property
    def size_bytes(self) -> int:
        """Memory that the blocks take."""
        return sum(
            sum(part.nbytes for part in (block.ids, block.live, *block.columns))
            for block in self.blocks
        )

    def without(self, gone: Ids) -> "Shelf":
        """Return the shelf without the vectors of these ascending ids."""
        if not len(gone):
            return self
        blocks = (block.without(gone).compacted(self.form) for block in self.blocks)
        return replace(self, blocks=tuple(block for block in blocks if len(block.ids)))

    def plus(self, ids: Ids, vectors: Vectors) -> "Shelf":
        """Return the shelf with vectors (count, dimension) of ascending ids added."""
        if not len(ids):
            return self
        new = Block(ids, self.form.pack(vectors), np.ones(len(ids), dtype=np.bool_))
        last = self.blocks[-1] if self.blocks else None
        # Into the last block, so that small generations do not become as many blocks.
        if last is None or np.count_nonzero(last.live) + len(ids) > BLOCK_ROWS:
            return replace(self, blocks=(*self.blocks, new))
        return replace(self, blocks=(*self.blocks[:-1], last.joined(new, self.form)))

    def nearest(
        self, query: Vectors, count: int, fetch: Fetch
    ) -> list[tuple[int, float]]:
        """
        Return up to ``count`` (vector id, cosine), best first, ties by id.

        ``fetch`` returns the vectors (count, dimension) of ascending ids: asked for
        the candidates where only signs are kept, so that what is returned is exact.
        """
        if not self.blocks or count < 1:
            return []
        if isinstance(self.form, Signs):
            candidates = self._candidates(self.form, query, count)
            cosines = fetch([int(i) for i in candidates]) @ query
        else:
            candidates = np.concatenate([block.ids for block in self.blocks])
            cosines = np.concatenate(
                [
                    np.where(block.live, block.columns[0] @ query, -np.inf)
                    for block in self.blocks
                ]
            )
        return best(candidates, cosines, min(count, len(self), len(candidates)))

    def _candidates(self, form: Signs, query: Vectors, count: int) -> Ids:
        """Return the ids, ascending, of the vectors whose signs differ least."""
        bits = sketches.signs(query[np.newaxis], form.centre)[0]
        found = np.concatenate(
            [
                np.where(
                    block.live,
                    sketches.distances(block.columns[0], bits),
                    sketches.FARTHEST,
                )
                for block in self.blocks
            ]
        )
        wanted = max(_LEAST_COMPARED, _COMPARED_EACH * count)
        wanted = min(wanted, count + _MOST_EXTRA_COMPARED)
        wide = max(_ESTIMATED_EACH * wanted, len(found) // _ESTIMATED_SHARE)
        ids, (rows, scales) = self._at(sketches.closest(found, wide))
        fit = sketches.estimates(rows, scales, query)
        kept = best(ids, fit, min(wanted, len(ids)))
        return np.array(sorted(i for i, _ in kept), dtype=np.int64)

    def _at(self, places: npt.NDArray[np.intp]) -> tuple[Ids, Columns]:
        """Return ids and columns at these ascending places, counted over all blocks."""
        starts = np.cumsum([0, *(len(block.ids) for block in self.blocks)])
        parts = np.searchsorted(places, starts)
        chosen = [
            (block.ids[some], *(column[some] for column in block.columns))
            for block, start, first, last in zip(
                self.blocks, starts, parts, parts[1:], strict=False
            )
            if len(some := places[first:last] - start)
        ]
        ids, *columns = map(np.concatenate, zip(*chosen, strict=True))
        return ids, tuple(columns)


def best(ids: Ids, cosines: Scores, count: int) -> list[tuple[int, float]]:
    """Return the ``count`` greatest (id, cosine), best first, ties by id."""
    if count < 1:
        return []
    # Everything at or above the count-th value, so that ties are cut by id.
    floor = np.partition(cosines, len(ids) - count)[len(ids) - count]
    kept = np.flatnonzero(cosines >= floor)
    order = kept[np.lexsort((ids[kept], -cosines[kept]))][:count]
    return [(int(ids[i]), float(cosines[i])) for i in order]
