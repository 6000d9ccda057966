"""
Percentiles of a stream in constant memory.

Nearest rank: the p-th percentile of n values is the ceil(p * n)-th smallest. It is
exact up to ``EXACT_VALUES`` values; beyond, values are counted in buckets of equal
ratio and the answer is off by one per cent at most.
"""

import math
from array import array
from collections.abc import Iterable, Iterator

EXACT_VALUES = 2048
RELATIVE_ERROR = 0.01
_RATIO = (1 + RELATIVE_ERROR) / (1 - RELATIVE_ERROR)
_LOG_RATIO = math.log(_RATIO)
# In milliseconds: what lies below a microsecond or above thirty years is not told
# apart once it is in a bucket.
_SMALLEST = 1e-3
_LARGEST = 1e12


class Sketch:
    """Values of which the percentiles will be asked."""

    __slots__ = ("_buckets", "_folded", "_highest", "_lowest", "_pending", "total")

    def __init__(self) -> None:
        self.total = 0.0
        self._pending = array("d")
        self._buckets: dict[int, int] = {}
        self._folded = 0
        self._lowest = math.inf
        self._highest = -math.inf

    def __len__(self) -> int:
        return self._folded + len(self._pending)

    @property
    def exact(self) -> bool:
        """Whether every value is still held."""
        return not self._folded

    @property
    def highest(self) -> float:
        """The largest value, exactly."""
        return max(self._highest, max(self._pending, default=-math.inf))

    def add(self, value: float) -> None:
        """Take one value in; negative ones (a clock set back) count as zero."""
        value = value if value > 0 else 0.0
        self.total += value
        self._pending.append(value)
        if len(self._pending) > EXACT_VALUES:
            self._fold()

    def merge(self, other: "Sketch") -> None:
        """Take the values of another sketch in."""
        self.total += other.total
        self._pending.extend(other._pending)
        self._lowest = min(self._lowest, other._lowest)
        self._highest = max(self._highest, other._highest)
        self._folded += other._folded
        for bucket, count in other._buckets.items():
            self._buckets[bucket] = self._buckets.get(bucket, 0) + count
        if self._folded or len(self._pending) > EXACT_VALUES:
            self._fold()

    def percentile(self, share: float) -> float | None:
        """Return the value at ``share`` (0 < share <= 1), None without values."""
        if not len(self):
            return None
        rank = max(1, math.ceil(share * len(self)))
        if self.exact:
            return sorted(self._pending)[rank - 1]
        self._fold()
        return min(max(self._at(rank), self._lowest), self._highest)

    def _fold(self) -> None:
        """Move the pending values into buckets."""
        if not self._pending:
            return
        self._lowest = min(self._lowest, min(self._pending))
        self._highest = max(self._highest, max(self._pending))
        for bucket in _buckets_of(self._pending):
            self._buckets[bucket] = self._buckets.get(bucket, 0) + 1
        self._folded += len(self._pending)
        self._pending = array("d")

    def _at(self, rank: int) -> float:
        seen = 0
        for bucket in sorted(self._buckets):
            seen += self._buckets[bucket]
            if seen >= rank:
                break
        # The middle, in ratio, of everything the bucket may hold.
        return 2 * _RATIO**bucket / (_RATIO + 1)


def _buckets_of(values: Iterable[float]) -> Iterator[int]:
    """Yield n for each value in (ratio**(n-1), ratio**n]."""
    for value in values:
        yield math.ceil(math.log(min(max(value, _SMALLEST), _LARGEST)) / _LOG_RATIO)
