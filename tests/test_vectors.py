"""Two vector engines, one answer; and one in memory that keeps up cheaply."""

import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from helpers import DIMENSION, Index, digest, make_store, unit_vector
from hypothesis import given, settings
from hypothesis import strategies as st

from docs_rag.records import Capacity, ModelIdentity
from docs_rag.resident import ResidentVectors
from docs_rag.schema import Space
from docs_rag.store import Store
from docs_rag.vectors import DiskVectors, from_bytes, to_bytes

COUNTS = (1, 3, 7, 60)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["a.md", "b.md", "c.md"]),
        st.lists(st.integers(0, 20), max_size=5),
    ),
    min_size=1,
    max_size=6,
)


@pytest.fixture
def index(tmp_path: Path):
    index = make_store(tmp_path / "index.sqlite")
    yield index
    index.store.close()


def exact() -> ResidentVectors:
    """Return an engine that keeps whole vectors."""
    return ResidentVectors()


def by_signs() -> ResidentVectors:
    """Return an engine that keeps their signs only."""
    return ResidentVectors(matrix_bytes=0)


def too_small() -> ResidentVectors:
    """Return an engine that may keep nothing."""
    return ResidentVectors(limit_bytes=0)


def loading_aside() -> ResidentVectors:
    """Return an engine that loads beside the queries, however little it is."""
    return ResidentVectors(inline_vectors=-1)


FORMS = (exact, by_signs)
ENGINES = (DiskVectors, exact, by_signs, too_small, loading_aside)


