"""The evaluation measures right, names what is wrong, and holds its gates."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docs_rag.cases import read_golden
from docs_rag.errors import GoldenError
from docs_rag.metrics import (
    bootstrap_interval,
    mean_reciprocal_rank,
    ndcg,
    paired_p_value,
    percentile,
    recall_at,
    roc_area,
)
from eval.run_eval import main

EVAL = Path(__file__).resolve().parent.parent / "eval"
FIXTURE = EVAL / "fixture"


def test_recall_and_reciprocal_rank() -> None:
    """A page that is not found counts nothing; the first place counts one."""
    ranks = [1, 2, None, 5]

    assert [recall_at(ranks, k) for k in (1, 3, 5)] == [0.25, 0.5, 0.75]
    assert mean_reciprocal_rank(ranks) == pytest.approx((1 + 0.5 + 0.2) / 4)


def test_gain_is_one_for_a_perfect_order() -> None:
    """All right pages in front is the best there is, whatever follows."""
    assert ndcg([True, True, False], 2) == 1
    assert 0 < ndcg([False, True, True], 2) < 1
    assert ndcg([False, False], 1) == 0


def test_percentile_takes_the_nearest_rank() -> None:
    """A percentile is one of the values."""
    assert [percentile([3, 1, 2, 4], s) for s in (0.5, 0.95, 0)] == [2, 4, 1]


def test_an_interval_holds_its_mean_and_repeats() -> None:
    """The bootstrap is seeded."""
    values = [0.0, 1.0, 1.0, 0.5, 1.0]
    low, high = bootstrap_interval(values)

    assert low <= 0.7 <= high
    assert bootstrap_interval(values) == (low, high)


def test_chance_explains_a_small_difference_but_not_a_large_one() -> None:
    """One question more is chance; forty of forty are not."""
    assert paired_p_value([1, 0, 1], [1, 0, 0]) == 1
    assert paired_p_value([1.0] * 40, [0.0] * 40) < 0.001
    assert paired_p_value([0.5, 1], [0.5, 1]) == 1


@given(st.lists(st.floats(0, 1), max_size=8), st.lists(st.floats(0, 1), max_size=8))
def test_roc_area_is_fair(first: list[float], second: list[float]) -> None:
    """Turning the sides around turns the area around."""
    assert roc_area(first, second) + roc_area(second, first) == pytest.approx(1)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        pytest.param("{", "not JSON", id="syntax"),
        pytest.param("[" * 100_000, "nested too deeply", id="brackets"),
        pytest.param('{"id": ' + "1" * 5_000, "too long", id="digits"),
        pytest.param("[]", "object", id="not an object"),
        pytest.param(
            '{"id": "b", "query": " ", "expected": []}', "'query'", id="blank"
        ),
        pytest.param('{"id": "b", "query": "q"}', "'expected'", id="no expected"),
        pytest.param(
            '{"id": "b", "query": "q", "expected": [1]}', "'expected'", id="type"
        ),
        pytest.param('{"id": "a", "query": "q", "expected": []}', "taken", id="twice"),
        pytest.param(
            '{"id": "b", "query": "q", "expected": "x", "evidence_by_path": {"y": ""}}',
            "not expected",
            id="evidence elsewhere",
        ),
    ],
)
def test_a_bad_line_names_itself(tmp_path: Path, line: str, message: str) -> None:
    """The error gives the file, the number of the line and what is wrong."""
    path = tmp_path / "golden.jsonl"
    good = '{"id": "a", "query": "q", "expected": "docs/a.md"}'
    path.write_text(f"// a comment\n{good}\n{line}\n", encoding="utf-8")

    with pytest.raises(GoldenError, match=f"golden.jsonl:3: .*{message}"):
        read_golden(path)


def test_the_fixture_holds_the_evidence_it_names() -> None:
    """Every phrase stands in the page that is said to hold it."""
    for case in read_golden(FIXTURE / "golden.jsonl"):
        for path, phrase in case.evidence.items():
            assert phrase in (FIXTURE / "corpus" / path).read_text("utf-8"), case.id


def test_the_book_set_has_every_family() -> None:
    """Sixty answerable questions or more, and fifteen without an answer."""
    cases = read_golden(EVAL / "golden" / "book.jsonl")
    answerable = [case for case in cases if case.is_answerable]

    assert len(answerable) >= 60
    assert len(cases) - len(answerable) >= 15
    assert all(case.evidence for case in answerable)
    assert {c.family for c in cases} == {
        *("howto", "error", "identifier", "paraphrase", "xling", "off"),
    }
    assert all(case.also for case in cases if case.family == "xling")


def test_the_fixture_passes_its_gates(tmp_path: Path) -> None:
    """The built-in model finds every page of the small corpus, and refuses the rest."""
    written = tmp_path / "run.json"
    gates = ("--min-recall", "0.95", "--min-mrr", "0.85", "--max-false-none", "0.06")
    refused = ("--max-false-strong", "0", "--min-refused", "0.85")
    code = main([*gates, *refused, "--json", str(written)])

    assert code == 0
    run = json.loads(written.read_text(encoding="utf-8"))["runs"][0]
    assert run["off"]["questions"] == 8
    assert len(run["questions"]) == 28


def test_a_gate_that_is_not_met_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The stub knows no meaning: asked for perfection it exits 1 and says why."""
    report = tmp_path / "report.md"
    code = main(
        [
            *("--compare", "stub,stub", "--report", str(report)),
            *("--min-recall", "1", "--recall-at", "1"),
        ]
    )

    assert code == 1
    assert "VIOLATION: recall@1 is" in capsys.readouterr().err
    assert "Side by side" in report.read_text(encoding="utf-8")


def test_a_golden_file_that_is_not_there_is_a_usage_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The message names the file; the exit code is 2."""
    assert main(["--golden", "/nowhere/golden.jsonl"]) == 2
    assert "/nowhere/golden.jsonl" in capsys.readouterr().err


@pytest.mark.slow
def test_the_same_questions_give_the_same_answers(tmp_path: Path) -> None:
    """Two processes, with one thread and with two, rank and judge alike."""
    runs = []
    for threads in ("1", "2"):
        written = tmp_path / f"{threads}.json"
        environ = {
            **os.environ,
            **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), threads),
        }
        subprocess.run(
            [sys.executable, "-m", "eval.run_eval", "--json", str(written)],
            cwd=EVAL.parent,
            env=environ,
            stdout=subprocess.DEVNULL,
            check=True,
        )
        run = json.loads(written.read_text(encoding="utf-8"))["runs"][0]
        runs.append(
            [(q["id"], q["rank"], q["match"], q["paths"]) for q in run["questions"]]
            + [run["calibration"]]
        )

    assert runs[0] == runs[1]


def test_no_backend_ranks_below_words_alone(tmp_path: Path) -> None:
    """
    A model may add to what words find, and one without meaning takes nothing away.

    The stub ranks every question as words alone do, in any language.
    """
    written = tmp_path / "run.json"
    main(["--compare", "words,stub,builtin", "--json", str(written)])
    runs = json.loads(written.read_text(encoding="utf-8"))["runs"]
    means = [
        mean_reciprocal_rank(
            [
                q["rank"]
                for q in run["questions"]
                if q["id"][:3] not in ("zh-", "de-", "off")
            ]
        )
        for run in runs
    ]

    assert means[0] <= means[1] <= means[2]
    words, stub = ([q["rank"] for q in run["questions"]] for run in runs[:2])
    assert stub == words
