"""
From ranked chunks to the hits of an answer: collapsed, merged, fresh and bounded.

``k`` bounds the hits and ``max_chars`` their text, and whatever was left out for
either reason or any other is listed.
"""

import hashlib
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import quote

from docs_rag.freshness import Freshness, FreshnessCheck
from docs_rag.lexical import fold
from docs_rag.ranking import Fused
from docs_rag.records import Hit, Omitted, Ranks
from docs_rag.schema import StoredChunk

# Two passages that share this much of their words are copies of one another: pages
# of two versions, a paragraph pasted with another date.
_NEAR_DUPLICATE = 0.9
# A text with fewer blanks than this is compared by pairs of characters.
_LONG_WORD_CHARS = 20
# Passages grow together, over headings too, but not into the whole of a long page.
_MAX_MERGED_CHARS = 3600
# How many files that are gone an answer names before it only counts.
_NAMED_GONE = 10
# Longer slugs (of a heading that is a whole paragraph) are cut in addresses.
_MAX_SLUG_CHARS = 200


@dataclass(slots=True, eq=False)
class _Group:
    """Adjacent chunks of one page that become one hit, ranked as ``best`` is."""

    fused: Fused[int]
    best: StoredChunk
    chunks: list[StoredChunk]
    fresh: Freshness
    also_at: set[str] = field(default_factory=set)

    @property
    def text(self) -> str:
        return _joined(self.chunks)


@dataclass(frozen=True, slots=True)
class Assembly:
    """The hits, what was left out, and whether any file could not be checked."""

    hits: tuple[Hit, ...]
    omitted: tuple[Omitted, ...]
    unchecked: bool
    is_short: bool


def assemble(
    corpus: str,
    order: Iterable[Fused[int]],
    chunks: Mapping[int, StoredChunk],
    similarities: Mapping[int, float],
    freshness: FreshnessCheck,
    k: int,
    max_chars: int,
) -> Assembly:
    """
    Turn ranked chunk ids into at most ``k`` hits of ``max_chars`` text in all.

    The first hit is whole even where it alone is longer.
    """
    shelf = _Shelf(k, min(_MAX_MERGED_CHARS, max_chars))
    gone: dict[str, StoredChunk] = {}
    for fused in order:
        chunk = chunks[fused.key]
        fresh = freshness.of(chunk)
        if fresh is Freshness.GONE:
            gone.setdefault(chunk.path, chunk)
        elif not shelf.take(_Group(fused, chunk, [chunk], fresh)):
            break
    hits: list[Hit] = []
    omitted = _omit_gone(list(gone.values()))
    used = 0
    for group in shelf.groups:
        hit = _hit(corpus, group, similarities)
        if hits and used + len(hit.text) > max_chars:
            reason = f"left out to keep the answer under {max_chars} characters"
            omitted.append(Omitted(hit.path, hit.first_line, hit.last_line, reason))
            continue
        used += len(hit.text)
        hits.append(hit)
    return Assembly(
        hits=tuple(hits),
        omitted=tuple(omitted),
        unchecked=any(group.fresh is Freshness.UNKNOWN for group in shelf.groups),
        is_short=len(shelf.groups) < k,
    )


