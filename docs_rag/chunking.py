"""
Markdown in, passages out: each knows its headings and its exact lines. Pure.

Every line of prose is in the body of a passage, and passages are in document order.
A text is at most ``max_chars`` long unless a single line, with the fence opening or
table header it needs, leaves no choice; it is never twice as long. Time is linear in
the length of the document, whatever it holds.
"""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from docs_rag.atoms import build_atoms
from docs_rag.blocks import parse_blocks
from docs_rag.frontmatter import FrontMatter, read_front_matter
from docs_rag.headings import slugify
from docs_rag.lines import Lines, elide_payloads
from docs_rag.outline import Outline, Run, RunBuilder, build_outline
from docs_rag.packing import Packer, Span
from docs_rag.records import OVERLAP_CHARS, Chunk, ChunkedDocument

__all__ = [
    "CHUNKER_VERSION",
    "ChunkPolicy",
    "chunk_markdown",
    "elide_payloads",
    "slugify",
]

# Raise it with any change that moves a chunk's bounds or text.
CHUNKER_VERSION = 2

# A smaller chunk has no room for a lead, a line and a tail.
MIN_BUDGET_CHARS = 100
# Front matter takes at most a third of the first chunk.
MAX_LEAD_SHARE = 3


@dataclass(frozen=True, slots=True)
class ChunkPolicy:
    """
    How long passages are, in characters.

    ``max_chars`` bounds a passage's text, ``min_chars`` is what a section needs to
    stand alone, ``overlap_chars`` bounds what is repeated where a block is cut.
    """

    max_chars: int = 1500
    min_chars: int = 500
    overlap_chars: int = OVERLAP_CHARS

    def __post_init__(self) -> None:
        if self.max_chars < MIN_BUDGET_CHARS:
            raise ValueError(
                f"max_chars is {self.max_chars}: set it to {MIN_BUDGET_CHARS} or more"
            )
        for name in ("min_chars", "overlap_chars"):
            if getattr(self, name) < 0:
                raise ValueError(
                    f"{name} is {getattr(self, name)}: set it to 0 or more"
                )

    @property
    def fingerprint(self) -> str:
        """Names the chunker and its sizes; an index built under another is redone."""
        sizes = f"{self.max_chars}-{self.min_chars}-{self.overlap_chars}"
        return f"markdown-{CHUNKER_VERSION}/{sizes}"


DEFAULT_POLICY = ChunkPolicy()


def chunk_markdown(
    text: str, policy: ChunkPolicy = DEFAULT_POLICY, *, path: str = ""
) -> ChunkedDocument:
    """Cut ``text`` into passages; ``path`` only names a document without a title."""
    lines = Lines.from_text(text)
    front = read_front_matter(lines.lines)
    tree = parse_blocks(lines, front.line_count + 1)
    outline = build_outline(tree, lines.count)
    spans = _spans(lines, outline, policy, front)
    return ChunkedDocument(
        title=front.title or _first_title(outline) or PurePosixPath(path).stem,
        description=front.description,
        sections=tuple(part.section for part in outline.parts),
        chunks=tuple(_chunks(lines, outline, spans)),
        line_count=lines.count,
    )


def _first_title(outline: Outline) -> str:
    titles = (p.section.path[0] for p in outline.parts if p.section.level == 1)
    return next(titles, "")


def _spans(
    lines: Lines, outline: Outline, policy: ChunkPolicy, front: FrontMatter
) -> Iterator[Span]:
    titles = (part.section.path[-1] for part in outline.parts if part.section.path)
    lead = front.lead(next(titles, ""), policy.max_chars // MAX_LEAD_SHARE)
    lead_chars = len(lead) + 1 if lead else 0
    builder = RunBuilder(lines, outline, policy.max_chars, policy.min_chars, lead_chars)
    for run in builder.runs():
        yield from _run_spans(lines, run, policy, lead)
        lead = ""


def _run_spans(
    lines: Lines, run: Run, policy: ChunkPolicy, lead: str
) -> Iterator[Span]:
    last = run.parts[-1].blocks[-1]
    tail = last.open_tail()
    if run.size + (len(tail) + 1 if tail else 0) <= policy.max_chars:
        return iter([Span(run.parts[0].blocks[0].first, last.last, lead, tail)])
    blocks = [block for part in run.parts for block in part.blocks]
    lead_chars = len(lead) + 1 if lead else 0
    return Packer(
        lines=lines,
        atoms=build_atoms(lines, blocks, policy.max_chars, lead_chars),
        max_chars=policy.max_chars,
        overlap_chars=min(policy.overlap_chars, policy.max_chars // 3),
        lead=lead,
    ).spans()


def _chunks(lines: Lines, outline: Outline, spans: Iterator[Span]) -> Iterator[Chunk]:
    starts = [part.blocks[0].first for part in outline.parts]
    for ordinal, span in enumerate(spans):
        first = bisect_right(starts, span.first) - 1
        parts = outline.parts[first : bisect_right(starts, span.last)]
        main = next((part for part in parts if part.speaks), parts[0])
        body = lines.text(span.first, span.last) if span.body is None else span.body
        yield Chunk(
            ordinal=ordinal,
            sections=tuple(part.section for part in parts),
            section=main.section,
            first_line=span.first,
            last_line=span.last,
            body=body,
            lead=span.lead,
            tail=span.tail,
        )
