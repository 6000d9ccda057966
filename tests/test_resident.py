"""Vectors in memory: within their limit, loaded aside, and as good as the file."""

import threading
from pathlib import Path

import numpy as np
import pytest
from helpers import DIMENSION, Index, make_store, unit_vector

from docs_rag.resident import ResidentVectors
from docs_rag.store import Store
from docs_rag.vectors import DiskVectors, to_bytes

WIDE = 128


@pytest.fixture
def index(tmp_path: Path):
    index = make_store(tmp_path / "index.sqlite")
    yield index
    index.store.close()


def clustered(count: int, seed: int) -> np.ndarray:
    """Return unit vectors (count, WIDE) around many centres, with a common part."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((max(count // 50, 1), WIDE))
    chosen = centres[rng.integers(0, len(centres), count)]
    rows = 0.4 + chosen + 0.7 * rng.standard_normal((count, WIDE))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def filled(path: Path, vectors: np.ndarray) -> Index:
    """Return an index of these vectors, all of them in use."""
    index = make_store(path, dimension=vectors.shape[1])
    with index.store.transaction():
        index.store.add_vectors(
            index.space.id,
            {n.to_bytes(32): to_bytes(row) for n, row in enumerate(vectors)},
        )
        index.store.rows("UPDATE vectors SET spare = 0")
        index.store.advance()
    return index


def test_signs_find_what_the_file_finds(tmp_path: Path) -> None:
    """Of twenty thousand vectors all first tens are found, with their exact cosines."""
    vectors = clustered(20_000, seed=1)
    engine, disk = ResidentVectors(matrix_bytes=0), DiskVectors()
    index = filled(tmp_path / "index.sqlite", vectors)
    with index.store as store:
        space = index.space
        found = total = 0
        for query in clustered(25, seed=1) + 0.02:
            query = (query / np.linalg.norm(query)).astype(np.float32)
            exact = dict(disk.nearest(store, space, query, 100))
            got = engine.nearest(store, space, query, 100)
            assert len(got) == 100
            assert [c for _, c in got] == sorted((c for _, c in got), reverse=True)
            assert all(abs(exact.get(i, c) - c) < 1e-5 for i, c in got)
            first = list(exact)[:10]
            found += len(set(first) & {i for i, _ in got[:12]})
            total += len(first)

    assert engine.name == "resident-signs"
    assert engine.size_bytes == 20_000 * (WIDE // 8 + 11)
    assert found >= 0.99 * total


def test_signs_rank_no_better_than_what_is_asked_for(tmp_path: Path) -> None:
    """The test above can fail: signs alone, without exact comparison, find less."""
    vectors = clustered(20_000, seed=1)
    query = vectors[0] + 0.02
    bits = (vectors > vectors.mean(axis=0)) @ np.sign(query)
    exact = set(np.argsort(-(vectors @ query))[:10])

    assert len(exact & set(np.argsort(-bits)[:10])) < 10


@pytest.mark.parametrize(
    ("limit_bytes", "name"),
    [
        (100 * (4 * DIMENSION + 9), "resident"),
        (100 * (4 * DIMENSION + 9) - 1, "resident-signs"),
        (100 * (8 + 11), "resident-signs"),
        (100 * (8 + 11) - 1, "sqlite-vec"),
    ],
)
def test_the_limit_decides_what_is_kept(index: Index, limit_bytes: int, name: str):
    """Whole vectors, their signs or nothing: what fits, and never more."""
    index.put("docs/a.md", *(f"text {number}" for number in range(100)))
    engine = ResidentVectors(limit_bytes)
    engine.nearest(index.store, index.space, unit_vector("x"), 5)
    state = engine.state(index.store, index.space)

    assert engine.name == state.name == name
    assert engine.size_bytes == state.resident_bytes <= limit_bytes
    assert ("RAG_VECTOR_CACHE_MB" in state.notice) == (name == "sqlite-vec")


def test_growth_leads_from_one_form_to_the_next(index: Index) -> None:
    """What outgrows its form is kept in the next one, and at last not at all."""
    engine = ResidentVectors(limit_bytes=40 * 4 * DIMENSION)
    names = []
    for count in range(5, 120, 5):
        index.put(f"docs/{count}.md", *(f"text {count} {n}" for n in range(5)))
        engine.nearest(index.store, index.space, unit_vector("x"), 5)
        assert engine.size_bytes <= 40 * 4 * DIMENSION
        names.append(engine.name)

    assert list(dict.fromkeys(names)) == ["resident", "resident-signs", "sqlite-vec"]


def test_the_file_answers_while_vectors_are_loaded(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first question waits for nothing; the state says what goes on."""
    index.put("docs/a.md", *(f"text {number}" for number in range(30)))
    engine, may_load = ResidentVectors(inline_vectors=10), threading.Event()
    live_vectors = Store.live_vectors

    def slow(self: Store, *args: int) -> list[tuple[int, bytes]]:
        assert may_load.wait(30)
        return live_vectors(self, *args)

    monkeypatch.setattr(Store, "live_vectors", slow)
    query = unit_vector("x")
    first = engine.nearest(index.store, index.space, query, 5)
    state = engine.state(index.store, index.space)
    assert (engine.name, state.name) == ("sqlite-vec", "sqlite-vec")
    assert "being loaded" in state.notice

    may_load.set()
    engine.wait()
    assert engine.name == "resident"
    assert engine.state(index.store, index.space).notice == ""
    second = engine.nearest(index.store, index.space, query, 5)
    assert [i for i, _ in first] == [i for i, _ in second]


