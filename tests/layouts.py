"""Folders of documentation for tests, and the corpora over them."""

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from docs_rag.config import Corpus, load_settings

NOBODY = 65534


def lay_out(directory: Path, files: Mapping[str, str | bytes]) -> Path:
    """Write ``files`` below ``directory`` and return it."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return directory


def configure(rag_dir: Path, content: object) -> Path:
    """Write ``content``, JSON text or what becomes JSON, as corpora.json."""
    rag_dir.mkdir(parents=True, exist_ok=True)
    path = rag_dir / "corpora.json"
    text = content if isinstance(content, str) else json.dumps(content)
    path.write_bytes(text.encode())
    return path


def make_corpus(
    tmp_path: Path, files: Mapping[str, str | bytes], **config: object
) -> Corpus:
    """Return the corpus "demo" over ``files``; the scope defaults to roots docs."""
    if not {"top_files", "doc_root_files", "roots"} & set(config):
        config["roots"] = ["docs"]
    lay_out(tmp_path / "corpus" / "demo", files)
    configure(tmp_path, {"demo": config})
    return load_settings({"RAG_DIR": str(tmp_path), "RAG_CORPUS": "demo"}).chosen()


@contextlib.contextmanager
def ordinary_user() -> Iterator[None]:
    """Act as an account that permissions hold for, where the tests run as root."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
