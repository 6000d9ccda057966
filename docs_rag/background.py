"""
How similar a corpus is to anything at all, under one model.

A cosine means nothing by itself. It is read against the query's background: the mean
similarity of the query to the corpus, in units of how far similarities spread.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float32]

# What does not know meaning may still break ties.
_LEAST_TRUST = 0.001

# The spread where it was not measured: the built-in model's over documentation.
DEFAULT_SPREAD = 0.054


@dataclass(frozen=True, slots=True)
class Background:
    """
    The mean vector of the corpus' passages and that of its headings, and the spread.

    The mean of many cosines to a query is one cosine to their mean. ``trust`` is how
    far the model's similarity goes by meaning, from 0 (not at all) to 1.
    """

    body: Vector
    heading: Vector
    spread: float
    trust: float = 1.0

    @property
    def unit(self) -> float:
        """The difference in similarity that counts one: less trust, a larger one."""
        return self.spread / max(self.trust, _LEAST_TRUST)

    def body_stands_out(self, query: Vector, similarity: float) -> float:
        """Return how far ``similarity`` is above the query's background, in units."""
        return (similarity - float(self.body @ query)) / self.unit

    def heading_stands_out(self, query: Vector, similarity: float) -> float:
        """Return the same for the similarity of a heading."""
        return (similarity - float(self.heading @ query)) / self.unit


def as_json(background: Background) -> dict[str, object]:
    """Return a background in values that JSON has."""
    return {
        "body": [round(float(value), 6) for value in background.body],
        "heading": [round(float(value), 6) for value in background.heading],
        "spread": background.spread,
        "trust": background.trust,
    }


def from_json(value: dict[str, object]) -> Background:
    """Return the background that ``as_json`` took apart."""
    return Background(
        body=np.array(value["body"], dtype=np.float32),
        heading=np.array(value["heading"], dtype=np.float32),
        spread=float(str(value["spread"])),
        trust=float(str(value.get("trust", 1.0))),
    )
