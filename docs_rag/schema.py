"""
What an index file holds: its tables, numbered migrations, and the rows as values.

The tables are declared here and used in ``store`` and ``fulltext`` alone.
"""

from dataclasses import dataclass

from docs_rag.records import Capacity, Chunk

# Tells an index from the SQLite file of another program: "docs".
APPLICATION_ID = 0x646F6373

# Stands for the space of a file that has texts without a vector.
NO_SPACE = 0
# Stands for a space that is still to be opened: no file is in it.
NEW_SPACE = -1

# The place among a chunk's windows of the vector that stands for its heading.
HEADING = -1

# How the word index cuts and stems; a query's words are looked up through the same.
# Marks are letters: without them words in Devanagari or Thai fall to pieces.
WORDS_TOKENIZER = (
    *("porter", "unicode61", "remove_diacritics", "2"),
    *("categories", "L* N* Co M*"),
)
TRIGRAM_TOKENIZER = ("trigram",)

# What a hit in title, heading and body counts for, and how BM25 dampens repeats and
# long passages: FTS5's own constants, for scores that it is not asked for.
FIELD_WEIGHTS = (2.0, 3.0, 1.0)
BM25_K1, BM25_B = 1.2, 0.75
# The IDF of a word that is in more than half of the rows.
BM25_FLOOR = 1e-6

# Ends the recipe of a file that was written without trigrams.
WITHOUT_TRIGRAMS = "/words"

# Numbered from 1, applied in order, never edited once released.
MIGRATIONS = (
    """
    PRAGMA application_id = 0x646F6373;
    CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
    INSERT INTO meta VALUES('build', '"' || lower(hex(randomblob(16))) || '"');
    CREATE TABLE files(
        id INTEGER PRIMARY KEY,
        path TEXT NOT NULL UNIQUE,
        sha256 TEXT NOT NULL,
        size_bytes INTEGER NOT NULL,
        mtime_ns INTEGER NOT NULL,
        title TEXT NOT NULL,
        line_count INTEGER NOT NULL,
        notice TEXT,
        recipe TEXT NOT NULL,
        space_id INTEGER NOT NULL
    );
    CREATE TABLE sections(
        file_id INTEGER NOT NULL REFERENCES files(id) ON DELETE CASCADE,
        ordinal INTEGER NOT NULL,
        slug TEXT NOT NULL,
        path TEXT NOT NULL,
        level INTEGER NOT NULL,
        first_line INTEGER NOT NULL,
        last_line INTEGER NOT NULL,
        PRIMARY KEY(file_id, ordinal)
    ) WITHOUT ROWID;
    CREATE TABLE chunks(
        id INTEGER PRIMARY KEY,
        file_id INTEGER NOT NULL REFERENCES files(id) ON DELETE CASCADE,
        ordinal INTEGER NOT NULL,
        slug TEXT NOT NULL,
        heading TEXT NOT NULL,
        first_line INTEGER NOT NULL,
        last_line INTEGER NOT NULL,
        lead TEXT NOT NULL,
        body TEXT NOT NULL,
        tail TEXT NOT NULL
    );
    CREATE UNIQUE INDEX chunks_by_file ON chunks(file_id, ordinal);
    CREATE TABLE spaces(
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        fingerprint TEXT NOT NULL UNIQUE,
        backend TEXT NOT NULL,
        model TEXT NOT NULL,
        dimension INTEGER NOT NULL,
        window INTEGER
    );
    CREATE TABLE vectors(
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        space_id INTEGER NOT NULL REFERENCES spaces(id) ON DELETE CASCADE,
        spare INTEGER NOT NULL,
        text_sha256 BLOB NOT NULL,
        vector BLOB NOT NULL,
        UNIQUE(space_id, text_sha256)
    );
    CREATE INDEX vectors_by_use ON vectors(space_id, spare);
    CREATE TABLE windows(
        chunk_id INTEGER NOT NULL REFERENCES chunks(id) ON DELETE CASCADE,
        ordinal INTEGER NOT NULL,
        vector_id INTEGER NOT NULL REFERENCES vectors(id) ON DELETE CASCADE,
        PRIMARY KEY(chunk_id, ordinal)
    ) WITHOUT ROWID;
    CREATE INDEX windows_by_vector ON windows(vector_id);
    CREATE VIRTUAL TABLE words USING fts5(
        title, heading, body, content='', contentless_delete=1,
        tokenize="porter unicode61 remove_diacritics 2 categories 'L* N* Co M*'"
    );
    INSERT INTO words(words, rank) VALUES('rank', 'bm25(2.0, 3.0, 1.0)');
    CREATE VIRTUAL TABLE words_vocabulary USING fts5vocab(words, row);
    CREATE VIRTUAL TABLE pages USING fts5(
        title, heading, body, content='', contentless_delete=1,
        tokenize="porter unicode61 remove_diacritics 2 categories 'L* N* Co M*'"
    );
    INSERT INTO pages(pages, rank) VALUES('rank', 'bm25(2.0, 3.0, 1.0)');
    CREATE VIRTUAL TABLE pages_vocabulary USING fts5vocab(pages, row);
    CREATE VIRTUAL TABLE trigrams USING fts5(
        body, content='', contentless_delete=1, tokenize="trigram"
    );
    """,
    # Trigrams without their places: a fifth of the size. Files are cut anew for it.
    """
    CREATE TABLE frequencies(
        kind TEXT NOT NULL,
        term TEXT NOT NULL,
        count INTEGER NOT NULL,
        PRIMARY KEY(kind, term)
    ) WITHOUT ROWID;
    DROP TABLE trigrams;
    UPDATE files SET recipe = recipe || '/words';
    CREATE VIRTUAL TABLE trigrams USING fts5(
        body, content='', contentless_delete=1, detail=none, tokenize="trigram"
    );
    CREATE VIRTUAL TABLE trigrams_vocabulary USING fts5vocab(trigrams, row);
    """,
)


