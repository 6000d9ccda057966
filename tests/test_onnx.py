"""Tests of the fastembed backend; those with a model need a folder that holds one."""

import json
import os
import shutil
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from docs_rag.errors import ConfigError, EmbeddingError, TextRefusedError
from docs_rag.onnx import OnnxEmbedder, read_folder
from docs_rag.prefixes import Prefixes
from docs_rag.records import Capacity, Purpose
from docs_rag.windows import split_windows

REPOSITORY = Path(__file__).resolve().parent.parent
NEIGHBOUR = REPOSITORY.parent / "shared" / "models" / "all-MiniLM-L6-v2-int8"
MODEL_FOLDER = Path(os.environ.get("DOCS_RAG_TEST_MODEL", NEIGHBOUR))

PASSAGES = [
    "The lock is taken before the scan and held until the index is written. " * 6,
    "Retry-After tells a client how long to wait; it is seconds, or a date.",
    "所有权系统让程序在没有垃圾回收器的情况下保证内存安全。",
    "x",
]


def installed() -> bool:
    try:
        return bool(metadata.version("fastembed"))
    except metadata.PackageNotFoundError:
        return False


needs_fastembed = pytest.mark.skipif(not installed(), reason="no fastembed")


@pytest.fixture(scope="module")
def embedder() -> OnnxEmbedder:
    if not installed() or not (MODEL_FOLDER / "tokenizer.json").is_file():
        pytest.skip("no fastembed, or no folder in DOCS_RAG_TEST_MODEL")
    return OnnxEmbedder(None, MODEL_FOLDER)


def lay_out_model(folder: Path, **files: Any) -> Path:
    """Write what a model folder needs, all but a model that runs."""
    contents: dict[str, Any] = {
        "model.onnx": b"not really",
        "tokenizer.json": {},
        "tokenizer_config.json": {"model_max_length": 64},
        "config.json": {"hidden_size": 8},
        "1_Pooling/config.json": {
            "pooling_mode_cls_token": False,
            "pooling_mode_mean_tokens": True,
        },
        **{name.replace("__", "/"): content for name, content in files.items()},
    }
    for name, content in contents.items():
        if content is not None:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            raw = (
                content if isinstance(content, bytes) else json.dumps(content).encode()
            )
            path.write_bytes(raw)
    return folder


def test_a_folder_is_read_from_its_own_files(tmp_path: Path) -> None:
    """Pooling, width and prefixes are what the folder says, not guesses."""
    folder = lay_out_model(
        tmp_path,
        **{
            "model.onnx": None,
            "onnx/model.onnx": b"model",
            "1_Pooling/config.json": {"pooling_mode_cls_token": True},
            "config_sentence_transformers.json": {
                "prompts": {"query": "ask: ", "document": "text: "}
            },
        },
    )

    model = read_folder(folder)

    assert (model.model_file, model.pooling) == ("onnx/model.onnx", "CLS")
    assert model.dimension == 8
    assert model.prefixes == Prefixes("ask: ", "text: ")


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"model.onnx": None}, "holds no model.onnx"),
        ({"tokenizer.json": None}, "holds no tokenizer.json"),
        ({"tokenizer_config.json": None}, "holds no tokenizer_config.json"),
        ({"1_Pooling/config.json": None}, "holds no 1_Pooling/config.json"),
        ({"1_Pooling/config.json": {}}, "asks for pooling"),
        (
            {"1_Pooling/config.json": {"pooling_mode_max_tokens": True}},
            "pooling_mode_max_tokens",
        ),
        (
            {
                "1_Pooling/config.json": {
                    "pooling_mode_max_tokens": True,
                    "pooling_mode_mean_tokens": True,
                }
            },
            "only one of",
        ),
        ({"modules.json": [{"type": "sentence_transformers.models.Dense"}]}, "Dense"),
        ({"config.json": {}}, "hidden_size"),
        ({"config.json": b"{"}, "cannot read"),
        ({"config.json": []}, "not a JSON object"),
    ],
)
def test_a_folder_that_says_too_little_is_a_configuration_error(
    tmp_path: Path, files: dict[str, Any], reason: str
) -> None:
    """The message names the folder, what is wrong, and what to do."""
    folder = lay_out_model(tmp_path, **files)

    with pytest.raises(ConfigError, match=reason) as caught:
        read_folder(folder)

    assert str(folder) in str(caught.value)


@pytest.mark.parametrize(
    "name", ["model.onnx", "model.onnx_data", "tokenizer.json", "1_Pooling/config.json"]
)
def test_every_file_that_decides_over_a_vector_is_in_the_digest(
    tmp_path: Path, name: str
) -> None:
    """A changed model, tokenizer or pooling is another space."""
    before = read_folder(lay_out_model(tmp_path)).digest()
    (tmp_path / name).write_bytes(b'{"changed": true}')

    changed = lay_out_model(tmp_path / "copy")
    shutil.copy(tmp_path / name, changed / name)
    model = read_folder(lay_out_model(tmp_path / "whole"))

    assert model.digest() == before
    assert digest_of(changed) != before


def digest_of(folder: Path) -> str:
    """Digest a folder whose small files need not make sense."""
    model = read_folder(lay_out_model(folder.parent / "sound"))
    return type(model)(folder, "model.onnx", "MEAN", 8, None).digest()


