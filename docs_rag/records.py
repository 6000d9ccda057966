"""
The frozen values that pass between modules.

Dictionaries exist only at the JSON edges; inside, these do. Nothing here reads,
writes or decides.
"""

import enum
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Vectors = npt.NDArray[np.float32]


class Secret:
    """
    A string that cannot be printed by accident.

    ``str()`` and ``repr()`` show stars; ``reveal()`` is the one way to the value.
    """

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the secret itself, for the wire or for a comparison."""
        return self._value

    def __repr__(self) -> str:
        return "Secret('**********')"

    def __str__(self) -> str:
        return "**********" if self._value else ""

    def __bool__(self) -> bool:
        return bool(self._value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._value == other._value

    def __hash__(self) -> int:
        return hash(self._value)


class Purpose(enum.StrEnum):
    """What a text is embedded for: some models want a different prefix for each."""

    QUERY = "query"
    PASSAGE = "passage"


class Match(enum.StrEnum):
    """The verdict on an answer: does the corpus speak of this at all?"""

    STRONG = "strong"
    WEAK = "weak"
    NONE = "none"


# What a passage repeats of the one before it, at most, where a block is cut.
OVERLAP_CHARS = 120


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file that was left out, and why."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class Document:
    """One file in scope, as it is now: ``path``, with slashes, below ``root``."""

    path: str
    root: Path
    size_bytes: int
    mtime_ns: int
    sha256: str

    @property
    def absolute(self) -> Path:
        """Where the file is; made when asked for, for a scan of many files is not."""
        return self.root / self.path


@dataclass(frozen=True, slots=True)
class Source:
    """Where the corpus comes from: its commit, when it was synced, local changes."""

    commit: str | None = None
    synced_at: str | None = None
    dirty: bool | None = None


@dataclass(frozen=True, slots=True)
class Scan:
    """The declared scope, resolved against the disk."""

    documents: tuple[Document, ...]
    skipped: tuple[Skipped, ...]
    unmatched: tuple[str, ...]
    matched: dict[str, tuple[str, ...]]
    source: Source = Source()


@dataclass(frozen=True, slots=True)
class Section:
    """
    One heading and the lines below it, up to the next heading.

    ``path`` holds the titles from the outermost heading down to this one; text in
    front of the first heading forms a section with an empty path and slug. ``slug``
    is unique in its document. Lines are 1-based and inclusive.
    """

    path: tuple[str, ...]
    slug: str
    level: int
    first_line: int
    last_line: int


@dataclass(frozen=True, slots=True)
class Chunk:
    """
    A passage: whole lines of one document, ready to be shown and cited.

    ``body`` is lines ``first_line``..``last_line`` of the source (a part of one line
    where a single line is longer than a chunk may be). ``lead`` repeats what the
    passage needs to be read alone: front matter title, fence opening, table header;
    ``tail`` closes a split fence, or stands for the rest of a line cut short.
    ``sections`` are the sections the passage covers, in order; the first of them that
    has text of its own is ``section``.
    """

    ordinal: int
    sections: tuple[Section, ...]
    section: Section
    first_line: int
    last_line: int
    body: str
    lead: str = ""
    tail: str = ""

    @property
    def text(self) -> str:
        """The passage as it is shown, indexed and embedded."""
        return "\n".join(part for part in (self.lead, self.body, self.tail) if part)

    @property
    def heading(self) -> str:
        """``Outer > Inner``; the leaves of merged sections are joined by `` | ``."""
        parent = self.section.path[:-1]
        siblings = [s for s in self.sections if s.path and s.path[:-1] == parent]
        leaves = list(dict.fromkeys(s.path[-1] for s in siblings))
        deeper = [
            s.path[-1] for s in self.sections if len(s.path) > len(self.section.path)
        ]
        leaf = " | ".join(dict.fromkeys(leaves + deeper))
        return " > ".join([*parent, leaf]) if leaf else ""


@dataclass(frozen=True, slots=True)
class ChunkedDocument:
    """A document cut into passages, with what its front matter says of it."""

    title: str
    description: str
    sections: tuple[Section, ...]
    chunks: tuple[Chunk, ...]
    line_count: int


@dataclass(frozen=True, slots=True)
class ModelIdentity:
    """
    Which vector space a model writes into, known without loading it.

    ``revision`` pins the weights (package version, file hash); prefixes are part of
    the space because they change every vector.
    """

    backend: str
    model: str
    revision: str = ""
    query_prefix: str = ""
    passage_prefix: str = ""

    @property
    def fingerprint(self) -> str:
        """Sixteen hex digits that two models share only if their vectors may mix."""
        parts = (
            self.backend,
            self.model,
            self.revision,
            self.query_prefix,
            self.passage_prefix,
        )
        return hashlib.sha256("\x1f".join(parts).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Capacity:
    """
    What a model was measured to do: vector width, and how much text it reads.

    ``window`` is in the units of ``Embedder.count`` and None where the vector was
    seen to depend on all of the text.
    """

    dimension: int
    window: int | None


@dataclass(frozen=True, slots=True)
class EmbeddingBatch:
    """Vectors of shape (texts, dimension), float32, L2-normalised; tokens if known."""

    vectors: "Vectors"
    tokens: int | None = None


class Embedder(Protocol):
    """Turns texts into unit vectors. Building one is cheap; the model loads late."""

    @property
    def identity(self) -> ModelIdentity:
        """The vector space this embedder writes into."""

    def probe(self) -> Capacity:
        """Measure width and window (loads the model, or calls the endpoint)."""

    def count(self, text: str) -> int:
        """Length of ``text`` in the units of ``Capacity.window``."""

    def embed(self, texts: Sequence[str], purpose: Purpose) -> EmbeddingBatch:
        """Embed ``texts`` in order; raise ``EmbeddingError`` on any bad answer."""


@dataclass(frozen=True, slots=True)
class Ranks:
    """Where each list put the passage, 1-based; None where a list did not hold it."""

    vector: int | None = None
    words: int | None = None
    trigrams: int | None = None


@dataclass(frozen=True, slots=True)
class Hit:
    """One passage of an answer."""

    id: str
    path: str
    heading: str
    first_line: int
    last_line: int
    text: str
    similarity: float | None
    ranks: Ranks
    rrf_score: float
    stale: bool = False
    also_at: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Omitted:
    """A passage that would have been returned but for the reason given."""

    path: str
    first_line: int
    last_line: int
    reason: str


@dataclass(frozen=True, slots=True)
class Answer:
    """
    What ``retrieve`` returns; ``facts`` are timings and counts for the trace.

    ``explanation`` holds the terms behind rank and verdict where they were asked for;
    it quotes the question, so it goes into no trace.
    """

    corpus: str
    generation: int
    commit: str | None
    query: str
    match: Match
    hits: tuple[Hit, ...]
    omitted: tuple[Omitted, ...]
    notice: str
    facts: dict[str, object] = field(default_factory=dict)
    explanation: dict[str, object] | None = None


@dataclass(frozen=True, slots=True)
class IndexReport:
    """What one indexing run did."""

    corpus: str
    generation: int
    added: tuple[str, ...]
    changed: tuple[str, ...]
    renamed: tuple[tuple[str, str], ...]
    purged: tuple[str, ...]
    unchanged: int
    rebuilt: int
    skipped: tuple[Skipped, ...]
    failed: tuple[Skipped, ...]
    unmatched_scope: tuple[str, ...]
    files: int
    chunks: int
    embedded: int
    reused: int
    seconds: float
    dry_run: bool = False
    full: bool = False
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CorpusStatus:
    """What an index holds and how far it can be trusted."""

    corpus: str
    files: int
    chunks: int
    generation: int
    indexed_at: str | None
    checked_at: str | None
    commit: str | None
    dirty: bool | None
    synced_at: str | None
    embedding: dict[str, object]
    skipped: tuple[Skipped, ...]
    failed: tuple[Skipped, ...]
    unmatched_scope: tuple[str, ...]
    verdict: dict[str, object]
    vectors: dict[str, object]
    traces_dropped: int
    notices: tuple[str, ...] = ()
