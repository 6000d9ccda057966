"""
How similar a corpus is to anything at all, under one model.

A cosine means nothing by itself. It is read against the query's background: the mean
similarity of the query to the corpus, in units of how far similarities spread.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float32]

# The spread where it was not measured: the built-in model's over documentation.
DEFAULT_SPREAD = 0.054


@dataclass(frozen=True, slots=True)
class Background:
    """
    The mean vector of the corpus' passages and that of its headings, and the spread.

    The mean of many cosines to a query is one cosine to their mean.
    """

    body: Vector
    heading: Vector
    spread: float

    def body_stands_out(self, query: Vector, similarity: float) -> float:
        """Return how far ``similarity`` lies above the query's background."""
        return (similarity - float(self.body @ query)) / self.spread

    def heading_stands_out(self, query: Vector, similarity: float) -> float:
        """Return the same for the similarity of a heading."""
        return (similarity - float(self.heading @ query)) / self.spread


def as_json(background: Background) -> dict[str, object]:
    """Return a background in values that JSON has."""
    return {
        "body": [round(float(value), 6) for value in background.body],
        "heading": [round(float(value), 6) for value in background.heading],
        "spread": background.spread,
    }


def from_json(value: dict[str, object]) -> Background:
    """Return the background that ``as_json`` took apart."""
    return Background(
        body=np.array(value["body"], dtype=np.float32),
        heading=np.array(value["heading"], dtype=np.float32),
        spread=float(str(value["spread"])),
    )
