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
from docs_rag.outline import Outline, Part, Run, RunBuilder, build_outline
from docs_rag.packing import Packer, Span
from docs_rag.records import Chunk, ChunkedDocument

__all__ = [
    "CHUNKER_VERSION",
    "ChunkPolicy",
    "chunk_markdown",
    "elide_payloads",
    "slugify",
]

# Raise it with any change that moves a chunk's bounds or text.
CHUNKER_VERSION = 1

# A smaller chunk has no room for a lead, a line and a tail.
MIN_BUDGET_CHARS = 100


@dataclass(frozen=True, slots=True)
class ChunkPolicy:
    """
    How long passages are, in characters.

    ``max_chars`` bounds a passage's text, ``min_chars`` is what a section needs to stand
    alone, ``overlap_chars`` bounds what is repeated where an oversized block is cut.
    """

    max_chars: int = 1200
    min_chars: int = 300
    overlap_chars: int = 120

    def __post_init__(self) -> None:
        if self.max_chars < MIN_BUDGET_CHARS:
            raise ValueError(
                f"max_chars is {self.max_chars}; "
                f"set it to {MIN_BUDGET_CHARS} or more"
            )
        for name in ("min_chars", "overlap_chars"):
            if not 0 <= getattr(self, name) <= self.max_chars // 2:
                raise ValueError(
                    f"{name} is {getattr(self, name)}; "
                    f"set it between 0 and half of max_chars ({self.max_chars // 2})"
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
    body_first = front.line_count + 1
    tree = parse_blocks(lines, body_first)
    outline = build_outline(tree, lines.count)
    spans: Iterator[Span] = iter(())
    if lines.visible(body_first):
        spans = _spans(lines, outline, policy, front)
    return ChunkedDocument(
        title=front.title or _first_title(outline) or PurePosixPath(path).stem,
        description=front.description,
        sections=tuple(part.section for part in outline.parts),
        chunks=tuple(_chunks(lines, outline, spans)),
        line_count=lines.count,
    )
