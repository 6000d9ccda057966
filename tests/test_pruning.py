"""Which rows are ranked where not all of them may be."""

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from docs_rag.pruning import Probe, probes

ROWS = 100_000
FREQUENCIES = st.dictionaries(
    st.sampled_from([f'"t{i}"' for i in range(12)]),
    st.integers(1, ROWS),
    min_size=1,
    max_size=12,
)


def asked(
    frequencies: Mapping[str, int], budget: int, rows_of: int = 0
) -> tuple[Probe, ...]:
    return probes(frequencies, ROWS, budget, lambda query, at_most: rows_of)


@given(frequencies=FREQUENCIES, budget=st.integers(1, ROWS))
def test_rare_terms_are_never_lost(frequencies, budget: int) -> None:
    """The rarest terms that fit the budget are asked for, each on its own."""
    rarest = min(frequencies.values())
    first = asked(frequencies, budget)[0]

    if rarest <= budget:
        assert " AND " not in first.query
        assert rarest in {frequencies[term] for term in first.terms}
        assert sum(frequencies[term] for term in first.terms) <= budget
    else:
        assert "OR" not in first.query or "AND" in first.query


@given(frequencies=FREQUENCIES)
def test_all_terms_are_asked_for_where_they_fit(frequencies) -> None:
    """Below the budget there is one probe, for any of them."""
    found = asked(frequencies, sum(frequencies.values()))

    assert len(found) == 1
    assert set(found[0].terms) == set(frequencies)


def test_common_terms_are_asked_for_together() -> None:
    """One rare term, then rows that hold several of the others."""
    found = asked({'"rare"': 9, '"a"': 900, '"b"': 9_000, '"c"': 10_000}, 500, 10)

    assert [probe.query for probe in found] == ['"rare"', '"a" AND ("b" OR "c")']


def test_a_conjunction_that_holds_too_much_is_made_narrower() -> None:
    """What is counted decides, whatever was to be expected."""
    rows = {'"a" AND ("b" OR "c")': 501, '"a" AND "b"': 400}
    found = probes(
        {'"a"': 900, '"b"': 9_000, '"c"': 10_000},
        ROWS,
        500,
        lambda query, at_most: min(rows[query], at_most),
    )

    assert [probe.query for probe in found] == ['"a" AND "b"']


def test_where_nothing_is_narrow_enough_headings_come_first() -> None:
    """One word in half of the passages: those it is the heading of, then some."""
    found = asked({'"a"': 50_000}, 500)

    assert [probe.query for probe in found] == ['{title heading} : ("a")', '"a"']
    assert not any(probe.is_bounded for probe in found)
