"""
The documents of a corpus as they are on disk now: bytes hashed, text decoded.

Every file in scope is read in full, because size and time stamps do not tell
whether it changed. A file that cannot be read is reported, never raised.
"""

import codecs
import errno
import hashlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from docs_rag.corpora import Corpus, printable
from docs_rag.errors import ConfigError
from docs_rag.provenance import read_source
from docs_rag.records import Document, Scan, Skipped, Source
from docs_rag.scope import Listing, list_scope
from docs_rag.tree import unreadable

__all__ = ["MAX_FILE_BYTES", "SourceText", "decode", "read_source", "read_text", "scan"]

MAX_FILE_BYTES = 16 * 1024 * 1024

# Of a pipe, not to wait for its other end; and no descriptor for git, which is asked.
_AT_ONCE = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
_MORE_BYTES = 65_536

_BINARY = "binary: not UTF-8, and holds NUL bytes"
_UNMARKED_UTF16 = "binary, or UTF-16 without a byte order mark"
_NOT_UTF8 = "not UTF-8, read as Windows-1252"

# The longer mark first: UTF-32 little-endian begins like UTF-16.
_MARKED_ENCODINGS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


@dataclass(frozen=True, slots=True)
class SourceText:
    """
    A document as text, with the facts of the bytes that were read for it.

    ``notice`` says what the reader of the text should know; where the bytes are not
    text at all, it says so and ``text`` is empty.
    """

    text: str
    document: Document
    notice: str | None

    @property
    def sha256(self) -> str:
        """The digest of the bytes that were read."""
        return self.document.sha256


def scan(corpus: Corpus) -> Scan:
    """Read and hash every file in the scope of ``corpus``."""
    _require_directory(corpus)
    listing = list_scope(corpus)
    skipped = dict(listing.skipped)
    documents: dict[str, Document] = {}
    for found in listing.found:
        try:
            data, document = _read(found.path, corpus.directory)
        except OSError as error:
            skipped[found.path] = _why(error)
            continue
        # Without a zero byte anything is text: no need to decode it here.
        text, notice = decode(data) if b"\0" in data else ("", None)
        if text is None:
            skipped[found.path] = notice or "not text"
        else:
            documents[found.real_path] = document
    matched = _matched(listing, documents)
    source = read_source(corpus.directory)
    return Scan(
        documents=tuple(documents.values()),
        skipped=tuple(Skipped(*row) for row in sorted(skipped.items())),
        unmatched=tuple(
            f"{label} ({listing.remarks[label]})" if label in listing.remarks else label
            for label, paths in matched.items()
            if not paths and not _left_out_at_the_source(label, source)
        ),
        matched=matched,
        source=source,
    )


def _left_out_at_the_source(label: str, source: Source) -> bool:
    """Tell whether an entry excludes what was never sent to this mirror."""
    return source.synced_at is not None and label.startswith("exclude_dirs:")


def read_text(document: Document) -> SourceText:
    """
    Read ``document`` again, as text.

    The answer carries the facts of what was read now, which the caller must store
    in place of those of the scan. Raises OSError where there is no file to read.
    """
    data, now = _read(document.path, document.root)
    text, notice = decode(data)
    return SourceText(text or "", now, notice)


def decode(data: bytes) -> tuple[str | None, str | None]:
    """
    Return ``data`` as text and what to know of it; None for what is not text.

    A byte order mark decides, and is taken off. Without one the bytes are UTF-8, or
    else Windows-1252, in which nearly any bytes mean something.
    """
    for mark, encoding in _MARKED_ENCODINGS:
        if data.startswith(mark):
            return _decode_marked(data, encoding)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        if b"\0" in data:
            return None, _BINARY
        return data.decode("cp1252", errors="replace"), _NOT_UTF8
    if data.count(b"\0") * 4 > len(data):
        return None, _UNMARKED_UTF16
    return text, None


def _decode_marked(data: bytes, encoding: str) -> tuple[str, str | None]:
    try:
        return data.decode(encoding), None
    except UnicodeDecodeError:
        notice = f"damaged {encoding.upper()}, unreadable parts replaced"
        return data.decode(encoding, errors="replace"), notice


def _require_directory(corpus: Corpus) -> None:
    """Refuse a corpus that cannot be listed: it would look like an empty one."""
    try:
        os.scandir(corpus.directory).close()
    except FileNotFoundError:
        state = "does not exist"
    except NotADirectoryError:
        state = "is not a directory"
    except OSError as error:
        state = unreadable(error)
    else:
        return
    remedy = "put the documentation there"
    if corpus.git_origin_repo is not None:
        remedy = "fetch it with `docs-rag refresh`"
    raise ConfigError(
        f'corpus "{corpus.name}", key "corpus_dir": '
        f"{printable(str(corpus.directory))} {state}: {remedy}, "
        "or correct corpus_dir in corpora.json (or RAG_CORPUS_DIR)"
    )


def _read(path: str, root: Path) -> tuple[bytes, Document]:
    """Read a file whole, unless it is a pipe to wait for or far too large."""
    # Calls of the system: a file object costs as much as all else that is done here.
    descriptor = os.open(f"{root}/{path}", _AT_ONCE)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        if status.st_size > MAX_FILE_BYTES:
            raise OSError(errno.EFBIG, _too_large(status.st_size))
        data = _read_whole(descriptor, status.st_size)
    finally:
        os.close(descriptor)
    if len(data) > MAX_FILE_BYTES:
        raise OSError(errno.EFBIG, _too_large(len(data)))
    digest = hashlib.sha256(data).hexdigest()
    return data, Document(path, root, len(data), status.st_mtime_ns, digest)


def _read_whole(descriptor: int, size: int) -> bytes:
    """Read to the end, which is where ``size`` says unless the file grows."""
    parts = [os.read(descriptor, size + 1)]
    # Only an empty read is the end: a file system may give less than was asked for.
    while parts[-1] and sum(map(len, parts)) <= MAX_FILE_BYTES:
        parts.append(os.read(descriptor, _MORE_BYTES))
    return b"".join(parts)


def _too_large(size: int) -> str:
    return f"{size:,} bytes, more than the {MAX_FILE_BYTES:,} that are read"


def _why(error: OSError) -> str:
    if error.errno in (errno.EINVAL, errno.EFBIG):
        return str(error.strerror)
    return unreadable(error)


def _matched(
    listing: Listing, documents: dict[str, Document]
) -> dict[str, tuple[str, ...]]:
    """Return the paths each entry led to, or the directories it excluded."""
    matched = {}
    for label, real_paths in listing.entries.items():
        if label.startswith("exclude_dirs: "):
            paths = [printable(path) for path in real_paths]
        else:
            paths = [documents[path].path for path in real_paths if path in documents]
        matched[label] = tuple(sorted(paths))
    return matched
