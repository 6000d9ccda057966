"""
The full-text tables of an index: words of passages, words of pages, trigrams.

Every row of ``words`` and ``trigrams`` is a chunk, every row of ``pages`` a file.
"""

import json
from collections.abc import Iterable, Sequence

from docs_rag.database import Database
from docs_rag.schema import WORDS_TOKENIZER, Entry


class FullText(Database):
    """The full-text half of a store."""

    def add_page(self, file_id: int, entries: Sequence[Entry]) -> None:
        """Write the words of a whole file: its title, each heading once, its text."""
        if not entries:
            return
        headings = dict.fromkeys(entry.words[1] for entry in entries)
        self.rows(
            "INSERT INTO pages(rowid, title, heading, body) VALUES(?,?,?,?)",
            *(file_id, entries[0].words[0], " ".join(headings)),
            " ".join(entry.words[2] for entry in entries),
        )

    def add_chunk_text(self, chunk_id: int, entry: Entry) -> None:
        """Write the words and the trigrams of a chunk."""
        self.rows(
            "INSERT INTO words(rowid, title, heading, body) VALUES(?,?,?,?)",
            *(chunk_id, *entry.words),
        )
        self.rows(
            "INSERT INTO trigrams(rowid, body) VALUES(?,?)", chunk_id, entry.trigrams
        )

    def remove_text(self, file_id: int, chunk_ids: Iterable[int]) -> None:
        """Remove a file and its chunks from every full-text table."""
        self.rows("DELETE FROM pages WHERE rowid = ?", file_id)
        for chunk_id in chunk_ids:
            self.rows("DELETE FROM words WHERE rowid = ?", chunk_id)
            self.rows("DELETE FROM trigrams WHERE rowid = ?", chunk_id)

    def search_words(self, query: str, count: int) -> list[tuple[int, float]]:
        """Return (chunk id, BM25, higher is better) of the best chunks for words."""
        return self._search("words", query, count)

    def search_trigrams(self, query: str, count: int) -> list[tuple[int, float]]:
        """Return (chunk id, BM25, higher is better) of the best for substrings."""
        return self._search("trigrams", query, count)

    def search_pages(self, query: str, count: int) -> dict[str, float]:
        """Return path → BM25 of the best pages for words."""
        rows = self.rows(
            "SELECT f.path, -p.rank FROM pages p JOIN files f ON f.id = p.rowid "
            "WHERE pages MATCH ? ORDER BY p.rank, p.rowid LIMIT ?",
            *(query, count),
        )
        return {row[0]: row[1] for row in rows}

    def _search(self, table: str, query: str, count: int) -> list[tuple[int, float]]:
        rows = self.rows(
            f"SELECT rowid, -rank FROM {table} WHERE {table} MATCH ? "
            "ORDER BY rank, rowid LIMIT ?",
            *(query, count),
        )
        return [(row[0], row[1]) for row in rows]

    def holders(self, query: str, chunk_ids: Sequence[int]) -> set[int]:
        """Return which of these chunks match ``query`` by words."""
        rows = self.rows(
            "SELECT rowid FROM words WHERE words MATCH ? AND rowid IN "
            "(SELECT value FROM json_each(?))",
            *(query, json.dumps(list(chunk_ids))),
        )
        return {row[0] for row in rows}

    def stems(self, tokens: Iterable[str]) -> dict[str, str]:
        """Return each token as the word index stores it ('' where it keeps none)."""
        return {
            token: " ".join(self.tokenize(WORDS_TOKENIZER, token)) for token in tokens
        }

    def document_frequencies(self, stems: Iterable[str]) -> dict[str, int]:
        """Return in how many chunks each stem occurs."""
        return self._frequencies("words_vocabulary", stems)

    def page_frequencies(self, stems: Iterable[str]) -> dict[str, int]:
        """Return in how many pages each stem occurs."""
        return self._frequencies("pages_vocabulary", stems)

    def _frequencies(self, table: str, stems: Iterable[str]) -> dict[str, int]:
        return {
            stem: self.value(f"SELECT doc FROM {table} WHERE term = ?", stem) or 0
            for stem in stems
        }