# Queries that find nothing in an index whose parts fit each other.
CONTRADICTIONS = {
    "chunk without its words": (
        "SELECT id FROM chunks EXCEPT SELECT id FROM words_docsize"
    ),
    "words without their chunk": (
        "SELECT id FROM words_docsize EXCEPT SELECT id FROM chunks"
    ),
    "page without its words": (
        "SELECT file_id FROM chunks EXCEPT SELECT id FROM pages_docsize"
    ),
    "words without their page": (
        "SELECT id FROM pages_docsize EXCEPT SELECT file_id FROM chunks"
    ),
    "chunk without its trigrams": f"""
        SELECT c.id FROM chunks c JOIN files f ON f.id = c.file_id
        WHERE f.recipe NOT LIKE '%{WITHOUT_TRIGRAMS}' EXCEPT
        SELECT id FROM trigrams_docsize
    """,
    "trigrams without their chunk": (
        "SELECT id FROM trigrams_docsize EXCEPT SELECT id FROM chunks"
    ),
    "vector that is used and counts as spare, or the reverse": """
        SELECT id FROM vectors v WHERE spare =
        EXISTS (SELECT 1 FROM windows w WHERE w.vector_id = v.id)
    """,
    "chunk without a vector": f"""
        SELECT c.id FROM chunks c JOIN files f ON f.id = c.file_id
        WHERE f.space_id <> {NO_SPACE} EXCEPT
        SELECT chunk_id FROM windows WHERE ordinal > {HEADING}
    """,
    "chunk with a vector of another space": f"""
        SELECT c.id FROM chunks c JOIN files f ON f.id = c.file_id
        JOIN windows w ON w.chunk_id = c.id JOIN vectors v ON v.id = w.vector_id
        WHERE v.space_id <> f.space_id AND f.space_id <> {NO_SPACE}
    """,
}


@dataclass(frozen=True, slots=True)
class IndexedFile:
    """A file as the index holds it; ``recipe`` names how it was cut and folded."""

    id: int
    path: str
    sha256: str
    size_bytes: int
    mtime_ns: int
    recipe: str
    space_id: int


@dataclass(frozen=True, slots=True)
class Space:
    """One model's vector space in this index."""

    id: int
    fingerprint: str
    backend: str
    model: str
    capacity: Capacity


@dataclass(frozen=True, slots=True)
class Entry:
    """
    One chunk ready to be written: its folded texts and its windows' vectors.

    ``heading_id`` is the vector of its heading, None where it has none; ``trigrams``
    is None where the corpus has no trigram index.
    """

    chunk: Chunk
    words: tuple[str, str, str]
    trigrams: str | None
    vector_ids: tuple[int, ...]
    heading_id: int | None = None


@dataclass(frozen=True, slots=True)
class StoredChunk:
    """A chunk as it was written, with the file it belongs to."""

    id: int
    path: str
    ordinal: int
    slug: str
    heading: str
    title: str
    first_line: int
    last_line: int
    lead: str
    body: str
    tail: str
    sha256: str
    size_bytes: int
    mtime_ns: int

    @property
    def text(self) -> str:
        """The passage as it is shown."""
        return "\n".join(part for part in (self.lead, self.body, self.tail) if part)


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file as readers of whole documents want it."""

    id: int
    path: str
    title: str
    line_count: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class StoredSection:
    """A section of a stored file; ``path`` holds its titles, outermost first."""

    slug: str
    path: tuple[str, ...]
    level: int
    first_line: int
    last_line: int
