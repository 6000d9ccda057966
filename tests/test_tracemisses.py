"""Rules of the misses: what was answered badly, most often first."""

from datetime import timedelta
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from trace_samples import NOW, make_call, make_line, write_lines

from docs_rag.tracemisses import MissCounter, collect_misses
from docs_rag.tracereader import parse_record
from docs_rag.tracing import TraceWriter


def miss(digest: str, match: str = "none", days: int = 0) -> str:
    return make_line(
        ago=timedelta(days=days), match=match, corpus="book", **{"query.sha256": digest}
    )


def count(counter: MissCounter, line: str) -> None:
    record = parse_record(line.encode())
    assert record is not None
    counter.add(record)


def test_misses_are_ranked_by_frequency(tmp_path: Path) -> None:
    """None and weak both count, strong does not; of equals more nones come first."""
    path = write_lines(
        tmp_path / "traces-a.jsonl",
        [
            *[miss("often", "weak")] * 3,
            *[miss("worse"), miss("worse")],
            *[miss("bad"), miss("bad", "weak")],
            *[miss("fine", "strong")] * 9,
            miss("once", days=3),
        ],
    )

    misses = collect_misses([path], limit=10)

    assert [(m.query_sha256, m.none, m.weak) for m in misses.misses] == [
        ("often", 0, 3),
        ("worse", 2, 0),
        ("bad", 1, 1),
        ("once", 1, 0),
    ]
    assert (misses.calls, misses.distinct) == (8, 4)
    assert [m.query_sha256 for m in collect_misses([path], limit=1).misses] == ["often"]


def test_a_window_leaves_out_old_misses(tmp_path: Path) -> None:
    """Only misses since the given time count."""
    path = write_lines(tmp_path / "traces-a.jsonl", [miss("new"), miss("old", days=9)])

    misses = collect_misses([path], 10, since=NOW - timedelta(days=7))

    assert [m.query_sha256 for m in misses.misses] == ["new"]


def test_a_query_is_shown_where_its_text_was_kept(tmp_path: Path) -> None:
    """A query is known by its text if any of its calls was traced with content."""
    for content in (True, False):
        writer = TraceWriter(tmp_path, "book", content=content, clock=lambda: NOW)
        writer.record(make_call(query="why so deep", match="none"))
    writer.record(make_call(query="never kept", match="none"))

    by_text, by_digest = collect_misses([writer.traces_path], 10).misses

    assert (by_text.query, by_text.count) == ("why so deep", 2)
    assert by_digest.query is None and len(by_digest.query_sha256) == 64


def test_corpora_are_kept_apart() -> None:
    """The same query asked of two corpora is two misses."""
    counter = MissCounter()
    for corpus in ("a", "b"):
        count(counter, make_line(match="none", corpus=corpus, **{"query.sha256": "q"}))

    assert len(counter) == 2


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 60), max_size=200))
def test_what_does_not_fit_is_counted(queries: list[int]) -> None:
    """With more queries than fit, the rare ones go, and none goes uncounted."""
    counter = MissCounter(max_queries=10)
    for query in queries:
        count(counter, miss(str(query)))

    kept = sum(m.count for m in counter.top(100))
    assert len(counter) <= 10
    assert kept + counter.omitted == counter.calls == len(queries)


def test_frequent_misses_survive_a_flood_of_rare_ones() -> None:
    """A query that keeps missing is not crowded out by many that missed once."""
    counter = MissCounter(max_queries=20)
    for number in range(500):
        count(counter, miss("frequent"))
        count(counter, miss(f"rare{number}"))

    assert counter.top(1)[0].query_sha256 == "frequent"
    assert counter.top(1)[0].count == 500
