"""What is kept between two passes comes back as it was, once, and within a limit."""

from pathlib import Path

from docs_rag.embedding import StubEmbedder
from docs_rag.keeping import Kept
from docs_rag.preparing import Prepared, prepare
from docs_rag.records import Document

TEXT = "# Pump\n\nThe pump primes itself.\n\n## Valve\n\nTurn it \ud83d\udd27 twice.\n"


def prepared(directory: Path, name: str) -> Prepared:
    path = directory / name
    path.write_bytes(TEXT.encode("utf-8", "surrogatepass") + name.encode() * 50)
    document = Document(name, directory, path.stat().st_size, 1, "0" * 64)
    embedder = StubEmbedder()
    return prepare(document, embedder, embedder.probe())


def test_what_is_kept_comes_back_once(tmp_path: Path) -> None:
    """A document is the same after it was packed, and is given back one time."""
    one = prepared(tmp_path, "a.md")
    kept = Kept()
    kept.put("a.md", one)

    assert kept.take("b.md") is None
    assert kept.take("a.md") == one
    assert kept.take("a.md") is None


def test_the_limit_ends_keeping(tmp_path: Path) -> None:
    """What comes after the limit is not kept, however much of it there is."""
    kept = Kept(limit_bytes=2_000)
    for number in range(50):
        kept.put(f"{number}.md", prepared(tmp_path, f"{number}.md"))
    back = [number for number in range(50) if kept.take(f"{number}.md") is not None]

    assert back == list(range(len(back)))
    assert 1 <= len(back) < 10
