"""
The embedder behind fastembed: a model it knows by name, or a folder on disk.

The package is an extra and is imported with the model. Each text is run on its own:
a dynamically quantised model answers a little differently in every other company.
"""

import functools
import hashlib
import importlib
import importlib.util
import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from docs_rag.backend import (
    map_texts,
    prepare,
    sanitize,
    unit_rows,
    usable_cores,
)
from docs_rag.errors import ConfigError, EmbeddingError, TextRefusedError
from docs_rag.prefixes import Prefixes, prefixes_for
from docs_rag.records import Capacity, EmbeddingBatch, ModelIdentity, Purpose
from docs_rag.windows import measure_capacity

if TYPE_CHECKING:
    from docs_rag.records import Vectors

_MODEL_FILES = ("model.onnx", "onnx/model.onnx")

# What decides over a vector beside the model file and its external weights.
_COMPANION_FILES = ("tokenizer.json", "tokenizer_config.json", "1_Pooling/config.json")

# The name in sentence-transformers' pooling file, and fastembed's.
_POOLINGS = {
    "pooling_mode_cls_token": "CLS",
    "pooling_mode_mean_tokens": "MEAN",
    "pooling_mode_lasttoken": "LAST_TOKEN",
}

# Of a sentence-transformers pipeline, what the ONNX file and the pooling cover.
_COVERED_MODULES = {"Transformer", "Pooling", "Normalize"}

_registry_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """A folder with an ONNX sentence model, as far as it must be understood."""

    path: Path
    model_file: str
    pooling: str
    dimension: int
    prefixes: Prefixes | None

    def digest(self) -> str:
        """Return sixteen hex digits of every file that decides over a vector."""
        model = self.path / self.model_file
        files = [model, *sorted(model.parent.glob(f"{model.name}*data"))]
        files += [self.path / name for name in _COMPANION_FILES]
        total = hashlib.sha256()
        for file in files:
            with file.open("rb") as stream:
                total.update(hashlib.file_digest(stream, "sha256").digest())
        return total.hexdigest()[:16]


def read_folder(path: Path) -> ModelFolder:
    """Read what a folder says of its model; ``ConfigError`` if that is too little."""
    model_file = next((name for name in _MODEL_FILES if (path / name).is_file()), None)
    if model_file is None:
        raise ConfigError(
            f"EMBED_MODEL_PATH {path} holds no {' or '.join(_MODEL_FILES)}; "
            "point it at the folder of an ONNX sentence model"
        )
    for name in _COMPANION_FILES:
        if not (path / name).is_file():
            raise ConfigError(
                f"EMBED_MODEL_PATH {path} holds no {name}; "
                "copy it from the repository of the model"
            )
    _refuse_uncovered_modules(path)
    pooling = _read_object(path / "1_Pooling/config.json")
    return ModelFolder(
        path=path,
        model_file=model_file,
        pooling=_pooling(path, pooling),
        dimension=_dimension(path, pooling),
        prefixes=_prompts(path),
    )


def _refuse_uncovered_modules(path: Path) -> None:
    modules = _read_json(path / "modules.json", [])
    kinds = [str(module["type"]).rpartition(".")[2] for module in modules]
    for kind in kinds:
        if kind not in _COVERED_MODULES:
            raise ConfigError(
                f"EMBED_MODEL_PATH {path}: modules.json has a {kind} layer, which the "
                "ONNX file leaves out; use a model without it, or the openai backend"
            )


def _pooling(path: Path, config: dict[str, Any]) -> str:
    modes = {
        key
        for key, value in config.items()
        if key.startswith("pooling_mode_") and value is True
    }
    names = [_POOLINGS[mode] for mode in modes if mode in _POOLINGS]
    if len(modes) != 1 or not names:
        raise ConfigError(
            f"EMBED_MODEL_PATH {path}: 1_Pooling/config.json asks for pooling "
            f"{sorted(modes)}; only one of {sorted(_POOLINGS)} is supported"
        )
    return names[0]


def _dimension(path: Path, pooling: dict[str, Any]) -> int:
    config = _read_object(path / "config.json")
    dimension = config.get("hidden_size", pooling.get("word_embedding_dimension"))
    if not isinstance(dimension, int):
        raise ConfigError(
            f"EMBED_MODEL_PATH {path}: config.json tells no hidden_size; "
            "copy the file from the repository of the model"
        )
    return dimension


def _prompts(path: Path) -> Prefixes | None:
    """Return the prefixes that the folder itself states, if it does."""
    config = _read_object(path / "config_sentence_transformers.json")
    prompts = config.get("prompts")
    if not isinstance(prompts, dict) or not any(prompts.values()):
        return None
    passage = prompts.get("passage") or prompts.get("document") or ""
    return Prefixes(query=prompts.get("query") or "", passage=passage)


def _read_object(path: Path) -> dict[str, Any]:
    value = _read_json(path, {})
    if not isinstance(value, dict):
        raise ConfigError(f"{path} is not a JSON object; copy it anew")
    return value


def _read_json(path: Path, default: Any) -> Any:
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        return default
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot read {path}: {error}; copy it anew") from error


