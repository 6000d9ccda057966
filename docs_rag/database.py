"""
One connection to a SQLite index: opening, transactions, migrations, failures.

Knows no table but SQLite's own. Every SQLite error leaves here as a sentence.
"""

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import apsw
import sqlite_vec

from docs_rag.errors import (
    DocsRagError,
    IndexCorruptError,
    IndexMismatchError,
    IndexMissingError,
    StorageError,
)
from docs_rag.schema import APPLICATION_ID, MIGRATIONS

# A 512-wide float32 vector is 2 KiB: seven to a page of this size, one to SQLite's
# default of 4 KiB.
_PAGE_BYTES = 16384
_BUSY_MILLISECONDS = 10_000


def _translate(error: apsw.Error, path: Path) -> DocsRagError:
    """Turn a SQLite failure into the sentence a user can act on."""
    if isinstance(error, apsw.CorruptError | apsw.NotADBError | apsw.SQLError):
        return IndexCorruptError(
            f"{path} is not a readable index ({error}); rebuild it with "
            "`docs-rag index --full`"
        )
    if isinstance(error, apsw.FullError):
        return StorageError(
            f"disk full while writing {path}; the last committed state is intact: "
            "free some space and run again"
        )
    if isinstance(error, apsw.BusyError | apsw.LockedError):
        return StorageError(
            f"{path} has been held by another program for too long; run again when "
            "that has finished"
        )
    return StorageError(
        f"cannot use {path} ({error}); check that its folder exists and is writable "
        "and that the disk has space"
    )


