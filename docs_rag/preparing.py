"""
A document made ready for the index: its chunks, their windows, their folded words.

Everything here follows from the file's bytes, the chunking policy and the model's
window, so two runs over the same file prepare the same rows.
"""

import dataclasses
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from docs_rag.chunking import ChunkPolicy, chunk_markdown
from docs_rag.corpus import read_text
from docs_rag.embedding import split_windows
from docs_rag.lexical import LEXICAL_VERSION, searchable, words
from docs_rag.lines import without_payloads
from docs_rag.records import Capacity, Chunk, ChunkedDocument, Document, Embedder
from docs_rag.schema import WITHOUT_TRIGRAMS, Entry

POLICY = ChunkPolicy()

# Raise when the text put in front of a chunk, or the folded fields, change.
_PREPARING_VERSION = 4


@dataclass(frozen=True, slots=True)
class Prepared:
    """
    A document cut into chunks, with each chunk's windows as they are embedded.

    ``headings`` says for each chunk what it is about, in the page's own words: short,
    like a question, and so compared with one on its own. '' where the page is silent.
    """

    document: Document
    chunked: ChunkedDocument
    notice: str | None
    windows: tuple[tuple[str, ...], ...]
    headings: tuple[str, ...]

    @property
    def texts(self) -> dict[bytes, str]:
        """Every text to embed, by the digest its vector is kept under."""
        windows = (text for texts in self.windows for text in texts)
        headings = filter(None, self.headings)
        return {digest_of(text): text for text in (*windows, *headings)}


def recipe(trigram: bool = True) -> str:
    """Name how files are cut and folded today; another name means cut them anew."""
    suffix = "" if trigram else WITHOUT_TRIGRAMS
    return f"{POLICY.fingerprint}/{LEXICAL_VERSION}/{_PREPARING_VERSION}{suffix}"


def prepare(document: Document, embedder: Embedder, capacity: Capacity) -> Prepared:
    """Read and cut one file. Raises ``OSError`` where it cannot be read any more."""
    read = read_text(document)
    # Without its path: a title made of the file's name would tie vectors to it.
    chunked = chunk_markdown(read.text, POLICY)
    windows = tuple(
        split_windows(
            embedder,
            capacity,
            context_of(chunked, chunk),
            without_payloads(chunk.text),
        )
        for chunk in chunked.chunks
    )
    headings = tuple(
        _heading_window(embedder, capacity, heading_of(chunked, chunk))
        for chunk in chunked.chunks
    )
    notice = read.notice
    if not chunked.chunks and notice is None:
        notice = "no text but front matter" if read.text.strip() else "empty"
    title = chunked.title or PurePosixPath(document.path).stem
    chunked = dataclasses.replace(chunked, title=title)
    return Prepared(read.document, chunked, notice, windows, headings)


def context_of(chunked: ChunkedDocument, chunk: Chunk) -> str:
    """Return the line that is embedded in front of a chunk: title, heading path."""
    path = list(chunk.section.path)
    if chunked.title and chunked.title not in path:
        path.insert(0, chunked.title)
    return " > ".join(path)


def heading_of(chunked: ChunkedDocument, chunk: Chunk) -> str:
    """Return title and heading of a chunk; merged sections with all their titles."""
    parts = [chunk.heading] if chunk.heading else []
    if chunked.title and not chunk.heading.startswith(chunked.title):
        parts.insert(0, chunked.title)
    return " > ".join(parts)


def _heading_window(embedder: Embedder, capacity: Capacity, heading: str) -> str:
    """Return as much of a heading as the model reads."""
    return next(iter(split_windows(embedder, capacity, "", heading)), "")


def digest_of(text: str) -> bytes:
    """Return the key under which the vector of ``text`` is kept."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def entries(
    prepared: Prepared, vector_ids: Mapping[bytes, int], trigram: bool = True
) -> Iterator[Entry]:
    """Yield the rows of a prepared document, given the vectors that there are."""
    chunked, path = prepared.chunked, prepared.document.path
    name = path.rsplit(".", 1)[0].replace("/", " ")
    title = " ".join([*words(chunked.title), *words(name)])
    rows = zip(chunked.chunks, prepared.windows, prepared.headings, strict=True)
    for chunk, texts, about in rows:
        heading, body = words(chunk.heading), words(without_payloads(chunk.text))
        yield Entry(
            chunk=chunk,
            words=(title, " ".join(heading), " ".join(body)),
            trigrams=searchable(path, chunk.heading, chunk.text) if trigram else None,
            vector_ids=tuple(
                vector_ids[digest]
                for digest in map(digest_of, texts)
                if digest in vector_ids
            ),
            heading_id=vector_ids.get(digest_of(about)) if about else None,
        )
