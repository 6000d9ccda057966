"""Stores lent to threads: fresh where the file is another, closed where they end."""

import threading
from pathlib import Path

import pytest
from helpers import Index, make_store
from layouts import ordinary_user

from docs_rag.errors import DocsRagError, IndexMissingError
from docs_rag.readers import ReaderPool


@pytest.fixture
def index(tmp_path: Path):
    index = make_store(tmp_path / "index.sqlite")
    index.put("docs/a.md", "one")
    yield index
    index.store.close()


@pytest.fixture
def pool(index: Index):
    pool = ReaderPool(index.store.path)
    yield pool
    pool.close()


def bodies(pool: ReaderPool) -> list[str]:
    with pool.snapshot() as store:
        return [chunk.body for chunk in store.all_chunks()]


def is_open(store) -> bool:
    try:
        store.value("SELECT 1")
    except DocsRagError:
        return False
    return True


def test_a_store_is_used_again(pool: ReaderPool) -> None:
    """One call after another costs one open file."""
    with pool.snapshot() as first:
        pass
    with pool.snapshot() as second:
        assert second is first


def test_calls_at_once_get_stores_of_their_own(pool: ReaderPool) -> None:
    """Two snapshots at a time are two connections."""
    with pool.snapshot() as first, pool.snapshot() as second:
        assert first is not second


def test_each_snapshot_sees_the_last_commit(pool: ReaderPool, index: Index) -> None:
    """A store that was lent before still shows what was committed since."""
    assert bodies(pool) == ["one"]
    index.put("docs/a.md", "two")
    assert bodies(pool) == ["two"]


def test_an_index_that_comes_later_is_found(tmp_path: Path) -> None:
    """Without a file there is an error, and with it there is none."""
    path = tmp_path / "later.sqlite"
    pool = ReaderPool(path)
    with pytest.raises(IndexMissingError), pool.snapshot():
        pytest.fail("a snapshot of nothing")
    index = make_store(path)
    index.put("docs/a.md", "one")
    with index.store:
        assert bodies(pool) == ["one"]
    pool.close()


def test_a_deleted_and_rebuilt_index_is_picked_up(
    pool: ReaderPool, index: Index
) -> None:
    """A new file of the same name replaces the one that is open."""
    with pool.snapshot() as first, pool.snapshot() as second:
        pass
    index.store.close()
    path = index.store.path
    path.unlink()
    with pytest.raises(IndexMissingError):
        bodies(pool)
    # The file system may give the new file the number of the old one.
    for number in range(5):
        with make_store(path).store as store:
            store.set_meta(round=number)
            rebuilt = Index(store, index.space)
            rebuilt.put("docs/b.md", f"body {number}")
            assert bodies(pool) == [f"body {number}"]
        assert bodies(pool) == [f"body {number}"]
        path.unlink()
    assert not is_open(first)
    assert not is_open(second)


def test_a_failed_call_takes_its_store_along(pool: ReaderPool) -> None:
    """A store whose call failed is closed: nobody knows what state it is in."""
    with pytest.raises(ZeroDivisionError), pool.snapshot() as failed:
        raise ZeroDivisionError
    assert not is_open(failed)
    assert bodies(pool) == ["one"]


def test_closing_reaches_what_is_lent_out(pool: ReaderPool) -> None:
    """Idle stores close at once, the others when they come back."""
    with pool.snapshot() as idle:
        pass
    with pool.snapshot() as lent:
        assert lent is idle
        with pool.snapshot() as other:
            pass
        pool.close()
        assert is_open(lent)
        assert not is_open(other)
    assert not is_open(lent)


def test_a_store_without_locks_is_not_kept(pool: ReaderPool, index: Index) -> None:
    """Where a reader cannot follow a writer, each call opens the file anew."""
    index.store.close()
    folder = index.store.path.parent
    for parent in [folder, *folder.parents]:
        if "pytest" in str(parent):
            parent.chmod(0o755)
    with ordinary_user():
        with pool.snapshot() as first:
            assert first.is_immutable
        assert not is_open(first)
        assert bodies(pool) == ["one"]
    with make_store(index.store.path).store as store:
        Index(store, index.space).put("docs/a.md", "two")
    with ordinary_user():
        assert bodies(pool) == ["two"]


def test_eight_threads_share_a_pool(pool: ReaderPool, index: Index) -> None:
    """Each call sees one generation whole, while a writer goes on."""
    problems: list[BaseException] = []
    generations: set[int] = set()
    done = threading.Event()

    def ask() -> None:
        try:
            while not done.is_set():
                with pool.snapshot() as store:
                    generation = store.generation
                    found = {chunk.body for chunk in store.all_chunks()}
                    assert found in ({"one"}, {f"round {generation}", "same"})
                    assert store.generation == generation
                generations.add(generation)
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for _ in range(20):
        generation = index.store.generation + 1
        index.put("docs/a.md", f"round {generation}", "same")
    done.set()
    for thread in threads:
        thread.join()

    assert problems == []
    assert generations