class Database:
    """One connection to an index file. Not for use by two threads at once."""

    def __init__(self, path: Path, *, writable: bool = False) -> None:
        """Open ``path``; with ``writable``, create and migrate it as needed."""
        self.path = path
        if not writable:
            self._look_for_file()
        with self._translated():
            self._connection, self.is_immutable = self._connect(writable)
        try:
            self._check_kind()
            if writable:
                self._prepare_for_writing()
                self.migrate()
            self._check_version()
            self._opened_as = self._identity()
        except BaseException:
            self.close()
            raise

    def _look_for_file(self) -> None:
        try:
            self.path.stat()
        except (FileNotFoundError, NotADirectoryError) as error:
            raise IndexMissingError(
                f"no index at {self.path}; build it with `docs-rag index`"
            ) from error
        except OSError as error:
            raise StorageError(
                f"cannot read {self.path} ({error.strerror}); check its permissions "
                "and those of its folder"
            ) from error

    def _connect(self, writable: bool) -> tuple[apsw.Connection, bool]:
        """Return a connection, and whether it takes the file to stand still."""
        if writable:
            flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
            return self._open(str(self.path), flags), False
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        uri = self.path.absolute().as_uri()
        try:
            return self._open(uri, flags), False
        except (apsw.CantOpenError, apsw.ReadOnlyError):
            # A reader in a folder it may not write to cannot share memory with a
            # writer; such a folder has none, unless a writer left its log there.
            if self._has_log():
                raise
            return self._open(f"{uri}?immutable=1", flags), True

    def _has_log(self) -> bool:
        log = self.path.with_name(f"{self.path.name}-wal")
        return log.exists() and log.stat().st_size > 0

    @staticmethod
    def _open(name: str, flags: int) -> apsw.Connection:
        connection = apsw.Connection(name, flags=flags)
        try:
            connection.set_busy_timeout(_BUSY_MILLISECONDS)
            connection.enable_load_extension(True)
            connection.load_extension(sqlite_vec.loadable_path())
            connection.enable_load_extension(False)
            connection.execute("PRAGMA foreign_keys = ON")
            # The file is not read before it is asked for something.
            connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()
        except BaseException:
            connection.close()
            raise
        return connection

    def _prepare_for_writing(self) -> None:
        self.rows(f"PRAGMA page_size = {_PAGE_BYTES}")
        self.rows("PRAGMA journal_mode = WAL")
        self.rows("PRAGMA synchronous = NORMAL")

    def close(self) -> None:
        """Close the connection; the store is of no use afterwards."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except apsw.Error as error:
            raise _translate(error, self.path) from error

    def rows(self, sql: str, *values: Any) -> list[Any]:
        """Run one statement with its values bound and return all its rows."""
        with self._translated():
            return self._connection.execute(sql, values).fetchall()

    def value(self, sql: str, *values: Any) -> Any:
        """Return the first column of the first row, or None where there is none."""
        rows = self.rows(sql, *values)
        return rows[0][0] if rows else None

    def require_in_place(self) -> None:
        """Raise where the file at ``path`` is no longer the one that is open."""
        if self._identity() != self._opened_as:
            raise StorageError(
                f"{self.path} was deleted or replaced while it was written, so what "
                "was written is lost; run `docs-rag index` again"
            )

    def _identity(self) -> tuple[int, int] | None:
        try:
            status = self.path.stat()
        except OSError:
            return None
        return status.st_dev, status.st_ino

    # -- transactions -----------------------------------------------------------

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Group writes: all of them or, on any exception, none."""
        yield from self._bracket("BEGIN IMMEDIATE", "COMMIT")

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[None]:
        """Group reads: all of them see the same committed generation."""
        yield from self._bracket("BEGIN", "ROLLBACK")

    def _bracket(self, begin: str, end: str) -> Iterator[None]:
        self.rows(begin)
        try:
            yield
            self.rows(end)
        except BaseException:
            # SQLite has already rolled back after some failures (disk full).
            if self._connection.in_transaction:
                self.rows("ROLLBACK")
            raise

    # -- schema -----------------------------------------------------------------

    def migrate(self, migrations: Sequence[str] = MIGRATIONS) -> None:
        """Apply the migrations this file has not had, each in its own transaction."""
        for number in range(self.version + 1, len(migrations) + 1):
            with self.transaction():
                self.rows(migrations[number - 1])
                self.rows(f"PRAGMA user_version = {number}")

    @property
    def version(self) -> int:
        """The number of migrations this file has had."""
        return int(self.value("PRAGMA user_version"))

    def _check_kind(self) -> None:
        """Refuse the database of another program before anything is changed in it."""
        is_empty = self.version == 0 and not self.value(
            "SELECT count(*) FROM sqlite_schema"
        )
        if not is_empty and self.value("PRAGMA application_id") != APPLICATION_ID:
            raise IndexCorruptError(
                f"{self.path} is a database, but no index of this docs-rag; rebuild "
                "it with `docs-rag index --full`, which sets the old file aside"
            )
        if self.version > len(MIGRATIONS):
            raise IndexMismatchError(
                f"{self.path} has schema {self.version}, this docs-rag knows up to "
                f"{len(MIGRATIONS)}: upgrade docs-rag, or rebuild the index with "
                "`docs-rag index --full`"
            )

    def _check_version(self) -> None:
        if self.version == 0:
            raise IndexMissingError(
                f"{self.path} holds no index yet; build it with `docs-rag index`"
            )

    def integrity_problems(self) -> list[str]:
        """Return what SQLite's own checks find wrong; empty when all is well."""
        # Checks the full-text tables too.
        found = [r[0] for r in self.rows("PRAGMA integrity_check") if r[0] != "ok"]
        found += [f"orphan row: {row}" for row in self.rows("PRAGMA foreign_key_check")]
        return found

    def replace_with(self, other: "Database") -> None:
        """Overwrite this index with ``other`` in one step that readers see whole."""
        with (
            self._translated(),
            self._connection.backup("main", other._connection, "main") as copy,
        ):
            while not copy.done:
                copy.step(-1)

    def copy_to(self, path: Path) -> None:
        """
        Write a copy of this index, as last committed, to a new file at ``path``.

        The copy is one file that needs nothing beside it. It may be taken while
        another process writes.
        """
        copy: apsw.Connection | None = None
        try:
            copy = apsw.Connection(
                str(path), flags=apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
            )
            with copy.backup("main", self._connection, "main") as backup:
                while not backup.done:
                    backup.step(-1)
            # The log that goes with WAL would be a second file.
            copy.execute("PRAGMA journal_mode = DELETE").fetchall()
        except apsw.Error as error:
            raise _translate(error, path) from error
        finally:
            if copy is not None:
                copy.close()

    def run_many(self, sql: str, rows: Iterable[tuple[Any, ...]]) -> None:
        """Run one statement once for each row of values."""
        with self._translated():
            self._connection.executemany(sql, rows)

    def tokenize(self, tokenizer: Sequence[str], text: str) -> list[str]:
        """Return the tokens that an FTS5 tokenizer (name, arguments) makes of text."""
        tokenize = self._connection.fts5_tokenizer(tokenizer[0], list(tokenizer[1:]))
        found = tokenize(
            text.encode(errors="replace"),
            apsw.FTS5_TOKENIZE_QUERY,
            None,
            include_offsets=False,
        )
        return [str(token) for group in found for token in group]