@needs_fastembed
def test_without_a_model_the_settings_are_named() -> None:
    """Neither a name nor a folder: the message says both."""
    with pytest.raises(ConfigError, match="EMBED_MODEL nor EMBED_MODEL_PATH"):
        OnnxEmbedder(None, None)


@needs_fastembed
def test_a_named_model_is_not_touched_before_its_use() -> None:
    """The space is known, with its prefixes, before anything is downloaded."""
    identity = OnnxEmbedder("BAAI/bge-small-en-v1.5", None).identity

    assert identity.model == "BAAI/bge-small-en-v1.5"
    assert identity.query_prefix.startswith("Represent this sentence")
    assert identity.passage_prefix == ""


@needs_fastembed
def test_a_query_does_not_wait_for_a_download(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model that is not here yet fails a query soon; indexing is to fetch it."""
    monkeypatch.setenv("FASTEMBED_CACHE_PATH", str(tmp_path))
    started = time.monotonic()

    with pytest.raises(EmbeddingError, match="indexing downloads it"):
        OnnxEmbedder("BAAI/bge-small-en-v1.5", None).embed(["x"], Purpose.QUERY)

    assert time.monotonic() - started < 25


@needs_fastembed
@pytest.mark.parametrize(
    "build",
    [
        lambda folder: OnnxEmbedder("no-such/model", None),
        lambda folder: OnnxEmbedder(None, lay_out_model(folder)),
    ],
    ids=["unknown name", "damaged folder"],
)
def test_a_model_that_does_not_load_says_what_to_do(
    tmp_path: Path, build: Callable[[Path], OnnxEmbedder]
) -> None:
    """Whatever the runtime raises becomes one line that names the setting."""
    with pytest.raises(EmbeddingError, match="EMBED_MODEL") as caught:
        build(tmp_path).embed(["x"], Purpose.PASSAGE)

    assert "\n" not in str(caught.value)


@pytest.fixture(scope="module")
def capacity(embedder: OnnxEmbedder) -> Capacity:
    return embedder.probe()


def test_the_window_is_measured_not_believed(
    embedder: OnnxEmbedder, capacity: Capacity
) -> None:
    """A change of the last token in the window is seen, one behind it is not."""
    assert capacity.window is not None
    room = capacity.window - embedder.count("")
    inside, behind = (
        embedder.embed(
            [" ".join(["map"] * count + [end]) for end in ("red", "nine")],
            Purpose.PASSAGE,
        ).vectors
        for count in (room - 1, room)
    )
    assert embedder.count(" ".join(["map"] * room)) == capacity.window
    assert not np.array_equal(inside[0], inside[1])
    assert np.array_equal(behind[0], behind[1])
    assert capacity.dimension == inside.shape[1]


def test_a_vector_does_not_depend_on_its_company(embedder: OnnxEmbedder) -> None:
    """Even a dynamically quantised model repeats itself, bit for bit."""
    together = embedder.embed(PASSAGES, Purpose.PASSAGE).vectors
    alone = [embedder.embed([text], Purpose.PASSAGE).vectors[0] for text in PASSAGES]

    assert np.array_equal(together, np.stack(alone))
    assert np.allclose(np.linalg.norm(together, axis=1), 1, atol=1e-6)
    assert together.dtype == np.float32


def test_odd_texts_have_vectors_too(embedder: OnnxEmbedder) -> None:
    """Blank, broken and invisible texts neither crash nor give NaN or zero."""
    texts = ["", " \n", "\x00", "\ud800", "\u200b", "\U0001f600" * 900]

    vectors = embedder.embed(texts, Purpose.QUERY).vectors

    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    assert embedder.embed([], Purpose.QUERY).vectors.shape[0] == 0


def test_counting_does_not_truncate(embedder: OnnxEmbedder) -> None:
    """The count of a text is that of all its tokens and the special ones."""
    assert embedder.count("map " * 5000) == 5000 + embedder.count("")


def test_windows_fit_the_model(embedder: OnnxEmbedder, capacity: Capacity) -> None:
    """Cut for the measured window, a long text is inside its vectors to the end."""
    text = "\n".join(PASSAGES[:3] * 9)

    windows = split_windows(embedder, capacity, "Guide > Locks", text)

    assert capacity.window is not None
    assert len(windows) > 1
    assert max(map(embedder.count, windows)) <= capacity.window


def test_the_folder_pins_the_space(embedder: OnnxEmbedder, tmp_path: Path) -> None:
    """The same files elsewhere are the same weights; the name is the folder's."""
    copy = tmp_path / MODEL_FOLDER.name
    shutil.copytree(MODEL_FOLDER, copy)

    assert OnnxEmbedder(None, copy).identity == embedder.identity
    assert embedder.identity.model == MODEL_FOLDER.name


def test_what_the_runtime_refuses_is_a_refused_text(embedder: OnnxEmbedder) -> None:
    """A text that fails in the model is named by its position."""
    broken = OnnxEmbedder(None, MODEL_FOLDER)
    broken.count("load")

    class Failing:
        def passage_embed(self, texts: list[str]) -> list[Any]:
            if "emery" in texts[0]:
                raise ValueError("bad\nshape")
            return [np.ones(4)]

    broken._model = Failing()
    with pytest.raises(TextRefusedError, match="ValueError: bad shape") as caught:
        broken.embed(["awl", "emery", "drill"], Purpose.PASSAGE)

    assert caught.value.position == 1