class CountingStore(Store):
    """A reader that notes which vectors were read to be kept."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.read: list[int] = []

    def live_vectors(self, *args: int) -> list[tuple[int, bytes]]:
        return self._noted(super().live_vectors(*args))

    def live_vectors_among(
        self, space_id: int, ids: Sequence[int]
    ) -> list[tuple[int, bytes]]:
        return self._noted(super().live_vectors_among(space_id, ids))

    def _noted(self, rows: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
        self.read += [row[0] for row in rows]
        return rows


def assert_alike(
    store: Store, space: Space, resident: ResidentVectors, *queries: str
) -> None:
    """Both engines name the same vectors, best first, equal ones by id."""
    disk = DiskVectors()
    for query in queries:
        vector = unit_vector(query, space.capacity.dimension)
        everything = disk.nearest(store, space, vector, 10_000)
        exact = {vector_id: round(cosine, 5) for vector_id, cosine in everything}
        for count in COUNTS:
            for engine in (disk, resident):
                found = engine.nearest(store, space, vector, count)
                cosines = [exact[vector_id] for vector_id, _ in found]
                assert len(found) == min(count, len(everything))
                assert len(dict(found)) == len(found)
                assert cosines == [round(c, 5) for _, c in everything[:count]]
                assert [c for _, c in found] == pytest.approx(cosines, abs=2e-5)


@settings(max_examples=40, deadline=None)
@given(steps=STEPS, engine=st.sampled_from(ENGINES))
def test_engines_agree_after_any_edits(
    tmp_path_factory: pytest.TempPathFactory, steps, engine
) -> None:
    """After every generation all engines give the same answers."""
    path = tmp_path_factory.mktemp("vectors") / "index.sqlite"
    index, resident = make_store(path), engine()
    with index.store, Store(path) as reader:
        for page, numbers in steps:
            index.put(page, *(f"text {number}" for number in numbers))
            with reader.snapshot():
                assert_alike(reader, index.space, resident, "text 3", "another")


def test_equal_vectors_are_cut_by_id(index: Index) -> None:
    """Where more are equally near than were asked for, the lowest ids are named."""
    vector = unit_vector("the one")
    with index.store.transaction():
        index.store.add_vectors(
            index.space.id, {digest(str(n)): to_bytes(vector) for n in range(30)}
        )
        index.store.rows("UPDATE vectors SET spare = 0")
        index.store.advance()
    ids = index.store.vector_ids_by_use(index.space.id, spare=False)
    for engine in (make() for make in ENGINES):
        found = engine.nearest(index.store, index.space, vector, 4)

        assert [vector_id for vector_id, _ in found] == ids[:4]
        assert [cosine for _, cosine in found] == pytest.approx([1.0] * 4, abs=1e-6)


@pytest.mark.parametrize("make", ENGINES)
@pytest.mark.parametrize("count", [0, 1, 60])
def test_an_empty_space_has_no_neighbours(index: Index, make, count: int) -> None:
    """Nothing indexed is nothing found, as is nothing asked for."""
    engine = make()
    assert engine.nearest(index.store, index.space, unit_vector("x"), count) == []
    index.put("docs/a.md", "text")
    found = engine.nearest(index.store, index.space, unit_vector("x"), count)
    assert len(found) == min(count, 1)


@pytest.mark.parametrize("make", FORMS)
def test_a_generation_costs_its_new_vectors_only(index: Index, make) -> None:
    """What is resident is not read again, and what is gone leaves memory."""
    resident, query = make(), unit_vector("x")
    row = 9 + (4 * DIMENSION if make is exact else 10)
    index.put("docs/a.md", *(f"text {number}" for number in range(10)))
    with CountingStore(index.store.path) as reader:
        resident.nearest(reader, index.space, query, 5)
        resident.nearest(reader, index.space, query, 5)
        assert len(reader.read) == 10

        index.put("docs/b.md", "text 3", "another text")
        resident.nearest(reader, index.space, query, 5)
        (another,) = index.store.vector_ids(
            index.space.id, [digest("another text")]
        ).values()
        assert reader.read[10:] == [another]
        assert resident.size_bytes == row * 11

        index.drop("docs/a.md")
        resident.nearest(reader, index.space, query, 5)
        assert reader.read[11:] == []
        assert resident.size_bytes == row * 2
        assert_alike(reader, index.space, resident, "text 3", "another text")


@pytest.mark.parametrize("make", FORMS)
def test_another_space_is_other_vectors(index: Index, make) -> None:
    """After a model switch nothing of the old space is found, back or forth."""
    index.put("docs/a.md", "one", "two")
    with index.store.transaction():
        other = index.store.add_space(ModelIdentity("stub", "wide"), Capacity(16, None))
    wide = Index(index.store, other)
    wide.put("docs/b.md", "three", "four", "five")
    resident = make()
    for space in (index.space, other, index.space, other):
        assert_alike(index.store, space, resident, "one", "three")
    assert resident.size_bytes == 3 * (9 + (4 * 16 if make is exact else 10))


@pytest.mark.parametrize("make", ENGINES)
def test_a_rebuilt_index_is_read_anew(tmp_path: Path, make) -> None:
    """The same ids in another build are other vectors."""
    first, second = make_store(tmp_path / "1.sqlite"), make_store(tmp_path / "2.sqlite")
    first.put("docs/a.md", "one", "two")
    second.put("docs/a.md", "three", "four")
    resident = make()
    with first.store, second.store, Store(first.store.path) as reader:
        assert first.store.generation == second.store.generation
        assert first.store.vector_ids_by_use(
            1, spare=False
        ) == second.store.vector_ids_by_use(1, spare=False)
        assert_alike(reader, first.space, resident, "one", "three")
        first.store.replace_with(second.store)
        assert_alike(reader, first.space, resident, "one", "three")
        ((_, cosine),) = resident.nearest(reader, first.space, unit_vector("three"), 1)
        assert cosine == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("make", ENGINES)
def test_an_older_snapshot_is_answered_from_itself(index: Index, make) -> None:
    """A reader still in an older generation gets that one's vectors."""
    resident = make()
    index.put("docs/a.md", "one", "two")
    with Store(index.store.path) as old, Store(index.store.path) as new:
        with old.snapshot():
            assert_alike(old, index.space, resident, "one", "three")
            index.put("docs/a.md", "two", "three", "four")
            with new.snapshot():
                assert_alike(new, index.space, resident, "one", "three")
            assert_alike(old, index.space, resident, "one", "three")
        assert_alike(old, index.space, resident, "one", "three")


@pytest.mark.parametrize("make", [exact, by_signs, loading_aside])
def test_threads_share_an_engine(index: Index, make) -> None:
    """Eight threads ask while the index changes, and each is answered exactly."""
    resident = make()
    index.put("docs/a.md", *(f"text {number}" for number in range(50)))
    problems: list[BaseException] = []
    done = threading.Event()

    def ask() -> None:
        try:
            with Store(index.store.path) as reader:
                while not done.is_set():
                    with reader.snapshot():
                        assert_alike(reader, index.space, resident, "text 3")
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for number in range(8):
        index.put("docs/b.md", *(f"text {n}" for n in range(40, 50 + number)))
    done.set()
    for thread in threads:
        thread.join()

    assert problems == []


def test_vectors_survive_the_file() -> None:
    """Bytes and back is the same array, little-endian on any machine."""
    matrix = np.array([[0.5, -1.25, 3.0], [1e-30, 7.0, -0.0]], dtype=np.float32)

    assert (from_bytes(to_bytes(matrix), 3) == matrix).all()
    assert to_bytes(matrix.astype(">f4")) == to_bytes(matrix)
    assert to_bytes(matrix[:, ::-1])[:4] == np.float32(3.0).astype("<f4").tobytes()
    assert to_bytes(np.array([1.0], dtype=np.float32)) == b"\x00\x00\x80\x3f"
