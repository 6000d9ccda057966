"""
One bit a dimension: a vector's signs, and how many of them two vectors do not share.

Pure. The share of equal signs grows with the cosine (Charikar, "Similarity estimation
techniques from rounding algorithms", STOC 2002; here without the random projection),
so the vectors with the fewest different signs are those worth estimating, and those of
the best estimates worth comparing exactly (Gao and Long, "RaBitQ", SIGMOD 2024, whose
correction for each vector the estimate takes; again without its random rotation, which
gained nothing in ``eval/bench``).
"""

import numpy as np
import numpy.typing as npt

Vectors = npt.NDArray[np.float32]
Bits = npt.NDArray[np.uint64]
Distances = npt.NDArray[np.uint16]
Scales = npt.NDArray[np.float16]

_WORD_BITS = 64
# Rows whose bits are unpacked at a time: what a processor's cache holds.
_UNPACKED_ROWS = 512
# A vector that is its own centre has no signs to speak of.
_LEAST_SPREAD = 1e-12
# Farther than any two vectors can be: for rows that are not to be found.
FARTHEST = np.uint16(0xFFFF)


def words_per_vector(dimension: int) -> int:
    """Return how many 64-bit words hold the signs of one vector."""
    return -(-dimension // _WORD_BITS)


def signs(vectors: Vectors, centre: Vectors) -> Bits:
    """
    Return the signs of ``vectors`` (count, dimension) as seen from ``centre``.

    Shape (count, words), in Fortran order: a column at a time is what is read. Seen
    from their mean, for what all vectors have in common tells none of them apart.
    """
    packed = np.packbits(vectors > centre, axis=1, bitorder="little")
    width = 8 * words_per_vector(vectors.shape[1])
    padded = np.zeros((len(vectors), width), dtype=np.uint8)
    padded[:, : packed.shape[1]] = packed
    return np.asfortranarray(padded.view(np.uint64))


def scales(vectors: Vectors, centre: Vectors) -> Scales:
    """
    Return for each vector what its signs have to be multiplied by, shape (count,).

    With d the vector as seen from ``centre``: the sum of d squared over the sum of d's
    absolute values, so that the estimate of a vector's product with itself is exact.
    """
    seen = vectors - centre
    spread = np.abs(seen).sum(axis=1)
    squares = np.square(seen).sum(axis=1)
    found: Scales = (squares / np.maximum(spread, _LEAST_SPREAD)).astype(np.float16)
    return found


def distances(bits: Bits, query: Bits) -> Distances:
    """
    Return in how many signs each row of ``bits`` (count, words) differs from ``query``.

    ``query`` has shape (words,); the result, (count,), is the Hamming distance.
    """
    total = np.zeros(len(bits), dtype=np.uint16)
    differing = np.empty(len(bits), dtype=np.uint64)
    counts = np.empty(len(bits), dtype=np.uint8)
    for word in range(bits.shape[1]):
        np.bitwise_xor(bits[:, word], query[word], out=differing)
        np.bitwise_count(differing, out=counts)
        np.add(total, counts, out=total)
    return total


def estimates(bits: Bits, scales: Scales, query: Vectors) -> npt.NDArray[np.float32]:
    """
    Return the estimated product of ``query`` (dimension,) with each row's vector.

    Seen from the centre, whose own product all rows have in common. The sum of the
    query's components, each with the sign of the row's, times the row's scale: finer
    than a distance of signs, in which a component near nothing counts as a large one.
    """
    packed = np.ascontiguousarray(bits).view(np.uint8)
    fit = np.empty(len(bits), dtype=np.float32)
    for start in range(0, len(bits), _UNPACKED_ROWS):
        part = slice(start, start + _UNPACKED_ROWS)
        unpacked = np.unpackbits(
            packed[part], axis=1, count=len(query), bitorder="little"
        )
        fit[part] = unpacked.astype(np.float32) @ query
    found: npt.NDArray[np.float32] = (2 * fit - query.sum()) * scales
    return found.astype(np.float32)


def closest(found: Distances, count: int) -> npt.NDArray[np.intp]:
    """
    Return the positions of the ``count`` smallest distances, ties by position.

    Those at ``FARTHEST`` are left out. In ascending order of position.
    """
    histogram = np.bincount(found, minlength=int(FARTHEST) + 1)[: int(FARTHEST)]
    below = np.cumsum(histogram)
    limit = int(np.searchsorted(below, count))
    surely = np.flatnonzero(found < limit)
    ties = np.flatnonzero((found == limit) & (found < FARTHEST))
    return np.sort(np.concatenate([surely, ties[: max(count - len(surely), 0)]]))
