"""
From ranked chunks to the hits of an answer: collapsed, merged, fresh and bounded.

``k`` bounds the hits and ``max_chars`` their text, and whatever was left out for
either reason or any other is listed.
"""

import itertools
from collections.abc import Iterable, Mapping
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
# Passages grow together over a section, but not into the whole page.
_MAX_MERGED_CHARS = 3600


@dataclass(slots=True)
class _Group:
    """Adjacent chunks of one section that become one hit; the first is the best."""

    fused: Fused[int]
    chunks: list[StoredChunk]
    fresh: Freshness
    also_at: list[str] = field(default_factory=list)

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
    """Turn ranked chunk ids into at most ``k`` hits of ``max_chars`` text in all."""
    groups: list[_Group] = []
    omitted: list[Omitted] = []
    gone: set[str] = set()
    for fused in order:
        chunk = chunks[fused.key]
        fresh = freshness.of(chunk)
        if fresh is Freshness.GONE:
            if chunk.path not in gone:
                omitted.append(_omit(chunk, "the file is gone since it was indexed"))
            gone.add(chunk.path)
        elif _absorbed(groups, chunk, full=len(groups) == k):
            continue
        elif len(groups) == k:
            break
        else:
            groups.append(_Group(fused, [chunk], fresh))
    hits: list[Hit] = []
    used = 0
    for group in groups:
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
        unchecked=any(group.fresh is Freshness.UNKNOWN for group in groups),
        is_short=len(groups) < k,
    )


def _absorbed(groups: list[_Group], chunk: StoredChunk, *, full: bool) -> bool:
    """Let an earlier hit take the chunk in: as a copy, or as its continuation."""
    for group in groups:
        best = group.chunks[0]
        if _is_copy(best, chunk):
            if chunk.path != best.path and chunk.path not in group.also_at:
                group.also_at.append(chunk.path)
            return True
        if not full and _continues(group, chunk):
            group.chunks = sorted([*group.chunks, chunk], key=lambda c: c.ordinal)
            return True
    return False


def _is_copy(first: StoredChunk, second: StoredChunk) -> bool:
    if first.body == second.body:
        return True
    if first.path == second.path:
        return False
    shorter, longer = sorted((len(first.body), len(second.body)))
    if shorter < _NEAR_DUPLICATE * longer:
        return False
    one, two = set(fold(first.body).split()), set(fold(second.body).split())
    return len(one & two) >= _NEAR_DUPLICATE * len(one | two)


def _continues(group: _Group, chunk: StoredChunk) -> bool:
    first, last = group.chunks[0], group.chunks[-1]
    if (chunk.path, chunk.slug) != (first.path, first.slug):
        return False
    if chunk.ordinal not in (first.ordinal - 1, last.ordinal + 1):
        return False
    if len(group.text) + len(chunk.body) > _MAX_MERGED_CHARS:
        return False
    # Pieces of one long line overlap inside that line, where no line number tells.
    before, after = (chunk, first) if chunk.ordinal < first.ordinal else (last, chunk)
    return after.last_line > before.last_line


def _joined(chunks: list[StoredChunk]) -> str:
    """Return the text of adjacent chunks, the lines they share once."""
    parts = [chunks[0].lead, chunks[0].body]
    for before, after in itertools.pairwise(chunks):
        shared = before.last_line - after.first_line + 1
        parts.append("\n".join(after.body.split("\n")[max(shared, 0) :]))
    parts.append(chunks[-1].tail)
    return "\n".join(part for part in parts if part)


def _hit(corpus: str, group: _Group, similarities: Mapping[int, float]) -> Hit:
    best = group.chunks[0]
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


def document_id(corpus: str, path: str, slug: str = "") -> str:
    """Return the address of a document or one of its sections."""
    fragment = f"#{quote(slug, safe='')}" if slug else ""
    return f"docs-rag://{corpus}/{quote(path)}{fragment}"


def _omit(chunk: StoredChunk, reason: str) -> Omitted:
    return Omitted(chunk.path, chunk.first_line, chunk.last_line, reason)
