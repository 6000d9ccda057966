"""Tests of the way through the model: beside the cutting, once, never in the way."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from helpers import make_document
from layouts import make_corpus

from docs_rag.embedding import StubEmbedder
from docs_rag.errors import EmbeddingError, TextRefusedError
from docs_rag.feeding import BATCH_TEXTS, Feed, Tally
from docs_rag.preparing import Prepared, digest_of
from docs_rag.records import ChunkedDocument, EmbeddingBatch, Purpose
from docs_rag.schema import Space
from docs_rag.store import Store

ROOT = Path(__file__).resolve().parent.parent
PATIENCE_SECONDS = 20.0


class Model(StubEmbedder):
    """The stub, with something done first to every batch."""

    def __init__(self, first: Callable[[Sequence[str]], None]) -> None:
        self.first = first
        self.seen: list[str] = []

    def embed(self, texts: Sequence[str], purpose: Purpose) -> EmbeddingBatch:
        self.first(texts)
        self.seen += texts
        return super().embed(texts, purpose)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "index.sqlite", writable=True) as opened:
        yield opened


@pytest.fixture
def space(store: Store) -> Space:
    stub = StubEmbedder()
    with store.transaction():
        return store.add_space(stub.identity, stub.probe())


def prepared(*texts: str) -> Prepared:
    return Prepared(
        make_document(),
        ChunkedDocument("", "", (), (), 1),
        None,
        tuple((text,) for text in texts),
        (),
    )


def batch(name: str) -> Prepared:
    return prepared(*(f"{name} {number}" for number in range(BATCH_TEXTS)))


def committed(store: Store, space: Space, texts: Sequence[str]) -> list[str]:
    found = store.vector_ids(space.id, [digest_of(text) for text in texts])
    return [text for text in texts if digest_of(text) in found]


def test_cutting_goes_on_while_the_model_runs(store: Store, space: Space) -> None:
    """The model may take its time: whoever feeds it is not held up by one batch."""
    fed = threading.Event()
    waited: list[bool] = []
    model = Model(lambda texts: waited.append(fed.wait(PATIENCE_SECONDS)))
    feed = Feed(model, store, space, Tally())
    feed.add([batch("first")])
    fed.set()
    feed.drain()

    assert waited == [True]


def test_what_is_done_is_committed_while_the_next_batch_runs(
    store: Store, space: Space
) -> None:
    """A run that is killed during a batch keeps the one before."""
    seen: list[int] = []
    first = batch("first")

    def look(texts: Sequence[str]) -> None:
        if texts[0].startswith("third"):
            with Store(store.path) as reader:
                seen.append(len(reader.vector_ids(space.id, first.texts)))

    feed = Feed(Model(look), store, space, Tally())
    for name in ("first", "second", "third"):
        feed.add([batch(name)])
    feed.drain()

    assert seen == [BATCH_TEXTS]


def test_a_text_under_way_is_not_embedded_again(store: Store, space: Space) -> None:
    """Waiting, with the model or committed: a text that comes again is known."""
    model = Model(lambda texts: None)
    feed = Feed(model, store, space, tally := Tally())
    reused = [feed.add([batch("same")]), feed.add([batch("same"), prepared("new")])]
    reused.append(feed.add([prepared("new")]))
    feed.drain()
    reused.append(feed.add([batch("same")]))
    feed.drain()

    assert sorted(model.seen) == sorted({*model.seen})
    assert reused == [0, BATCH_TEXTS, 1, BATCH_TEXTS]
    assert tally.embedded == BATCH_TEXTS + 1


def test_a_failing_batch_leaves_the_ones_before(store: Store, space: Space) -> None:
    """The failure is raised where the run waits; what was embedded is there."""

    def fail(texts: Sequence[str]) -> None:
        if texts[0].startswith("third"):
            raise EmbeddingError("the endpoint is gone")

    feed = Feed(Model(fail), store, space, tally := Tally())
    names = ("first", "second", "third", "fourth")
    with pytest.raises(EmbeddingError, match="the endpoint is gone"):
        for name in names:
            feed.add([batch(name)])

    texts = [f"{name} {n}" for name in names for n in range(BATCH_TEXTS)]
    assert committed(store, space, texts) == texts[: 2 * BATCH_TEXTS]
    assert tally.embedded == 2 * BATCH_TEXTS


def test_a_refused_text_is_noted_and_the_others_stay(
    store: Store, space: Space
) -> None:
    """Also one that comes again in the next batch; it is not asked for again."""

    def refuse(texts: Sequence[str]) -> None:
        if "bad" in texts:
            raise TextRefusedError("too long", texts.index("bad"))

    model = Model(refuse)
    feed = Feed(model, store, space, tally := Tally())
    for _ in range(3):
        feed.add([prepared("good", "bad", "fine")])
        feed.drain()

    assert tally.refused == {digest_of("bad"): "too long"}
    assert committed(store, space, ["good", "bad", "fine"]) == ["good", "fine"]
    assert model.seen == ["good", "fine"]


def test_a_run_that_ends_in_between_lets_the_model_finish(
    store: Store, space: Space
) -> None:
    """Native code is never surprised by the end of Python, if it is done soon."""
    may_end, ended = threading.Event(), threading.Event()

    def take_time(texts: Sequence[str]) -> None:
        may_end.wait(0.2)
        ended.set()

    with (
        pytest.raises(KeyboardInterrupt),
        Feed(Model(take_time), store, space, Tally()) as feed,
    ):
        feed.add([batch("first")])
        raise KeyboardInterrupt

    assert ended.is_set()


def test_an_interrupt_does_not_wait_for_the_model(tmp_path: Path) -> None:
    """Ctrl-C ends a run at once, however long an endpoint takes to answer."""
    make_corpus(tmp_path, {"docs/a.md": "# A\n\nText.\n"})
    code = (
        "import os, sys, time\n"
        "from docs_rag.config import load_settings\n"
        "from docs_rag.embedding import StubEmbedder\n"
        "from docs_rag.indexer import index_corpus\n"
        "class Slow(StubEmbedder):\n"
        "    def embed(self, texts, purpose):\n"
        "        os.write(1, b'asked\\n')\n"
        "        time.sleep(600)\n"
        "environ = {'RAG_DIR': sys.argv[1], 'RAG_CORPUS': 'demo'}\n"
        "try: index_corpus(load_settings(environ).chosen(), Slow())\n"
        "except KeyboardInterrupt: sys.exit(130)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        stdout=subprocess.PIPE,
        env={"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"]},
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"asked\n"
        process.send_signal(signal.SIGINT)
        try:
            assert process.wait(PATIENCE_SECONDS) == 130
        finally:
            process.kill()