def test_a_file_that_goes_while_it_is_loaded_is_tried_again(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failed load leaves an engine that still answers and loads at the next call."""
    index.put("docs/a.md", "one", "two")
    engine, query = ResidentVectors(inline_vectors=-1), unit_vector("one")
    path, index.store.path = index.store.path, Path("gone.sqlite")
    assert len(engine.nearest(index.store, index.space, query, 5)) == 2
    engine.wait()
    assert engine.name == "sqlite-vec"

    index.store.path = path
    assert len(engine.nearest(index.store, index.space, query, 5)) == 2
    engine.wait()
    assert engine.name == "resident"


def test_blocks_are_shared_by_generations(tmp_path: Path) -> None:
    """A small change to many vectors leaves all blocks but the last as they are."""
    index = filled(tmp_path / "index.sqlite", clustered(40_000, seed=2)[:, :DIMENSION])
    engine, query = ResidentVectors(inline_vectors=10**6), unit_vector("x")
    engine.nearest(index.store, index.space, query, 5)
    before = engine._loaded.shelf.blocks
    index.put("docs/new.md", "a new text")
    engine.nearest(index.store, index.space, query, 5)
    after = engine._loaded.shelf.blocks

    assert len(before) == len(after) == 3
    assert all(one is other for one, other in zip(before[:2], after[:2], strict=True))
    assert len(engine._loaded.shelf) == 40_001
    index.store.close()


@pytest.mark.parametrize("matrix_bytes", [0, 10**9])
def test_vectors_used_again_and_again_stay_in_one_block(
    index: Index, matrix_bytes: int
) -> None:
    """Switching back and forth adds no block for every switch, and nothing twice."""
    engine, query = ResidentVectors(matrix_bytes=matrix_bytes), unit_vector("x")
    index.put("docs/a.md", *(f"text {number}" for number in range(60)))
    for number in range(30):
        index.put("docs/b.md", *(f"branch {number % 2} {n}" for n in range(5)))
        found = engine.nearest(index.store, index.space, query, 200)
        exact = DiskVectors().nearest(index.store, index.space, query, 200)
        assert sorted(i for i, _ in found) == sorted(i for i, _ in exact)

    assert len(engine._loaded.shelf.blocks) == 1
