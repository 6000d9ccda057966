"""
What a benchmark says: figures beside the baselines they were timed against.

Every part of the benchmark is a module here with ``measure(bench) -> Section``. A
ratio travels from machine to machine, an absolute time does not: so each figure that
has a baseline was taken in the same run as that baseline.
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Bench:
    """
    One run: how much to measure, where to put what it needs, whom to tell.

    ``work`` is a scratch directory that the run may fill; ``say`` takes a line of
    progress. ``given_sizes`` are chunks to measure at in the place of the usual ones.
    """

    is_full: bool
    work: Path
    repeats: int
    say: Callable[[str], None]
    given_sizes: tuple[int, ...] = ()

    @property
    def sizes(self) -> tuple[int, ...]:
        """The corpora to measure, in chunks, smallest first."""
        usual = (1_000, 10_000, 100_000, 1_000_000) if self.is_full else (1_000, 10_000)
        return self.given_sizes or usual


@dataclass(frozen=True, slots=True)
class Figure:
    """
    One number, its baseline from the same run, and the goal it is held against.

    ``goal`` bounds the ratio where there is a baseline and the value where there is
    none; ``at_least`` says from which side. None: no goal was set.
    """

    name: str
    value: float
    unit: str
    baseline: float | None = None
    baseline_name: str = ""
    goal: float | None = None
    at_least: bool = False

    @property
    def ratio(self) -> float | None:
        """The value in units of the baseline."""
        return self.value / self.baseline if self.baseline else None

    @property
    def is_met(self) -> bool | None:
        """Whether the goal is reached; None where there is none."""
        judged = self.value if self.baseline is None else self.ratio
        if self.goal is None or judged is None:
            return None
        return judged >= self.goal if self.at_least else judged <= self.goal


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text and numbers under a title, for what one figure cannot say."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]


@dataclass(frozen=True, slots=True)
class Section:
    """One part of the report."""

    title: str
    figures: tuple[Figure, ...] = ()
    tables: tuple[Table, ...] = ()
    notes: tuple[str, ...] = ()


def median_seconds(action: Callable[[], object], repeats: int) -> float:
    """Return the median wall time of ``action`` over ``repeats`` calls."""
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        action()
        times.append(time.perf_counter() - started)
    return statistics.median(times)
