"""
Every way docs-rag can fail, on one page.

A message says what happened, where, and what to do about it. Deep code raises
these; only the command line and the MCP boundary turn them into output.
"""

from typing import ClassVar

EXIT_DONE = 0
EXIT_REFUSED = 1
EXIT_USAGE = 2
EXIT_LOCKED = 75


class DocsRagError(Exception):
    """Base of every expected failure; ``str()`` of it is a line for the user."""

    exit_code: ClassVar[int] = EXIT_REFUSED


class ConfigError(DocsRagError):
    """The configuration is wrong; the message names file, corpus, key and remedy."""

    exit_code = EXIT_USAGE


class UnknownCorpusError(ConfigError):
    """No corpus was chosen, or the chosen one is not configured."""


class UnsafeBindingError(DocsRagError):
    """The server would be reachable from outside this machine without a token."""


class IndexMissingError(DocsRagError):
    """There is no index yet for this corpus."""


class IndexLockedError(DocsRagError):
    """Another indexer holds the lock of this corpus."""

    exit_code = EXIT_LOCKED


class IndexCorruptError(DocsRagError):
    """The index file cannot be read as an index."""


class IndexMismatchError(DocsRagError):
    """The index was written by a newer docs-rag, or for another embedding width."""


class StorageError(DocsRagError):
    """The disk refused a write: full, read-only or gone."""


class SourceError(DocsRagError):
    """The repository that a corpus comes from could not be fetched or exported."""


class ShrinkError(DocsRagError):
    """A run would purge more than half of the indexed files."""


class EmbeddingError(DocsRagError):
    """The embedding backend failed, or answered something unusable."""


class TextRefusedError(EmbeddingError):
    """
    One text cannot be embedded, while the backend is well otherwise.

    ``position`` is its place in the texts passed to ``embed``: the caller may leave
    it out and embed the others.
    """

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.position = position


class QueryError(DocsRagError):
    """A query or one of its arguments is out of range."""

    exit_code = EXIT_USAGE


class GoldenError(DocsRagError):
    """A golden file that cannot be used; the message names file and line."""

    exit_code = EXIT_USAGE


class ProbeError(DocsRagError):
    """A running server did not answer as it should."""
