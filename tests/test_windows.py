"""Tests of measuring a model's window and of cutting texts to fit it."""

import time
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from fake_endpoint import word_vector
from hypothesis import given, settings
from hypothesis import strategies as st

from docs_rag.backend import unit_rows
from docs_rag.embedding import StubEmbedder
from docs_rag.errors import EmbeddingError, TextRefusedError
from docs_rag.records import Capacity
from docs_rag.remote import estimate_tokens
from docs_rag.windows import SEARCH_LIMIT, measure_capacity, split_windows

Vectors = np.ndarray

SENTENCE = "The lock is taken before the scan, and it is held to the end. "


def count_words(text: str) -> int:
    return len(text.split())


class Counting(StubEmbedder):
    """An embedder whose unit of length is up to the test."""

    def __init__(self, unit: Callable[[str], int]) -> None:
        self.unit = unit
        self.counted_chars = 0

    def count(self, text: str) -> int:
        self.counted_chars += len(text)
        return self.unit(text)


def with_special_tokens(text: str) -> int:
    """Count as a tokenizer with two special tokens and pieces of four letters."""
    return 2 + sum(-(-len(word) // 4) for word in text.split())


UNITS = {
    "words": count_words,
    "characters": len,
    "bytes": lambda text: len(text.encode()),
    "pieces": with_special_tokens,
    "estimate": estimate_tokens,
}


def reader(cut: Callable[[str], str]) -> Callable[[Sequence[str]], Vectors]:
    """Return an embedding function that reads ``cut(text)`` of a text."""
    return lambda texts: unit_rows([word_vector(cut(text)) for text in texts])


def first_words(limit: int) -> Callable[[str], str]:
    return lambda text: " ".join(text.split()[:limit])


def squeezed(text: str) -> str:
    return "".join(text.split())


@pytest.mark.parametrize("limit", [2, 31, 128, 512, 3000])
def test_the_window_is_found_to_the_word(limit: int) -> None:
    """A model that reads so many words has a window one word less: that was seen."""
    capacity = measure_capacity(count_words, reader(first_words(limit)))

    assert capacity == Capacity(dimension=64, window=limit - 1)


@pytest.mark.parametrize("limit", [SEARCH_LIMIT + 40, 10**9])
def test_a_model_that_reads_all_that_is_tried_has_no_window(limit: int) -> None:
    """Beyond the search limit the window is stated as None."""
    assert measure_capacity(count_words, reader(first_words(limit))).window is None


def test_noise_is_not_taken_for_reading() -> None:
    """Vectors that tremble by chance do not make the window look wider."""
    generator = np.random.default_rng(7)

    def trembling(texts: Sequence[str]) -> Vectors:
        clean = reader(first_words(200))(texts)
        return unit_rows(clean + generator.normal(0, 2e-5, clean.shape))

    assert measure_capacity(count_words, trembling).window == 199


def test_a_refused_text_is_one_that_is_not_read() -> None:
    """Where too long a text is an error, the window ends before the error."""

    def strict(texts: Sequence[str]) -> Vectors:
        if any(count_words(text) > 100 for text in texts):
            raise TextRefusedError("too long", 0)
        return reader(first_words(100))(texts)

    window = measure_capacity(count_words, strict).window

    # The tail that is looked for is 32 words long and must be accepted whole.
    assert window == 68


def test_the_shortest_window_over_all_fillers_counts() -> None:
    """Where the unit is a guess, the filler that fits worst decides."""

    def long_words(count: int) -> str:
        return " ".join(["internationalization"] * count)

    def short_words(count: int) -> str:
        return " ".join(["a"] * count)

    capacity = measure_capacity(
        count_words, reader(lambda text: text[:1000]), (short_words, long_words)
    )

    assert capacity.window == 47


def test_a_model_that_sees_no_difference_is_refused() -> None:
    """A server that answers the same vector to everything is not an embedder."""
    with pytest.raises(EmbeddingError, match="same vector for different texts"):
        measure_capacity(count_words, reader(lambda text: "constant"))


def test_a_text_that_fits_is_one_window_with_its_context() -> None:
    """Context and text stand together, and nothing is cut."""
    embedder = Counting(count_words)

    windows = split_windows(
        embedder, Capacity(4, 9), "Guide > Locks", "Take it.\nHold it."
    )

    assert windows == ("Guide > Locks\nTake it.\nHold it.",)


def test_without_a_window_nothing_is_cut_or_counted() -> None:
    """Where the model reads everything a text is one window, and costs no count."""
    embedder = Counting(count_words)

    windows = split_windows(embedder, Capacity(4, None), "Guide", SENTENCE * 500)

    assert windows == ("Guide\n" + (SENTENCE * 500).strip(),)
    assert embedder.counted_chars == 0


def test_windows_are_few_and_alike() -> None:
    """Twelve lines of ten words, at most fifty with the context: three of four."""
    text = "\n".join(["one two three four five six seven eight nine ten"] * 12)

    windows = split_windows(Counting(count_words), Capacity(4, 50), "The Guide", text)

    assert [count_words(window) for window in windows] == [42, 42, 42]
    assert all(window.startswith("The Guide\none two") for window in windows)


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        ("a b c d e f\n\ng h\ni j. k l m n o p", ["f", "p"]),
        ("a b c d e f\ng. h i j k l m n", ["f", "n"]),
        ("a b c d e f. g h i j k l m n", ["f.", "n"]),
        ("a b c d e f g h i j k l", ["f", "l"]),
    ],
    ids=["paragraph", "line", "sentence", "word"],
)
def test_cuts_fall_at_the_best_place_near_the_middle(
    text: str, ends: list[str]
) -> None:
    """A paragraph's end is better than a line's, that than a sentence's or a word's."""
    windows = split_windows(Counting(count_words), Capacity(4, 11), "", text)

    assert [window.split()[-1] for window in windows] == ends


