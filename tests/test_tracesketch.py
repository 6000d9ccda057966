"""Rules of percentiles: nearest rank, exact while few, one per cent when many."""

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docs_rag.tracesketch import EXACT_VALUES, RELATIVE_ERROR, Sketch

SHARES = (0.01, 0.5, 0.95, 0.99, 1.0)


def sketch_of(values: list[float]) -> Sketch:
    sketch = Sketch()
    for value in values:
        sketch.add(value)
    return sketch


def nearest_rank(values: list[float], share: float) -> float:
    """The textbook definition, written another way round."""
    return next(
        value
        for rank, value in enumerate(sorted(values), start=1)
        if rank / len(values) >= share - 1e-12
    )


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=60), st.sampled_from(SHARES))
def test_few_values_are_exact(values: list[float], share: float) -> None:
    """Up to the limit, the percentile is one of the values: the nearest rank."""
    sketch = sketch_of(values)

    assert sketch.exact
    assert sketch.percentile(share) == nearest_rank(values, share)
    assert sketch.highest == max(values)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("share", SHARES)
def test_many_values_are_within_one_per_cent(seed: int, share: float) -> None:
    """Beyond the limit, the error is bounded whatever the spread."""
    source = random.Random(seed)
    values = [source.lognormvariate(3, 2) for _ in range(EXACT_VALUES * 3)]
    sketch = sketch_of(values)

    estimate = sketch.percentile(share)

    assert not sketch.exact and len(sketch) == len(values)
    assert estimate == pytest.approx(nearest_rank(values, share), rel=RELATIVE_ERROR)
    assert sketch.highest == max(values)
    assert sketch.total == pytest.approx(sum(values))


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.lists(st.floats(0.01, 1e5), max_size=40).map(lambda few: few * 60),
        max_size=4,
    )
)
def test_merging_is_adding(parts: list[list[float]]) -> None:
    """Sketches merged say the same, within the error, as one that saw it all."""
    together = sketch_of([value for part in parts for value in part])
    merged = Sketch()
    for part in parts:
        merged.merge(sketch_of(part))

    assert len(merged) == len(together)
    for share in SHARES:
        expected = together.percentile(share)
        if expected is not None:
            assert merged.percentile(share) == pytest.approx(
                expected, rel=2.1 * RELATIVE_ERROR
            )


@pytest.mark.parametrize("odd", [0.0, -5.0, 1e-9, 1e300])
def test_odd_values_do_not_break_it(odd: float) -> None:
    """Zero, negative, tiny and huge values are counted at their end of the scale."""
    sketch = sketch_of([odd] * (EXACT_VALUES + 1))

    estimate = sketch.percentile(0.5)

    assert estimate is not None and math.isfinite(estimate)
    assert estimate == pytest.approx(max(odd, 0.0), rel=0.01, abs=0.001)


def test_without_values_there_is_no_percentile() -> None:
    """An empty sketch has no percentile."""
    assert Sketch().percentile(0.95) is None
