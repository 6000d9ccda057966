"""
The tables of an index: every statement on what is not full text or vectors.

Writers hold the corpus lock and change a file's rows in one transaction; readers
take a snapshot and see one committed generation throughout.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from docs_rag.fulltext import FullText
from docs_rag.records import ChunkedDocument, Document, Skipped
from docs_rag.schema import (
    CONTRADICTIONS,
    HEADING,
    NO_SPACE,
    WITHOUT_TRIGRAMS,
    Entry,
    IndexedFile,
    StoredChunk,
    StoredFile,
    StoredSection,
)
from docs_rag.vectortables import VectorTables

_CHUNK_COLUMNS = """
    c.id, f.path, c.ordinal, c.slug, c.heading, f.title, c.first_line, c.last_line,
    c.lead, c.body, c.tail, f.sha256, f.size_bytes, f.mtime_ns
    FROM chunks c JOIN files f ON f.id = c.file_id
"""


_FILE_COLUMNS = "id, path, title, line_count, size_bytes"


class Store(FullText, VectorTables):
    """An index file of one corpus, open for reading or for writing."""

    # -- meta -------------------------------------------------------------------

    def meta(self, key: str, default: Any = None) -> Any:
        """Return the JSON value kept under ``key``."""
        value = self.value("SELECT value FROM meta WHERE key = ?", key)
        return default if value is None else json.loads(value)

    def set_meta(self, **values: Any) -> None:
        """Keep JSON values, each under its own key."""
        for key, value in values.items():
            # ASCII: a file name that is not UTF-8 has no other form SQLite takes.
            text = json.dumps(value)
            self.rows("INSERT OR REPLACE INTO meta VALUES(?, ?)", key, text)

    @property
    def generation(self) -> int:
        """The number of the last committed change; 0 before the first."""
        return int(self.meta("generation", 0))

    @property
    def build(self) -> str:
        """A name that no other build of an index has."""
        return str(self.meta("build", ""))

    def advance(self) -> int:
        """Count the files and chunks anew and start the next generation."""
        generation = self.generation + 1
        files = self.value("SELECT count(*) FROM files")
        chunks = self.value("SELECT count(*) FROM chunks")
        self.set_meta(generation=generation, files=files, chunks=chunks)
        return generation

    def integrity_problems(self) -> list[str]:
        """Return what contradicts itself in this index; empty when all is well."""
        found = super().integrity_problems()
        for problem, query in CONTRADICTIONS.items():
            found += [f"{problem}: {row[0]}" for row in self.rows(query)]
        return found

    # -- files and chunks -------------------------------------------------------

    def files(self) -> dict[str, IndexedFile]:
        """Return every indexed file by path."""
        rows = self.rows(
            "SELECT id, path, sha256, size_bytes, mtime_ns, recipe, space_id FROM files"
        )
        return {row[1]: IndexedFile(*row) for row in rows}

    def files_without_text(self) -> list[Skipped]:
        """Return the indexed files that yielded no chunk, and why."""
        rows = self.rows(
            "SELECT path, coalesce(notice, 'no text') FROM files f WHERE NOT EXISTS "
            "(SELECT 1 FROM chunks c WHERE c.file_id = f.id) ORDER BY path"
        )
        return [Skipped(*row) for row in rows]

    def files_without_vectors(self) -> list[Skipped]:
        """Return the files that have a text without vector, and why."""
        rows = self.rows(
            "SELECT path, coalesce(notice, 'not embedded') FROM files "
            "WHERE space_id = ? ORDER BY path",
            NO_SPACE,
        )
        return [Skipped(*row) for row in rows]

    def has_trigrams(self) -> bool:
        """Tell whether no file was written without its trigrams."""
        query = f"SELECT 1 FROM files WHERE recipe LIKE '%{WITHOUT_TRIGRAMS}' LIMIT 1"
        return self.value(query) is None

    def touch_file(self, document: Document) -> None:
        """Note a new size and time for a file whose bytes are the same."""
        self.rows(
            "UPDATE files SET size_bytes = ?, mtime_ns = ? WHERE path = ?",
            *(document.size_bytes, document.mtime_ns, document.path),
        )

    def remove_file(self, path: str) -> int:
        """
        Remove a file and all that came from it; return how many chunks that were.

        Its vectors become spare.
        """
        rows = self.rows(
            "SELECT c.id FROM chunks c JOIN files f ON f.id = c.file_id "
            "WHERE f.path = ?",
            path,
        )
        file_id = self.value("SELECT id FROM files WHERE path = ?", path)
        if file_id is not None:
            self.remove_text(file_id, [row[0] for row in rows])
        ids = json.dumps([row[0] for row in rows])
        used = self.rows(
            "DELETE FROM windows WHERE chunk_id IN (SELECT value FROM json_each(?)) "
            "RETURNING vector_id",
            ids,
        )
        self.rows(
            "UPDATE vectors SET spare = 1 WHERE id IN (SELECT value FROM json_each(?)) "
            "AND NOT EXISTS (SELECT 1 FROM windows w WHERE w.vector_id = vectors.id)",
            json.dumps(sorted({row[0] for row in used})),
        )
        self.rows("DELETE FROM files WHERE path = ?", path)
        return len(rows)

    def add_file(
        self,
        document: Document,
        chunked: ChunkedDocument,
        notice: str | None,
        recipe: str,
        space_id: int,
        entries: Iterable[Entry],
    ) -> None:
        """Write one file with its sections and chunks; it must not be there yet."""
        file_id = self.value(
            "INSERT INTO files(path, sha256, size_bytes, mtime_ns, title, line_count, "
            "notice, recipe, space_id) VALUES(?,?,?,?,?,?,?,?,?) RETURNING id",
            *(document.path, document.sha256, document.size_bytes, document.mtime_ns),
            *(chunked.title, chunked.line_count, notice, recipe, space_id),
        )
        for ordinal, section in enumerate(chunked.sections):
            self.rows(
                "INSERT INTO sections VALUES(?,?,?,?,?,?,?)",
                *(file_id, ordinal, section.slug, json.dumps(section.path)),
                *(section.level, section.first_line, section.last_line),
            )
        rows = list(entries)
        self.add_page(file_id, rows)
        for entry in rows:
            self._add_chunk(file_id, entry)

    def _add_chunk(self, file_id: int, entry: Entry) -> None:
        chunk = entry.chunk
        chunk_id = self.value(
            "INSERT INTO chunks(file_id, ordinal, slug, heading, first_line, "
            "last_line, lead, body, tail) VALUES(?,?,?,?,?,?,?,?,?) RETURNING id",
            *(file_id, chunk.ordinal, chunk.section.slug, chunk.heading),
            *(chunk.first_line, chunk.last_line, chunk.lead, chunk.body, chunk.tail),
        )
        self.add_chunk_text(chunk_id, entry)
        heading = [] if entry.heading_id is None else [(HEADING, entry.heading_id)]
        for ordinal, vector_id in [*heading, *enumerate(entry.vector_ids)]:
            self.rows("INSERT INTO windows VALUES(?,?,?)", chunk_id, ordinal, vector_id)
            self.rows("UPDATE vectors SET spare = 0 WHERE id = ?", vector_id)

    def chunks(self, ids: Sequence[int]) -> dict[int, StoredChunk]:
        """Return the chunks with these ids, by id."""
        rows = self.rows(
            f"SELECT {_CHUNK_COLUMNS} WHERE c.id IN (SELECT value FROM json_each(?))",
            json.dumps(list(ids)),
        )
        return {row[0]: StoredChunk(*row) for row in rows}

    def first_chunks(self, paths: Iterable[str]) -> dict[str, int]:
        """Return the id of the first chunk of each of these files."""
        rows = self.rows(
            "SELECT f.path, c.id FROM files f JOIN chunks c ON c.file_id = f.id "
            "WHERE c.ordinal = 0 AND f.path IN (SELECT value FROM json_each(?))",
            json.dumps(list(paths)),
        )
        return {row[0]: row[1] for row in rows}

    def files_of(self, chunk_ids: Sequence[int]) -> list[int]:
        """Return the ids of the files that these chunks are in."""
        rows = self.rows(
            "SELECT DISTINCT file_id FROM chunks WHERE id IN "
            "(SELECT value FROM json_each(?))",
            json.dumps(list(chunk_ids)),
        )
        return [row[0] for row in rows]

    def paths(self, file_ids: Sequence[int]) -> dict[int, str]:
        """Return the paths of the files with these ids, by id."""
        return dict(
            self.rows(
                "SELECT id, path FROM files WHERE id IN "
                "(SELECT value FROM json_each(?))",
                json.dumps(list(file_ids)),
            )
        )

    def all_chunks(self) -> list[StoredChunk]:
        """Return every chunk, by path and ordinal."""
        rows = self.rows(f"SELECT {_CHUNK_COLUMNS} ORDER BY f.path, c.ordinal")
        return [StoredChunk(*row) for row in rows]

    def chunks_between(self, path: str, first: int, last: int) -> list[StoredChunk]:
        """Return the chunks of a file that hold any of these lines, in order."""
        rows = self.rows(
            f"SELECT {_CHUNK_COLUMNS} WHERE f.path = ? AND c.last_line >= ? "
            "AND c.first_line <= ? ORDER BY c.ordinal",
            *(path, first, last),
        )
        return [StoredChunk(*row) for row in rows]

    def file(self, path: str) -> StoredFile | None:
        """Return the file with exactly this path."""
        rows = self.rows(f"SELECT {_FILE_COLUMNS} FROM files WHERE path = ?", path)
        return StoredFile(*rows[0]) if rows else None

    def files_after(self, path: str, count: int) -> list[StoredFile]:
        """Return the files that come after ``path`` in the order of paths."""
        rows = self.rows(
            f"SELECT {_FILE_COLUMNS} FROM files WHERE path > ? ORDER BY path LIMIT ?",
            *(path, count),
        )
        return [StoredFile(*row) for row in rows]

    def sections(self, file_id: int) -> list[StoredSection]:
        """Return the sections of a file, in order."""
        rows = self.rows(
            "SELECT slug, path, level, first_line, last_line FROM sections "
            "WHERE file_id = ? ORDER BY ordinal",
            file_id,
        )
        return [
            StoredSection(row[0], tuple(json.loads(row[1])), *row[2:]) for row in rows
        ]

    def chunk_ids(self) -> list[int]:
        """Return the ids of all chunks, by path and ordinal."""
        rows = self.rows(
            "SELECT c.id FROM chunks c JOIN files f ON f.id = c.file_id "
            "ORDER BY f.path, c.ordinal"
        )
        return [row[0] for row in rows]
