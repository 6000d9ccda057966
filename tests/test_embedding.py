"""Tests of choosing an embedder, and of the built-in one and the stub."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import threadpoolctl
from fake_endpoint import fake_endpoint
from hypothesis import given, settings
from hypothesis import strategies as st

from docs_rag.embedding import (
    BUILTIN_MAX_CHARS,
    BuiltinEmbedder,
    EmbedderSpec,
    StubEmbedder,
    build_embedder,
)
from docs_rag.errors import ConfigError, TextRefusedError
from docs_rag.records import Embedder, Purpose, Secret
from docs_rag.remote import HttpEmbedder
from docs_rag.windows import measure_capacity

PASSAGES = [
    "The lock is taken before the scan and held until the index is written. " * 4,
    "Retry-After tells a client how long to wait; it is seconds, or a date.",
    "所有权系统让程序在没有垃圾回收器的情况下保证内存安全。",
    "```rust\nlet v: Vec<i32> = vec![1, 2, 3];\n```",
    "x",
]
ODD_TEXTS = ["", " \n\t", "\x00\x01", "\ud800", "\u200b", "\ufeff", "\ufdfa" * 9, "—"]


@pytest.fixture(scope="module")
def builtin() -> BuiltinEmbedder:
    return loaded(BuiltinEmbedder())


@pytest.fixture(params=["builtin", "stub"])
def offline(request: pytest.FixtureRequest, builtin: BuiltinEmbedder) -> Embedder:
    return builtin if request.param == "builtin" else StubEmbedder()


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (EmbedderSpec("lmstudio"), ["RAG_EMBED_BACKEND", "lmstudio", "openai"]),
        (EmbedderSpec(""), ["RAG_EMBED_BACKEND", "builtin, fastembed"]),
        (EmbedderSpec("openai"), ["EMBED_MODEL"]),
        (EmbedderSpec("openai", model=""), ["EMBED_MODEL"]),
        (
            EmbedderSpec("openai", model="m", base_url="example.com/v1"),
            ["LMSTUDIO_BASE_URL", "http://"],
        ),
        (
            EmbedderSpec("openai", model="m", api_key=Secret("a\nb")),
            ["LMSTUDIO_API_KEY"],
        ),
    ],
)
def test_a_choice_that_cannot_be_built_names_the_setting(
    spec: EmbedderSpec, words: list[str]
) -> None:
    """The error is one line, with the setting and what to set it to."""
    with pytest.raises(ConfigError) as caught:
        build_embedder(spec)

    for word in words:
        assert word in str(caught.value)
    assert "\n" not in str(caught.value)


def test_building_asks_and_loads_nothing() -> None:
    """An embedder is there at once; the model loads, the server is asked, on use."""
    started = time.monotonic()
    with fake_endpoint() as server:
        remote = build_embedder(
            EmbedderSpec("openai", model="m", base_url=server.base_url)
        )
        assert isinstance(remote, HttpEmbedder)
        remote.close()
        assert server.calls == []
    assert build_embedder(EmbedderSpec("builtin")).identity.backend == "builtin"
    assert build_embedder(EmbedderSpec("stub")).identity.model == "stub"
    assert time.monotonic() - started < 5


def test_a_spec_does_not_show_the_key() -> None:
    """The representation of a specification is fit for a log."""
    spec = EmbedderSpec("openai", api_key=Secret("sk-secret"))

    assert "sk-secret" not in f"{spec!r} {spec}"


def test_backends_have_different_fingerprints(builtin: BuiltinEmbedder) -> None:
    """The vectors of two embedders never pass for those of one."""
    assert builtin.identity.fingerprint != StubEmbedder().identity.fingerprint
    assert builtin.identity.revision


def test_vectors_are_unit_and_of_the_stated_width(offline: Embedder) -> None:
    """Every vector is float32, finite, of length one and as wide as the probe says."""
    vectors = offline.embed(PASSAGES, Purpose.PASSAGE).vectors

    assert vectors.shape == (len(PASSAGES), offline.probe().dimension)
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)


def test_odd_texts_have_vectors_too(offline: Embedder) -> None:
    """Blank, broken and invisible texts neither crash nor give NaN or zero."""
    vectors = offline.embed(ODD_TEXTS, Purpose.QUERY).vectors

    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)


def test_nothing_to_embed_is_no_rows(offline: Embedder) -> None:
    """No texts give an array of the right width and no rows."""
    vectors = offline.embed([], Purpose.PASSAGE).vectors

    assert vectors.shape == (0, offline.probe().dimension)


def test_a_vector_does_not_depend_on_its_company(offline: Embedder) -> None:
    """Alone, in a batch, or in another order: the same bits."""
    together = offline.embed(PASSAGES, Purpose.PASSAGE).vectors
    backwards = offline.embed(PASSAGES[::-1], Purpose.PASSAGE).vectors[::-1]
    alone = [offline.embed([text], Purpose.QUERY).vectors[0] for text in PASSAGES]

    assert np.array_equal(together, backwards)
    assert np.array_equal(together, np.stack(alone))


EMBED = f"""
import hashlib, sys
from docs_rag.embedding import BuiltinEmbedder
from docs_rag.records import Purpose
embedder = BuiltinEmbedder()
embedder._cores = int(sys.argv[1])
vectors = embedder.embed({PASSAGES!r}, Purpose.PASSAGE).vectors
print(hashlib.sha256(vectors.tobytes()).hexdigest())
"""


def test_a_vector_does_not_depend_on_the_cores() -> None:
    """One worker or three, on a machine where BLAS takes one core or four: one hash."""
    hashes = {
        subprocess.run(
            [sys.executable, "-c", EMBED, str(workers)],
            env={**os.environ, "OPENBLAS_NUM_THREADS": str(blas)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for workers, blas in ((1, 1), (3, 4))
    }

    assert len(hashes) == 1


def blas_threads() -> list[int]:
    return [
        library["num_threads"]
        for library in threadpoolctl.threadpool_info()
        if library["user_api"] == "blas"
    ]


def test_blas_stays_at_one_thread_whoever_loads() -> None:
    """A model loaded in a worker thread is not left to spin on threads of BLAS."""
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        # The main thread holds the limit here, and yields it all the same.
        run_together(lambda number: loaded(BuiltinEmbedder()), 1)

        assert set(blas_threads()) <= {1}


def loaded(embedder: BuiltinEmbedder) -> BuiltinEmbedder:
    embedder.embed(["load"], Purpose.QUERY)
    return embedder


def test_concurrent_calls_agree(builtin: BuiltinEmbedder) -> None:
    """Many threads at once get the vectors of one."""
    expected = builtin.embed(PASSAGES, Purpose.PASSAGE).vectors
    wrong: list[int] = []

    def work(number: int) -> None:
        for _ in range(5):
            vectors = builtin.embed(PASSAGES, Purpose.PASSAGE).vectors
            if not np.array_equal(vectors, expected):
                wrong.append(number)

    run_together(work, 6)

    assert wrong == []


def test_the_model_loads_once_for_all_threads() -> None:
    """Threads that come at the same time wait for one loading of the model."""
    embedder = BuiltinEmbedder()
    models: list[int] = []

    def work(number: int) -> None:
        embedder.embed(["x"], Purpose.QUERY)
        models.append(id(embedder._model))

    run_together(work, 4)

    assert len(models) == 4
    assert len(set(models)) == 1


def run_together(work: Callable[[int], object], count: int) -> None:
    threads = [threading.Thread(target=work, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_the_builtin_window_is_what_the_probe_says(builtin: BuiltinEmbedder) -> None:
    """Measured, the built-in model reads every one of 4,096 words."""
    measured = measure_capacity(
        lambda text: len(text.split()),
        lambda texts: builtin.embed(texts, Purpose.PASSAGE).vectors,
    )

    assert builtin.probe() == measured


def test_a_text_that_would_fill_memory_is_refused(builtin: BuiltinEmbedder) -> None:
    """The text is named by position, so that the others can go on without it."""
    with pytest.raises(TextRefusedError, match="split it") as caught:
        builtin.embed(["x", "y" * (BUILTIN_MAX_CHARS + 1)], Purpose.PASSAGE)

    assert caught.value.position == 1


def test_the_builtin_model_finds_across_languages(builtin: BuiltinEmbedder) -> None:
    """A Chinese question is nearest to the English passage that answers it."""
    passages = builtin.embed(
        ["How to install the compiler", "Threads share memory", "Printing a receipt"],
        Purpose.PASSAGE,
    ).vectors
    question = builtin.embed(["如何安装编译器？"], Purpose.QUERY).vectors[0]

    assert np.argmax(passages @ question) == 0


@settings(max_examples=100)
@given(st.text(st.characters(codec=None)))
def test_the_stub_takes_any_text(text: str) -> None:
    """No text is beyond hashing, and none has a zero vector."""
    vectors = StubEmbedder().embed([text], Purpose.PASSAGE).vectors

    assert np.allclose(np.linalg.norm(vectors), 1, atol=1e-6)


def test_a_pasted_page_costs_the_built_in_model_no_more_than_a_long_question(
    builtin: Embedder,
) -> None:
    """Of a query only both ends count, however long; of a passage every word does."""
    middles = ("Heave to. " * 900, "Drop anchor. " * 1_500)
    texts = [f"{'Reef the sail. ' * 80}{m}{'Man the pump. ' * 80}" for m in middles]
    first, second = builtin.embed(texts, Purpose.QUERY).vectors
    whole, other = builtin.embed(texts, Purpose.PASSAGE).vectors

    assert np.array_equal(first, second)
    assert np.linalg.norm(whole - other) > 0.05
    assert not np.array_equal(first, whole)


@pytest.mark.parametrize(
    ("query", "like", "unlike"),
    [
        ("Take the LOCK", "the lock we take", "a printed receipt"),
        ("所有权", "变量的所有权转移", "线程之间的消息"),
        ("E0502 borrow", "error E0502: cannot borrow", "error E0499"),
    ],
)
def test_the_stub_likes_shared_words(query: str, like: str, unlike: str) -> None:
    """Words in any case, codes and pairs of ideographs make texts alike."""
    question, near, far = (
        StubEmbedder().embed([query, like, unlike], Purpose.QUERY).vectors
    )

    assert question @ near > question @ far


def test_the_stub_is_the_same_everywhere() -> None:
    """Its hash is not Python's, which differs from run to run."""
    vector = StubEmbedder().embed(["lock"], Purpose.QUERY).vectors[0]

    assert list(np.flatnonzero(vector)) == [49]


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    """The fastembed backend says which folder it looked at."""
    pytest.importorskip("fastembed")
    with pytest.raises(ConfigError, match="EMBED_MODEL_PATH"):
        build_embedder(EmbedderSpec("fastembed", model_path=tmp_path))
