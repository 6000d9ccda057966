"""Fusing ranked lists: arithmetic that any order of the rankers leaves alone."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docs_rag.ranking import RRF_K, Fused, RankedList, fuse, pool, take_turns

KEYS = st.lists(st.integers(0, 12), unique=True, max_size=8)
LISTS = st.lists(
    st.tuples(KEYS, st.sampled_from([0.0, 0.25, 0.7, 1.0])), max_size=4
).map(
    lambda found: [
        RankedList(f"ranker {number}", tuple(keys), weight)
        for number, (keys, weight) in enumerate(found)
    ]
)
PASSES = st.lists(LISTS.map(fuse), max_size=4)


def ranked(*orders: str, weights: tuple[float, ...] = ()) -> list[RankedList[str]]:
    """Lists of one-letter keys, named first, second …"""
    names = ("first", "second", "third")
    return [
        RankedList(name, tuple(order), weight)
        for name, order, weight in itertools.zip_longest(
            names[: len(orders)], orders, weights or (1.0,) * len(orders)
        )
    ]


def keys_of(fused: list[Fused[str]]) -> str:
    return "".join(one.key for one in fused)


def test_a_score_is_the_sum_of_weighted_reciprocal_ranks() -> None:
    """``sum(weight / (60 + rank))`` over the lists that hold the key."""
    fused = fuse(ranked("ab", "b", weights=(1.0, 0.5)))

    assert {one.key: one.score for one in fused} == pytest.approx(
        {"a": 1 / 61, "b": 1 / 62 + 0.5 / 61}
    )
    assert {one.key: one.ranks for one in fused} == {
        "a": {"first": 1},
        "b": {"first": 2, "second": 1},
    }
    assert RRF_K == 60


@given(LISTS, st.randoms())
def test_the_order_of_the_rankers_changes_no_score(lists, random) -> None:
    """Every score and every rank is the same to the last bit, in any order."""
    shuffled = list(lists)
    random.shuffle(shuffled)
    one = {fused.key: (fused.score, fused.ranks) for fused in fuse(lists)}
    two = {fused.key: (fused.score, fused.ranks) for fused in fuse(shuffled)}

    assert one == two


@given(LISTS)
def test_nothing_is_lost_or_doubled(lists) -> None:
    """Each key of any list comes out once, best score first."""
    fused = fuse(lists)
    keys = [one.key for one in fused]

    assert sorted(keys) == sorted({key for one in lists for key in one.keys})
    assert [one.score for one in fused] == sorted(
        (one.score for one in fused), reverse=True
    )


@given(LISTS)
def test_the_order_is_total(lists) -> None:
    """Equal scores are ordered by best rank, then by list and place in it."""
    places = {}
    for ranked_list in lists:
        for key in ranked_list.keys:
            places.setdefault(key, len(places))
    fused = fuse(lists)

    for before, after in itertools.pairwise(fused):
        if before.score == after.score:
            best = min(before.ranks.values()), places[before.key]
            assert best < (min(after.ranks.values()), places[after.key])


@pytest.mark.parametrize(
    ("lists", "order"),
    [
        pytest.param(ranked("ab", "cd"), "acbd", id="equal: first list first"),
        pytest.param(ranked("cd", "ab"), "cadb", id="equal: given order counts"),
        pytest.param(ranked("xa", "ya"), "axy", id="agreement beats one first place"),
        pytest.param(ranked("ab", "ba"), "ab", id="mirrored: first list first"),
        pytest.param(
            ranked("abc", "c", weights=(1.0, 0.0)), "abc", id="no weight, no say"
        ),
        pytest.param(
            ranked("a", "bc", weights=(0.0, 1.0)), "bca", id="no weight, not lost"
        ),
        pytest.param(ranked("", ""), "", id="nothing"),
        pytest.param([], "", id="no lists"),
    ],
)
def test_orders(lists: list[RankedList[str]], order: str) -> None:
    """Agreement is rewarded, ties fall as stated, and nothing is dropped."""
    assert keys_of(fuse(lists)) == order


@given(KEYS, KEYS, st.integers(0, 12))
def test_agreement_is_rewarded(one, two, key) -> None:
    """A key gains by being named by one more list, at any rank."""
    without = [k for k in two if k != key]
    alone = fuse([RankedList("one", (key, *one)), RankedList("two", tuple(without))])
    both = fuse([RankedList("one", (key, *one)), RankedList("two", (*without, key))])
    score_of = [{f.key: f.score for f in fused}[key] for fused in (alone, both)]

    assert score_of[0] < score_of[1]


def test_a_list_speaks_once_for_a_key() -> None:
    """A key that a list names twice counts at its better rank only."""
    (a, b, c) = fuse([RankedList("one", ("a", "b", "a", "c"))])

    assert (a.ranks, b.ranks, c.ranks) == ({"one": 1}, {"one": 2}, {"one": 3})
    assert a.score == pytest.approx(1 / 61)


@given(PASSES)
def test_a_pool_keeps_the_best_pass(passes) -> None:
    """Each key has the score and the ranks of the pass that likes it most."""
    pooled = pool(passes)
    everything = [fused for one_pass in passes for fused in one_pass]

    assert set(pooled) == {fused.key for fused in everything}
    for key, best in pooled.items():
        rivals = [fused for fused in everything if fused.key == key]
        assert best.score == max(fused.score for fused in rivals)
        # Of equals the earlier pass.
        assert best == next(f for f in rivals if f.score == best.score)


@given(PASSES)
def test_turns_lose_and_double_nothing(passes) -> None:
    """The merged order holds every key of any pass once, with its pooled numbers."""
    merged = take_turns(passes)
    pooled = pool(passes)

    assert len(merged) == len(pooled)
    assert {fused.key: fused for fused in merged} == pooled


@given(PASSES)
def test_the_callers_words_keep_their_turns(passes) -> None:
    """The first pass holds every Nth place, whatever the other passes rank."""
    merged = [fused.key for fused in take_turns(passes)]
    for place, fused in enumerate(passes[0] if passes else ()):
        assert merged.index(fused.key) <= place * len(passes)


def test_turns_alternate() -> None:
    """Each pass in turn offers its best key that is not taken yet."""
    passes = [fuse([RankedList("words", tuple(keys))]) for keys in ("abc", "bxy", "z")]

    assert keys_of(take_turns(passes)) == "abzcxy"


def test_one_pass_keeps_its_order() -> None:
    """Without other phrasings the fused order is the answer's order."""
    fused = fuse(ranked("abcd", "dcba", "b"))

    assert take_turns([fused]) == fused
    assert take_turns([]) == []
    assert take_turns([[], fused, []]) == fused