class OnnxEmbedder:
    """An ``Embedder`` on fastembed, by model name or from a folder."""

    def __init__(self, model: str | None, folder: Path | None) -> None:
        if importlib.util.find_spec("fastembed") is None:
            raise ConfigError(
                "RAG_EMBED_BACKEND is fastembed, which is not installed; "
                "run: pip install 'docs-rag[fastembed]'"
            )
        if not model and folder is None:
            raise ConfigError(
                "RAG_EMBED_BACKEND is fastembed but neither EMBED_MODEL nor "
                "EMBED_MODEL_PATH is set; set for example "
                "EMBED_MODEL=BAAI/bge-small-en-v1.5"
            )
        self._folder = None if folder is None else read_folder(folder)
        self._name = model or (folder.resolve().name if folder else "")
        stated = self._folder.prefixes if self._folder else None
        self._prefixes = stated or prefixes_for(self._name)
        self._lock = threading.Lock()
        self._model: Any = None
        self._tokenizer: Any = None
        self._cores = usable_cores()

    @functools.cached_property
    def identity(self) -> ModelIdentity:
        """Hashes the folder's files; of a named model the package decides the rest."""
        # A new release may truncate or pool otherwise: that is another space.
        package = ".".join(metadata.version("fastembed").split(".")[:2])
        digest = f" {self._folder.digest()}" if self._folder else ""
        return ModelIdentity(
            backend="fastembed",
            model=self._name,
            revision=f"fastembed {package}{digest}",
            query_prefix=self._prefixes.query,
            passage_prefix=self._prefixes.passage,
        )

    def probe(self) -> Capacity:
        """Measure width and window: what a model folder says of either is no proof."""

        def embed(texts: Sequence[str]) -> "Vectors":
            return self.embed(texts, Purpose.PASSAGE).vectors

        capacity = measure_capacity(self.count, embed)
        if capacity.window is None:
            return capacity
        # A token cannot be cut: the first one behind the filler was read whole.
        return Capacity(capacity.dimension, capacity.window + 1)

    def count(self, text: str) -> int:
        """Count tokens with the passage prefix and special tokens, untruncated."""
        self._load()
        encoded = self._tokenizer.encode(self._prefixes.passage + sanitize(text))
        return len(encoded.ids)

    def embed(self, texts: Sequence[str], purpose: Purpose) -> EmbeddingBatch:
        """Embed each text on its own; downloads the model only for passages."""
        self._load(may_download=purpose is Purpose.PASSAGE)
        prefix = self._prefixes.of(purpose)
        run = (
            self._model.query_embed
            if purpose is Purpose.QUERY
            else self._model.passage_embed
        )

        def embed_one(position: int, text: str) -> Any:
            try:
                return next(iter(run([prepare(text, prefix)])))
            except Exception as error:  # whatever the runtime raises
                raise TextRefusedError(
                    f"model {self._name} failed on text {position + 1} of the batch "
                    f"({len(text):,} characters): {_one_line(error)}",
                    position,
                ) from error

        if not texts:
            return EmbeddingBatch(np.zeros((0, 0), dtype=np.float32))
        return EmbeddingBatch(unit_rows(map_texts(embed_one, texts, self._cores)))

    def _load(self, may_download: bool = True) -> None:
        """Load once; a query does not wait for a download, which fails slowly."""
        with self._lock:
            if self._model is not None:
                return
            try:
                model = self._open(local_files_only=not may_download)
                # A copy that does not truncate, to count all there is.
                tokenizer = type(model.model.tokenizer).from_str(
                    model.model.tokenizer.to_str()
                )
            except Exception as error:  # the hub's, the runtime's and the tokenizer's
                raise self._load_error(error) from error
            tokenizer.no_truncation()
            tokenizer.no_padding()
            self._model, self._tokenizer = model, tokenizer

    def _open(self, local_files_only: bool) -> Any:
        """Load the model single-threaded; ``map_texts`` brings the threads."""
        fastembed = importlib.import_module("fastembed")
        if self._folder is None:
            return fastembed.TextEmbedding(
                self._name, threads=1, local_files_only=local_files_only
            )
        return fastembed.TextEmbedding(
            _register(fastembed.TextEmbedding, self._folder),
            threads=1,
            specific_model_path=str(self._folder.path),
        )

    def _load_error(self, error: Exception) -> EmbeddingError:
        if self._folder:
            return EmbeddingError(
                f"cannot load the model in {self._folder.path}: {_one_line(error)}; "
                "copy the folder anew, or correct EMBED_MODEL_PATH"
            )
        return EmbeddingError(
            f"cannot load model {self._name}: {_one_line(error)}; check EMBED_MODEL, "
            "and the network, for indexing downloads it the first time; or copy the "
            "model here and set EMBED_MODEL_PATH"
        )


def _register(text_embedding: Any, folder: ModelFolder) -> str:
    """Make the folder known to fastembed, once a process, and return its name."""
    types = importlib.import_module("fastembed.common.model_description")
    name = f"docs-rag/{folder.digest()}"
    with _registry_lock:
        known = {model["model"] for model in text_embedding.list_supported_models()}
        if name not in known:
            text_embedding.add_custom_model(
                model=name,
                pooling=types.PoolingType[folder.pooling],
                normalization=True,
                sources=types.ModelSource(url=folder.path.as_uri()),
                dim=folder.dimension,
                model_file=folder.model_file,
            )
    return name


def _one_line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:300].rstrip(".")