def test_a_better_place_is_not_worth_another_window() -> None:
    """A paragraph's end that would leave too much for the rest is passed over."""
    text = "a b c d e f g h i\n\nj k l m n o p q r s t u v"

    windows = split_windows(Counting(count_words), Capacity(4, 11), "", text)

    assert [count_words(window) for window in windows] == [11, 11]


def test_what_lies_between_words_is_reckoned_with() -> None:
    """Where words alone count less than their text, the windows are as few still."""
    text = " ".join(["abc"] * 100)

    windows = split_windows(Counting(len), Capacity(4, 110), "", text)

    assert len(windows) == 4


def test_ideographs_are_cut_behind_a_full_stop() -> None:
    """Text without spaces is cut at the end of a sentence where there is one."""
    text = "锁在扫描之前取得。" * 6

    windows = split_windows(Counting(len), Capacity(4, 30), "", text)

    assert len(windows) == 2
    assert all(window.endswith("。") for window in windows)


def test_a_long_context_keeps_its_end_and_a_third_of_the_window() -> None:
    """The innermost heading is the most specific, so the beginning goes."""
    context = " ".join(f"part{number}" for number in range(40)) + " > The leaf"

    windows = split_windows(
        Counting(count_words), Capacity(4, 30), context, SENTENCE * 10
    )

    assert "> The leaf\nThe lock" in windows[0]
    assert all(1 <= window.count("part") <= 10 for window in windows)


@pytest.mark.parametrize("context", ["", "Guide > Locks"])
@pytest.mark.parametrize("text", ["", " \n\t\n"])
def test_a_blank_text_gives_no_empty_window(text: str, context: str) -> None:
    """Of a blank text there is the context to embed, or nothing."""
    windows = split_windows(Counting(count_words), Capacity(4, 1), context, text)

    assert windows == ((context,) if context else ())


TEXTS = st.one_of(
    st.text(max_size=300),
    st.lists(
        st.sampled_from(
            ["word", "a", "x" * 60, "所有权系统。", "\n", "\n\n", "end. ", " ", "1.5"]
        ),
        max_size=120,
    ).map(" ".join),
)


@pytest.mark.parametrize("unit", UNITS.values(), ids=UNITS)
@settings(max_examples=60)
@given(text=TEXTS, context=st.text(max_size=60), window=st.integers(1, 60))
def test_every_character_is_in_a_window(
    unit: Callable[[str], int], text: str, context: str, window: int
) -> None:
    """No character that is not blank is lost, doubled or moved, and none is empty."""
    windows = split_windows(Counting(unit), Capacity(4, window), context, text)
    whole = split_windows(Counting(unit), Capacity(4, None), context, text)

    assert all(piece.strip() for piece in windows)
    if windows == whole:
        return
    bodies = without_context(windows, squeezed(context), squeezed(text))
    assert bodies == squeezed(text)


def without_context(windows: Sequence[str], context: str, text: str) -> str:
    """Take an end of the context off each window, such that ``text`` is left."""
    shared = squeezed(windows[0])
    lead = next(
        (
            context[i:]
            for i in range(len(context) + 1)
            if shared.startswith(context[i:])
            and all(squeezed(w).startswith(context[i:]) for w in windows)
            and "".join(squeezed(w)[len(context[i:]) :] for w in windows) == text
        ),
        "",
    )
    return "".join(squeezed(window)[len(lead) :] for window in windows)


@pytest.mark.parametrize("unit", UNITS.values(), ids=UNITS)
@settings(max_examples=60)
@given(text=TEXTS, window=st.integers(40, 120))
def test_every_window_fits(unit: Callable[[str], int], text: str, window: int) -> None:
    """With its context a window is never longer than the model reads."""
    windows = split_windows(Counting(unit), Capacity(4, window), "Guide > Locks", text)

    assert max(map(unit, windows), default=0) <= window


@pytest.mark.parametrize(
    "text",
    ["x" * 300_000, "word " * 60_000, "a b\n" * 75_000, "所有权" * 100_000],
    ids=["unbroken", "one line", "short lines", "ideographs"],
)
def test_cutting_a_long_text_takes_linear_work(text: str) -> None:
    """What is counted in all grows with the text, not with its square."""
    embedder = Counting(estimate_tokens)
    started = time.monotonic()

    windows = split_windows(embedder, Capacity(4, 200), "Guide", text)

    assert len(windows) > 100
    assert embedder.counted_chars < 12 * len(text)
    assert time.monotonic() - started < 20