class _Shelf:
    """The groups so far, best first; takes in copies and continuations of them."""

    def __init__(self, size: int, max_group_chars: int) -> None:
        self.groups: list[_Group] = []
        self._size = size
        self._max_group_chars = max_group_chars
        self._vocabularies: dict[int, frozenset[str]] = {}

    def take(self, new: _Group) -> bool:
        """Find a place for a group of one chunk; False where there is none."""
        for group in self.groups:
            if any(self._is_copy(chunk, new.best) for chunk in group.chunks):
                group.also_at |= {new.best.path} - {group.best.path}
                return True
        if len(self.groups) == self._size:
            return False
        self.groups.append(new)
        self._merge_adjacent(new)
        return True

    def _merge_adjacent(self, grown: _Group) -> None:
        """Let ``grown`` take in what it continues, or be taken in, on either side."""
        for group in [group for group in self.groups if group is not grown]:
            together = _in_sequence(group.chunks, grown.chunks)
            if together and len(_joined(together)) <= self._max_group_chars:
                # The better one stays: it stands before the other.
                kept, left = sorted((group, grown), key=self.groups.index)
                kept.chunks = together
                kept.also_at |= left.also_at
                self.groups.remove(left)
                grown = kept

    def _is_copy(self, first: StoredChunk, second: StoredChunk) -> bool:
        if first.body == second.body:
            return True
        if first.path == second.path:
            return False
        shorter, longer = sorted((len(first.body), len(second.body)))
        if shorter < _NEAR_DUPLICATE * longer:
            return False
        one, two = self._vocabulary(first), self._vocabulary(second)
        return len(one & two) >= _NEAR_DUPLICATE * len(one | two)

    def _vocabulary(self, chunk: StoredChunk) -> frozenset[str]:
        if chunk.id not in self._vocabularies:
            text = fold(chunk.body)
            parts = frozenset(text.split())
            if len(text) > _LONG_WORD_CHARS * len(parts):
                parts = frozenset(map("".join, itertools.pairwise(text)))
            self._vocabularies[chunk.id] = parts
        return self._vocabularies[chunk.id]


def _in_sequence(
    first: list[StoredChunk], second: list[StoredChunk]
) -> list[StoredChunk]:
    """Return both in document order where one continues the other, or nothing."""
    if first[0].ordinal > second[0].ordinal:
        first, second = second, first
    before, after = first[-1], second[0]
    if before.path != after.path:
        return []
    # Pieces of one long line overlap inside that line, where no line number tells.
    if before.ordinal + 1 != after.ordinal or before.last_line == after.last_line:
        return []
    return [*first, *second]


def _joined(chunks: Sequence[StoredChunk]) -> str:
    """Return the text of adjacent chunks: each line once, blank ones between them."""
    lines = chunks[0].body.split("\n")
    for before, after in itertools.pairwise(chunks):
        missing = after.first_line - before.last_line - 1
        lines += [""] * missing + after.body.split("\n")[max(-missing, 0) :]
    parts = (chunks[0].lead, "\n".join(lines), chunks[-1].tail)
    return "\n".join(part for part in parts if part)


def _hit(corpus: str, group: _Group, similarities: Mapping[int, float]) -> Hit:
    best = group.best
    found = [similarities[c.id] for c in group.chunks if c.id in similarities]
    ranks = group.fused.ranks
    return Hit(
        id=document_id(corpus, best.path, best.slug),
        path=best.path,
        heading=best.heading or best.title,
        first_line=group.chunks[0].first_line,
        last_line=group.chunks[-1].last_line,
        text=group.text,
        similarity=round(max(found), 4) if found else None,
        ranks=Ranks(ranks.get("vector"), ranks.get("words"), ranks.get("trigrams")),
        rrf_score=round(group.fused.score, 6),
        stale=group.fresh is Freshness.STALE,
        also_at=tuple(sorted(group.also_at)),
    )


def short_slug(slug: str) -> str:
    """Return ``slug`` as addresses have it: a long one ends in a digest of it."""
    if len(slug) <= _MAX_SLUG_CHARS:
        return slug
    digest = hashlib.sha256(slug.encode()).hexdigest()[:8]
    return f"{slug[:_MAX_SLUG_CHARS]}-{digest}"


def document_id(corpus: str, path: str, slug: str = "") -> str:
    """Return the address of a document or one of its sections."""
    fragment = f"#{quote(short_slug(slug), safe='')}" if slug else ""
    return f"docs-rag://{corpus}/{quote(path)}{fragment}"


def _omit_gone(chunks: Sequence[StoredChunk]) -> list[Omitted]:
    reasons = ["the file is gone since it was indexed"] * min(len(chunks), _NAMED_GONE)
    if len(chunks) > _NAMED_GONE:
        reasons[-1] += f", and so are {len(chunks) - _NAMED_GONE} more"
    return [
        Omitted(chunk.path, chunk.first_line, chunk.last_line, reason)
        for chunk, reason in zip(chunks, reasons, strict=False)
    ]
