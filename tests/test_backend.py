"""Tests of what all embedding backends share."""

import os
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from docs_rag.backend import (
    BLANK_STAND_IN,
    map_texts,
    prepare,
    sanitize,
    unit_rows,
    usable_cores,
)
from docs_rag.errors import EmbeddingError

ANY_TEXT = st.text(st.characters(codec=None))


@given(ANY_TEXT)
def test_a_prepared_text_can_be_sent_anywhere(text: str) -> None:
    """Whatever the input, the result is UTF-8, not blank, and free of controls."""
    prepared = prepare(text, "")

    assert prepared.encode("utf-8")
    assert prepared.strip()
    assert not {c for c in prepared if ord(c) < 32} - set("\t\n\r")


@given(st.text(st.characters(exclude_categories=("Cc", "Cs"))))
def test_sanitizing_leaves_ordinary_text_alone(text: str) -> None:
    """Text without controls and surrogates comes back as it was."""
    assert sanitize(text) == text


def test_a_prefix_stands_in_front_of_a_blank_text_too() -> None:
    """A blank text becomes a stand-in, and the prefix is still in front."""
    assert prepare(" \n\x00", "query: ") == f"query: {BLANK_STAND_IN}"


@given(
    st.lists(
        st.lists(st.floats(-1e300, 1e300), min_size=3, max_size=3),
        min_size=1,
        max_size=4,
    )
)
def test_rows_come_out_of_length_one_or_not_at_all(rows: list[list[float]]) -> None:
    """However large or small the numbers, a vector has length one or is refused."""
    if all(any(row) for row in rows):
        assert np.allclose(np.linalg.norm(unit_rows(rows), axis=1), 1.0, atol=1e-6)
        assert unit_rows(rows).dtype == np.float32
    else:
        with pytest.raises(EmbeddingError, match="zero vector"):
            unit_rows(rows)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_rows_that_are_not_finite_are_refused(number: float) -> None:
    """NaN and infinity never reach a caller."""
    with pytest.raises(EmbeddingError, match="NaN or infinity"):
        unit_rows([[1.0, 2.0], [number, 1.0]])


@pytest.mark.parametrize(
    ("files", "limit"),
    [
        ({}, None),
        ({"cpu.max": "max 100000\n"}, None),
        ({"cpu.max": "100000 100000\n"}, 1),
        ({"cpu.max": "20000 100000\n"}, 1),
        ({"cpu.max": "nonsense"}, None),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None),
        ({"cpu/cpu.cfs_quota_us": "90000", "cpu/cpu.cfs_period_us": "100000"}, 1),
    ],
    ids=["none", "v2-max", "v2-one", "v2-part", "v2-broken", "v1-none", "v1-part"],
)
def test_a_cpu_quota_limits_the_cores(
    tmp_path: Path, files: dict[str, str], limit: int | None
) -> None:
    """The cores are those of the affinity mask, or fewer where a quota says so."""
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    available = (
        len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count()
    )

    assert usable_cores(tmp_path) == (limit or available)


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_results_keep_the_order_of_the_texts(workers: int) -> None:
    """Threads may overtake each other; results do not."""
    texts = [str(number) for number in range(40)]

    results = map_texts(lambda position, text: (position, text), texts, workers)

    assert results == list(enumerate(texts))


def test_texts_are_worked_on_side_by_side() -> None:
    """Two workers hold two texts at once."""
    both = threading.Barrier(2, timeout=10)

    map_texts(lambda position, text: both.wait(), ["a", "b"], 2)

    assert not both.broken


def test_a_failure_drops_what_is_still_queued() -> None:
    """The first error comes out, and the rest of the queue is not worked off."""
    seen = []

    def fail(position: int, text: str) -> None:
        seen.append(position)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        map_texts(fail, ["x"] * 5000, 2)

    assert len(seen) < 5000
