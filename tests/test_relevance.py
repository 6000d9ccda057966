"""The sum of what speaks for a passage."""

from hypothesis import given
from hypothesis import strategies as st

from docs_rag.relevance import Signals, relevance, worths

SPREAD = 0.05


def test_words_lift_a_passage_over_a_nearer_one() -> None:
    """A passage that holds the words beats one that is a little nearer in meaning."""
    near = Signals("a.md", body=0.42, heading=0.3)
    holds = Signals("b.md", body=0.40, heading=0.3, words=0.5, page=0.5)
    first, second = relevance([near, holds], SPREAD)

    assert second > first


def test_the_page_around_it_speaks_for_a_passage() -> None:
    """Of two equal passages the one on a page about the topic wins."""
    signals = [
        Signals("about.md", body=0.4),
        Signals("about.md", body=0.6),
        Signals("mentions.md", body=0.4),
    ]
    scores = relevance(signals, SPREAD)

    assert scores[0] > scores[2]


def test_a_passage_without_a_vector_is_not_left_out() -> None:
    """What only words found counts as far in meaning, and still has a score."""
    with_vector, without = relevance(
        [Signals("a.md", body=0.3), Signals("b.md", words=0.9)], SPREAD
    )

    assert without > with_vector


def test_what_a_page_says_of_itself_speaks_for_its_passages() -> None:
    """Of two equal passages the one wins whose page begins with the topic."""
    about, mentions = relevance(
        [Signals("a.md", body=0.4, lead=0.5), Signals("b.md", body=0.4, lead=0.1)],
        SPREAD,
    )

    assert about > mentions


def test_a_page_without_a_lead_vector_is_as_the_least() -> None:
    """What has no vector is not taken for the worst there could be, nor the best."""
    unknown, least, best = relevance(
        [
            Signals("a.md", body=0.4),
            Signals("b.md", body=0.4, lead=0.1),
            Signals("c.md", body=0.4, lead=0.5),
        ],
        SPREAD,
    )

    assert unknown == least < best


def test_a_page_gives_way_the_more_of_it_stands_before() -> None:
    """The best passage of a page loses nothing, each further one more than the last."""
    signals = [Signals("a.md", body=0.4 - 0.001 * i) for i in range(5)]
    repeats = [worth.repeats for worth in worths(signals, SPREAD)]

    assert repeats[0] == 0
    assert repeats == sorted(repeats, reverse=True)
    assert len(set(repeats)) == len(repeats)


def test_equal_passages_of_a_page_stay_in_order() -> None:
    """The earlier one is before the later one, or which is best would be chance."""
    first, second = relevance([Signals("a.md", body=0.4)] * 2, SPREAD)

    assert first > second


@given(st.floats(0.01, 10))
def test_the_unit_of_similarity_does_not_matter(factor: float) -> None:
    """A model whose cosines are all twice as wide orders the passages alike."""
    bodies = (0.3, 0.5, 0.1)
    plain = relevance([Signals(f"{b}.md", b) for b in bodies], SPREAD)
    scaled = relevance(
        [Signals(f"{b}.md", b * factor) for b in bodies], SPREAD * factor
    )

    assert all(abs(a - b) < 1e-6 for a, b in zip(plain, scaled, strict=True))


def test_words_outweigh_a_meaning_that_is_not_far_above() -> None:
    """
    A page of one passage that holds every word comes before pages that are only near.

    Its first passage is the passage itself, so meaning counts twice there.
    """
    near = [
        Signals(f"g{n}.md", body=0.42 - n / 100, lead=0.42 - n / 100, heading=0.2)
        for n in range(6)
    ]
    holder = Signals(
        "target.md", body=0.06, lead=0.06, heading=0.02, words=0.58, page=0.5
    )
    found = relevance([*near, holder], 0.054)

    assert found.index(max(found)) == len(near)
