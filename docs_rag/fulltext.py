"""
The full-text tables of an index: words of passages, words of pages, trigrams.

Every row of ``words`` and ``trigrams`` is a chunk, every row of ``pages`` a file.
"""

import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import apsw

from docs_rag.database import Database
from docs_rag.lexical import match_all
from docs_rag.schema import (
    BM25_B,
    BM25_FLOOR,
    BM25_K1,
    FIELD_WEIGHTS,
    TRIGRAM_TOKENIZER,
    WORDS_TOKENIZER,
    Entry,
)

# The full-text tables whose rows are ranked by words.
WordTable = Literal["words", "pages"]

_TABLES = ("words", "pages", "trigrams")

# FTS5 counts the rows of a term by walking them, so those of a term in this many rows
# or more are kept.
_COMMON_FROM = 4096
# Since which migration there is a table for them.
_COUNTED_SINCE = 2
# What it takes to look a term up in one row, in rows walked from one to the next.
_ROWS_PER_LOOKUP = 200


class FullText(Database):
    """The full-text half of a store."""

    def __init__(self, path: Path, *, writable: bool = False) -> None:
        """Open ``path``; with ``writable``, create and migrate it as needed."""
        super().__init__(path, writable=writable)
        self._connection.register_fts5_function("bm25_of_last", _bm25_of_last)

    # -- writing ----------------------------------------------------------------

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
        """Write the words of a chunk, and its trigrams where it has any."""
        self.rows(
            "INSERT INTO words(rowid, title, heading, body) VALUES(?,?,?,?)",
            *(chunk_id, *entry.words),
        )
        if entry.trigrams is not None:
            self.rows(
                "INSERT INTO trigrams(rowid, body) VALUES(?,?)",
                *(chunk_id, entry.trigrams),
            )

    def remove_text(self, file_id: int, chunk_ids: Iterable[int]) -> None:
        """Remove a file and its chunks from every full-text table."""
        self.rows("DELETE FROM pages WHERE rowid = ?", file_id)
        for chunk_id in chunk_ids:
            self.rows("DELETE FROM words WHERE rowid = ?", chunk_id)
            self.rows("DELETE FROM trigrams WHERE rowid = ?", chunk_id)

    def settle_text(self) -> None:
        """
        Make searching fast after much has changed; opens transactions of its own.

        Every table becomes one piece, which halves the time of a lookup, and common
        terms are counted anew. Reads all of the full text: seconds in a large index.
        """
        for table in _TABLES:
            with self.transaction():
                self.rows(f"INSERT INTO {table}({table}) VALUES('optimize')")
        with self.transaction():
            self._count_common_terms()

    def _count_common_terms(self) -> None:
        self.rows("DELETE FROM frequencies")
        for table in _TABLES:
            if self.value(f"SELECT count(*) FROM {table}_docsize") >= _COMMON_FROM:
                self.rows(
                    "INSERT INTO frequencies SELECT ?, term, doc "
                    f"FROM {table}_vocabulary WHERE doc >= ?",
                    *(table, _COMMON_FROM),
                )

    # -- searching --------------------------------------------------------------

    def search_words(self, query: str, count: int) -> list[tuple[int, float]]:
        """Return (chunk id, BM25, higher is better) of the best chunks for words."""
        return self.ranked("words", query, count)

    def search_pages(self, query: str, count: int) -> list[tuple[int, float]]:
        """Return (file id, BM25, higher is better) of the best pages for words."""
        return self.ranked("pages", query, count)

    def ranked(
        self, table: WordTable, query: str, count: int, at_most: int | None = None
    ) -> list[tuple[int, float]]:
        """
        Return (row id, BM25, higher is better) of the best rows for words.

        With ``at_most``, only so many of the rows that match are looked at.
        """
        source = f"{table} WHERE {table} MATCH ?"
        bound: list[str | int] = [query]
        if at_most is not None:
            source = f"(SELECT rowid, rank FROM {source} LIMIT ?)"
            bound.append(at_most)
        rows = self.rows(
            f"SELECT rowid, -rank FROM {source} ORDER BY rank, rowid LIMIT ?",
            *(*bound, count),
        )
        return [(row[0], row[1]) for row in rows]

    def count_matches(self, table: WordTable, query: str, at_most: int) -> int:
        """Return how many rows match ``query``, counting no further."""
        sql = f"SELECT 1 FROM {table} WHERE {table} MATCH ? LIMIT ?"
        return int(self.value(f"SELECT count(*) FROM ({sql})", query, at_most))

    def rescored(
        self,
        table: WordTable,
        frequencies: Mapping[str, int],
        ids: Sequence[int],
        within: str = "",
    ) -> dict[int, float]:
        """
        Return the BM25 of all ``frequencies``' terms in these rows.

        ``frequencies`` says in how many rows each term, an FTS5 string, occurs;
        ``within`` is a query that all of the rows match, by which they are found.
        """
        if not frequencies:
            return {}
        if within:
            query = f"({within}) AND ({' OR '.join(frequencies)})"
            return self._scores(table, query, frequencies.values(), ids, "+")
        found: dict[int, float] = {}
        for term, frequency in frequencies.items():
            # The plus makes SQLite walk the rows of a term, not look up one by one.
            walk = "+" if frequency < _ROWS_PER_LOOKUP * len(ids) else ""
            scores = self._scores(table, term, [frequency], ids, walk)
            for row_id, score in scores.items():
                found[row_id] = found.get(row_id, 0.0) + score
        return found

    def _scores(
        self,
        table: WordTable,
        query: str,
        frequencies: Collection[int],
        ids: Sequence[int],
        walk: str,
    ) -> dict[int, float]:
        """Return the BM25 of the last of the query's terms, one for each frequency."""
        if not ids:
            return {}
        places = ",".join("?" * len(frequencies))
        rows = self.rows(
            f"SELECT rowid, bm25_of_last({table},{places}) FROM {table} "
            f"WHERE {table} MATCH ? AND {walk}rowid IN "
            "(SELECT value FROM json_each(?))",
            *(*frequencies, query, json.dumps(list(ids))),
        )
        return dict(rows)

    def search_trigrams(self, trigrams: Iterable[str], at_most: int) -> list[int]:
        """Return up to ``at_most`` of the chunks that hold all trigrams, by id."""
        rows = self.rows(
            "SELECT rowid FROM trigrams WHERE trigrams MATCH ? ORDER BY rowid LIMIT ?",
            *(match_all(trigrams), at_most),
        )
        return [row[0] for row in rows]

    def holders(self, query: str, chunk_ids: Sequence[int]) -> set[int]:
        """Return which of these chunks match ``query`` by words."""
        rows = self.rows(
            "SELECT rowid FROM words WHERE words MATCH ? AND rowid IN "
            "(SELECT value FROM json_each(?))",
            *(query, json.dumps(list(chunk_ids))),
        )
        return {row[0] for row in rows}

    # -- terms ------------------------------------------------------------------

    def stems(self, tokens: Iterable[str]) -> dict[str, str]:
        """Return each token as the word index stores it ('' where it keeps none)."""
        return {
            token: " ".join(self.tokenize(WORDS_TOKENIZER, token)) for token in tokens
        }

    def trigrams(self, text: str) -> list[str]:
        """Return the distinct trigrams of ``text`` as the trigram index stores them."""
        return list(dict.fromkeys(self.tokenize(TRIGRAM_TOKENIZER, text)))

    def document_frequencies(self, stems: Iterable[str]) -> dict[str, int]:
        """Return in how many chunks each stem occurs."""
        return self._frequencies("words", stems)

    def page_frequencies(self, stems: Iterable[str]) -> dict[str, int]:
        """Return in how many pages each stem occurs."""
        return self._frequencies("pages", stems)

    def trigram_frequencies(self, trigrams: Iterable[str]) -> dict[str, int]:
        """Return in how many chunks each trigram occurs."""
        return self._frequencies("trigrams", trigrams)

    def _frequencies(self, table: str, terms: Iterable[str]) -> dict[str, int]:
        """
        Return in how many rows each term occurs.

        Exact for rare terms; for common ones as of the last ``settle_text``.
        """
        wanted = list(terms)
        if table == "trigrams" and self.version < _COUNTED_SINCE:
            # An index of an older docs-rag does not count trigrams at all.
            return dict.fromkeys(wanted, 1)
        known = dict(self._common(table, wanted))
        for term in wanted:
            if term not in known:
                sql = f"SELECT doc FROM {table}_vocabulary WHERE term = ?"
                known[term] = self.value(sql, term) or 0
        return {term: known[term] for term in wanted}

    def _common(self, table: str, terms: list[str]) -> Iterator[tuple[str, int]]:
        if self.version >= _COUNTED_SINCE:
            yield from self.rows(
                "SELECT term, count FROM frequencies WHERE kind = ? AND term IN "
                "(SELECT value FROM json_each(?))",
                *(table, json.dumps(terms)),
            )


def _bm25_of_last(api: apsw.FTS5ExtensionApi, *frequencies: Any) -> float:
    """
    Return BM25 of the last phrases of a query in one row, one for each frequency.

    As FTS5 computes it, but for the frequencies: it would count them anew.
    """
    rows = api.row_count
    average = api.column_total_size(-1) / rows
    length = 1 - BM25_B + BM25_B * api.column_size(-1) / average
    first = api.phrase_count - len(frequencies)
    score = 0.0
    for phrase, frequency in enumerate(frequencies, first):
        places = api.phrase_locations(phrase)
        hits = sum(w * len(p) for w, p in zip(FIELD_WEIGHTS, places, strict=True))
        odds = (rows - frequency + 0.5) / (frequency + 0.5)
        idf = max(math.log(odds), BM25_FLOOR) if odds > 0 else BM25_FLOOR
        score += idf * hits * (BM25_K1 + 1) / (hits + BM25_K1 * length)
    return score
