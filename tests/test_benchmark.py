"""``docs-rag bench`` measures what it says, on the questions it says."""

import json

import numpy as np
import project as kit
import pytest

from docs_rag.benchmark import RECALL_DEPTH, STAGES, Target, measure_queries, recall
from docs_rag.benchmarking import own_questions, read_questions
from docs_rag.config import load_settings
from docs_rag.embedding import StubEmbedder
from docs_rag.errors import DocsRagError
from docs_rag.resident import ResidentVectors
from docs_rag.store import Store
from docs_rag.vectors import DiskVectors


@pytest.fixture
def project(tmp_path):
    """Return an indexed folder; its model is one that knows no meaning."""
    made = kit.make_project(tmp_path / "home")
    made.index()
    return made


class Forgetful(ResidentVectors):
    """An engine that never returns the nearest vector."""

    def nearest(self, store, space, query, count):
        return super().nearest(store, space, query, count + 1)[1:]


def measured(project, engine, questions=("lamp", "high water"), repeats=2):
    corpus = load_settings(project.variables()).chosen()
    target = Target(
        corpus.name, corpus.directory, corpus.index_path, StubEmbedder(), engine
    )
    return measure_queries(target, questions, repeats)


def test_every_stage_of_every_question_is_timed(project):
    """The stages add up to the whole, for each question."""
    found = measured(project, ResidentVectors())

    assert len(found.per_question) == found.questions == 2
    for row in found.per_question:
        assert {*STAGES, "other", "text", "total"} == set(row)
        assert row["text"] == pytest.approx(row["words"] + row["trigrams"], abs=0.1)
    once = measured(project, ResidentVectors(), repeats=1).per_question[0]
    parts = sum(once[stage] for stage in (*STAGES, "other"))
    assert parts == pytest.approx(once["total"], abs=0.01)
    assert set(found.baselines) == {"numpy", "sqlite-vec"}
    assert found.vectors > 0 < found.chunks


def test_recall_is_that_of_the_engine(project):
    """An exact engine has all of the nearest vectors, another one has fewer."""
    assert measured(project, ResidentVectors()).recall == 1.0
    assert measured(project, DiskVectors()).recall == 1.0
    assert measured(project, Forgetful()).recall < 1.0


def test_equals_are_equal_and_what_is_not_returned_is_missed():
    """Of vectors with the same cosine any may be returned; a short list lacks some."""
    exact = [(i, 0.9 if i < 5 else 0.5) for i in range(2 * RECALL_DEPTH)]
    other = [*exact[:5], *exact[15:]]

    assert recall(exact, exact) == recall(other, exact) == 1.0
    assert recall(exact[:5], exact) == 0.5
    assert recall([], exact) == 0.0
    assert recall([(99, 0.9)], exact) == 0.0
    assert recall([], []) == 1.0


def test_an_index_without_vectors_in_force_is_measured_by_words(project):
    """Where the model is another, there is nothing to compare and no failure."""

    class Other(StubEmbedder):
        @property
        def identity(self):
            return super().identity.__class__("stub", "another")

    corpus = load_settings(project.variables()).chosen()
    target = Target(
        corpus.name, corpus.directory, corpus.index_path, Other(), DiskVectors()
    )
    found = measure_queries(target, ["lamp"], 1)

    assert (found.engine, found.recall, dict(found.baselines)) == (None, None, {})
    assert found.stages["words"].count == 1


def test_own_questions_are_the_same_every_time_and_all_different(project):
    """Questions come from the corpus alone, as many as asked for where it has them."""
    corpus = load_settings(project.variables()).chosen()
    with Store(corpus.index_path) as store:
        found = own_questions(store, 3)
        again = own_questions(store, 3)
        all_of_them = own_questions(store, 1000)

    assert found == again and len(found) == 3
    assert len(set(all_of_them)) == len(all_of_them)
    assert "Changing a lamp" in all_of_them


def test_questions_from_a_file(tmp_path):
    """A file has one a line, or is a golden file; what is neither names itself."""
    lines, golden, empty = (tmp_path / name for name in ("a.txt", "b.jsonl", "c"))
    lines.write_text("one?\n\n two? \none?\n")
    row = {"id": "1", "query": "three?", "expected": []}
    golden.write_text("// labelled\n" + json.dumps(row) + "\n")
    empty.write_text("\n")

    assert read_questions(lines) == ["one?", "two?"]
    assert read_questions(golden) == ["three?"]
    for bad in (empty, tmp_path / "none", tmp_path):
        with pytest.raises(DocsRagError, match=str(bad)):
            read_questions(bad)
    golden.write_text('{"id": 1}\n')
    with pytest.raises(DocsRagError, match=r"b\.jsonl:1"):
        read_questions(golden)


def test_the_verb_prints_a_table_or_json_and_leaves_nothing(project):
    """Text and JSON hold every stage; neither traces nor writes."""
    before = sorted(project.rag_dir.rglob("*"))
    text = project.run("bench", "--count", "3", "--repeats", "1")
    done = project.run("bench", "--count", "3", "--repeats", "1", "--json")

    assert text.returncode == done.returncode == 0, text.stderr + done.stderr
    value = json.loads(done.stdout)
    assert value["questions"] == 3 and value["recall"] == 1.0
    for stage in (*STAGES, "total"):
        assert stage in text.stdout and value["stages"][stage]["count"] == 3
    for name in value["baselines"]:
        assert name in text.stdout
    after = sorted(project.rag_dir.rglob("*"))
    assert [p for p in after if p.suffix not in {"-wal", "-shm"}] == before or {
        p.name for p in set(after) - set(before)
    } <= {"index.sqlite-wal", "index.sqlite-shm"}


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("--count", "0"), "--count"),
        (("--repeats", "-1"), "--repeats"),
        (("--queries", "no-such-file"), "no-such-file"),
    ],
)
def test_bad_input_is_one_line(project, words, named):
    """What cannot be used is named in one line."""
    done = project.run("bench", *words)

    assert done.returncode == 2
    assert named in done.stderr and done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_a_corpus_without_index_is_one_line(tmp_path):
    """Where nothing is indexed the line says how to."""
    done = kit.make_project(tmp_path / "home").run("bench")

    assert done.returncode != 0
    assert "docs-rag index" in done.stderr and done.stderr.count("\n") == 1


def test_ties_do_not_cost_recall_in_a_matrix_of_copies():
    """Copies of one vector have one cosine, in whatever order they come."""
    cosine = float(np.float32(0.7))
    exact = [(i, cosine) for i in range(120)]

    assert recall(list(reversed(exact)), exact) == 1.0
