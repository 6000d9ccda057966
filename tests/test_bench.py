"""The benchmark generates the same everywhere, and its reports are right and whole."""

import itertools
import json
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
from project import ROOT

from docs_rag.chunking import chunk_markdown
from docs_rag.preparing import POLICY, recipe
from docs_rag.resident import ResidentVectors
from docs_rag.retrieval import Retriever, ask
from docs_rag.store import Store
from eval.bench import __main__ as bench_main
from eval.bench.chart import log_chart
from eval.bench.figures import Bench, Figure, Section, Table
from eval.bench.filling import CORPUS, SyntheticEmbedder, fill_index, filled
from eval.bench.report import as_json, as_markdown, missed
from eval.bench.synthetic import (
    page,
    page_sizes,
    page_vectors,
    queries,
    unknown_vector,
    write_markdown,
)
from eval.bench.vocabulary import VOCABULARY, word

DIGEST = """
import hashlib
from eval.bench.synthetic import page, page_vectors, queries
pages = [page(number) for number in (0, 7, 130)]
texts = [one.path + one.text for one in pages]
texts += [one.text + one.kind for one in queries(20, 500)]
vectors = page_vectors(pages, 64)
rows = b"".join(v.bodies.tobytes() + v.headings.tobytes() for v in vectors)
print(hashlib.sha256("".join(texts).encode() + rows).hexdigest())
"""


def run_python(*words):
    return subprocess.run(
        [sys.executable, *words], cwd=ROOT, capture_output=True, text=True, check=False
    )


def test_two_processes_generate_the_same():
    """Neither a hash seed nor what was generated before has a part in it."""
    first, second = (run_python("-c", DIGEST) for _ in range(2))
    assert first.returncode == 0, first.stderr
    assert first.stdout == second.stdout
    page(3)
    assert page(130).text == page(130).text


def test_a_larger_corpus_begins_with_the_smaller_one():
    """A page and its place do not depend on the size of the corpus."""
    small, large = list(page_sizes(55)), list(page_sizes(300))

    assert sum(size for _, size in small) == 55
    assert small[:-1] == large[: len(small) - 1]
    assert len(page(0, 2).passages) == 2
    assert page(0, 2).passages == page(0).passages[:2]


def test_words_are_all_different_and_look_like_words():
    """No two ranks share a word, over the seam between short and long ones too."""
    ranks = [*range(9_000), *range(VOCABULARY - 3_000, VOCABULARY)]
    found = [word(rank) for rank in ranks]

    assert len(set(found)) == len(found)
    assert all(one.isascii() and one.isalpha() and len(one) >= 4 for one in found)


def test_vectors_are_of_length_one_and_cluster():
    """Passages of a page are nearer to each other than to those of another area."""
    one, other = page_vectors([page(1), page(1_000)], 128)

    assert np.allclose(np.linalg.norm(one.bodies, axis=1), 1, atol=1e-5)
    inside = (one.bodies @ one.bodies.T).mean()
    assert inside > (one.bodies @ other.bodies.T).mean() + 0.1
    assert np.linalg.norm(unknown_vector("anything", 128)) == pytest.approx(1, abs=1e-5)


def test_generated_pages_are_markdown_that_the_chunker_cuts_alike(tmp_path):
    """The passages that are generated are about those that the chunker makes."""
    pages = [page(number) for number in range(12)]
    generated = sum(len(one.passages) for one in pages)
    cut = sum(len(chunk_markdown(one.text, POLICY).chunks) for one in pages)
    size = write_markdown(tmp_path, 12)

    assert 0.8 * generated < cut < 1.2 * generated
    files = {str(p.relative_to(tmp_path)): p for p in tmp_path.rglob("*.md")}
    assert sum(path.stat().st_size for path in files.values()) == size
    assert all(files[one.path].read_text() == one.text for one in pages)


def test_a_filled_index_is_sound_and_answers(tmp_path):
    """It has no contradiction, exactly so many passages, and finds what is asked."""
    path = tmp_path / "index.sqlite"
    fill_index(path, 150, 64)
    with Store(path) as store:
        assert store.integrity_problems() == []
        assert store.meta("chunks") == len(store.chunk_ids()) == 150
        file = next(iter(store.files().values()))
        assert file.recipe == recipe()
    asked = queries(10, 150, 64)
    embedder = SyntheticEmbedder(asked, 64)
    retriever = Retriever(CORPUS, tmp_path / "no", path, embedder, ResidentVectors())
    found = [retriever.retrieve(ask(one.text), even_if_none=True) for one in asked]
    retriever.close()

    assert all(answer.facts["semantic"] for answer in found)
    right = [
        one.path in {hit.path for hit in answer.hits}
        for one, answer in zip(asked, found, strict=True)
    ]
    assert sum(right) >= 8


def test_questions_are_different_and_of_every_kind():
    """Identifiers and misspelt words are among them."""
    asked = queries(60, 500, 32)

    assert len({one.text for one in asked}) == 60
    assert {one.kind for one in asked} == {"words", "identifier", "typo"}


def test_an_index_is_kept_and_an_unfinished_one_is_not(tmp_path, monkeypatch):
    """A second call writes nothing; a call that fails leaves nothing to be taken."""
    said = []

    def fail(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("eval.bench.filling.fill_index", fail)
        with pytest.raises(KeyboardInterrupt):
            filled(tmp_path, 30, said.append)
    assert list(tmp_path.iterdir()) == []
    place = filled(tmp_path, 30, said.append)
    count = len(said)
    assert filled(tmp_path, 30, said.append) == place
    assert len(said) == count and place.index_path.exists()


# -- figures and reports ----------------------------------------------------------

MET = Figure("fast", 2.0, "ms", 10.0, "slow|er", 0.5)
MISSED = Figure("slow", 30.0, "ms", 10.0, "fast", 2.0)
RECALL = Figure("recall", 0.98, "", goal=0.99, at_least=True)
PLAIN = Figure("seen", 5.0, "MB")


@pytest.mark.parametrize(
    ("figure", "ratio", "is_met"),
    [
        (MET, 0.2, True),
        (MISSED, 3.0, False),
        (RECALL, None, False),
        (Figure("recall", 0.99, "", goal=0.99, at_least=True), None, True),
        (Figure("times", 20.0, "", 2.0, "one", 10.0, True), 10.0, True),
        (PLAIN, None, None),
        (Figure("nothing", 1.0, "ms", 0.0, "zero", 2.0), None, None),
    ],
)
def test_a_goal_bounds_the_ratio_or_else_the_value(figure, ratio, is_met):
    """With a baseline the ratio is judged, without one the value."""
    assert figure.ratio == (None if ratio is None else pytest.approx(ratio))
    assert figure.is_met is is_met


def test_the_report_begins_with_what_is_missed():
    """Missed goals stand first, counted; what has no goal is not among them."""
    table = Table("Rows", ("a", "b"), ((1_000_000, "x|y\nz"), (0.12345, True)))
    section = Section("Part", (MET, MISSED, RECALL, PLAIN), (table,), ("A note.",))
    text = as_markdown([section], {"cores": 2}, "python -m x", "bench.svg")
    goals, part = text.split("## Part")

    assert "## Goals: 1 of 3 met" in goals and "seen" not in goals
    assert goals.index("| slow |") < goals.index("| fast |")
    assert goals.count("**missed**") == 2
    assert "3 x fast" in goals and "at most 2 x" in goals
    assert "0.9800 | at least 0.9900" in goals
    assert "![" in goals and "(bench.svg)" in goals
    assert "| 1,000,000 | x\\|y z |" in part and "| 0.123 | True |" in part
    assert "A note." in part
    assert missed([section]) == [MISSED, RECALL]


def test_json_has_everything():
    """Every field of every figure is there, with its ratio and whether it is met."""
    section = Section("Part", (MISSED, PLAIN), (), ("note",))
    value = json.loads(as_json([section], {"cores": 2}, "command"))

    slow, seen = value["sections"][0]["figures"]
    assert slow["ratio"] == 3 and slow["is_met"] is False and slow["goal"] == 2
    assert seen["ratio"] is None and seen["is_met"] is None
    assert value["machine"] == {"cores": 2} and value["command"] == "command"


def test_the_chart_names_each_line_apart():
    """It is XML; each series has a label, and no two labels lie on each other."""
    series = {f"line <{n}>": [(1e3, 1 + n / 99), (1e6, 2 + n / 99)] for n in range(6)}
    tree = ElementTree.fromstring(log_chart("A & B", "chunks", "ms", series))
    labels = [e for e in tree.iter() if (e.text or "").startswith("line <")]
    places = sorted(float(label.get("y")) for label in labels)

    assert len(labels) == 6
    assert min(b - a for a, b in itertools.pairwise(places)) >= 14.9
    assert "prefers-color-scheme" in "".join(tree.itertext())
    with pytest.raises(ValueError, match="zero"):
        log_chart("", "", "", {"a": [(1, 0)]})


def test_sizes_follow_the_extent(tmp_path):
    """Quick is small, full goes to a million, and given sizes win."""
    quick, full = (Bench(is_full, tmp_path, 1, print) for is_full in (False, True))

    assert max(quick.sizes) == 10_000 and max(full.sizes) == 1_000_000
    assert Bench(True, tmp_path, 1, print, (20,)).sizes == (20,)


# -- the command ------------------------------------------------------------------


def test_a_tiny_run_writes_a_complete_report(tmp_path):
    """Query and size at two sizes: every stage, baseline and table, and a chart."""
    out, report = tmp_path / "out.json", tmp_path / "report.md"
    done = run_python(
        *("-m", "eval.bench", "--quick", "--sections", "query,size"),
        *("--sizes", "200,400", "--repeats", "1", "--work", str(tmp_path / "work")),
        *("--json", str(out), "--markdown", str(report)),
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    value = json.loads(out.read_text(encoding="utf-8"))
    query, size = value["sections"]

    named = {figure["name"]: figure for figure in query["figures"]}
    for chunks in (200, 400):
        for name in ("retrieve, p50", "vector stage, p50", "full-text stages, p50"):
            assert named[f"{name} at {chunks} chunks"]["ratio"] > 0
        assert named[f"recall@10 of the engine at {chunks} chunks"]["value"] > 0.9
    assert all(table["rows"] for one in (query, size) for table in one["tables"])
    growth = query["tables"][0]
    assert [row[0] for row in growth["rows"]] == [200, 400]
    assert {"vector", "words", "trigrams", "fetch", "fuse", "total"} < set(
        growth["columns"]
    )
    *parts, total = (row[1:] for row in size["tables"][0]["rows"])
    summed = [sum(column) for column in zip(*parts, strict=True)]
    assert summed == pytest.approx(total, abs=0.01)
    assert {"processor", "cores", "numpy", "sqlite", "commit"} < set(value["machine"])
    text = report.read_text(encoding="utf-8")
    assert "(report.svg)" in text and text.count("\n## ") == 3
    ElementTree.fromstring((tmp_path / "report.svg").read_text(encoding="utf-8"))
    assert {p.name for p in tmp_path.iterdir()} == {
        *("out.json", "report.md", "report.svg", "work")
    }


def test_an_interrupted_write_leaves_the_last_report(tmp_path, monkeypatch):
    """A report is there whole or not at all, and no scratch file stays."""
    target = tmp_path / "report.md"
    target.write_text("the last one")

    def fail(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(bench_main.os, "replace", fail)
    with pytest.raises(KeyboardInterrupt):
        bench_main._put(str(target), "a new one")
    assert [p.read_text() for p in tmp_path.iterdir()] == ["the last one"]


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("--sections", "query,speed"), "speed"),
        (("--repeats", "0"), "'0'"),
        (("--json", "no-such-folder/x.json"), "no-such-folder"),
        (("--quick", "--full"), "--full"),
    ],
)
def test_wrong_usage_is_said_before_the_run(words, named, capsys):
    """What would fail after an hour fails at once."""
    with pytest.raises(SystemExit) as stop:
        bench_main.main(words)

    assert stop.value.code == 2
    assert named in capsys.readouterr().err


def test_json_can_go_to_standard_output(monkeypatch, tmp_path, capsys):
    """Standard output is then JSON alone; a part that fails is the exit code."""
    section = Section("Part", (MISSED,))

    def measured(name, bench):
        if name == "size":
            raise OSError("no disk")
        return section

    monkeypatch.setattr(bench_main, "_measured", measured)
    words = ["--work", str(tmp_path), "--json", "-", "--sections"]
    assert bench_main.main([*words, "query"]) == 0
    seen = capsys.readouterr()
    assert json.loads(seen.out)["sections"][0]["title"] == "Part"
    assert "MISSED: slow" in seen.err
    assert bench_main.main([*words, "query,size"]) == 1
    seen = capsys.readouterr()
    assert "size failed: OSError: no disk" in seen.err
    part, lost = json.loads(seen.out)["sections"]
    assert part["title"] == "Part" and "no disk" in lost["notes"][0]


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc")
def test_a_peak_is_that_of_the_process_itself() -> None:
    """A child of a large process is not as large as that one was."""
    child = "from eval.bench.processes import peak_bytes; print(peak_bytes())"
    parent = (
        "import subprocess, sys\n"
        "held = bytearray(300_000_000)\n"
        f"subprocess.run([sys.executable, '-c', {child!r}], check=True)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", parent],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )

    assert 1_000_000 < int(done.stdout) < 200_000_000


@pytest.mark.parametrize("option", ["--json", "--markdown"])
def test_a_folder_is_refused_before_the_run(
    tmp_path: Path, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A report that could not be written at the end is refused at the beginning."""
    with pytest.raises(SystemExit) as refused:
        bench_main.main([option, str(tmp_path)])

    assert refused.value.code == 2
    assert "is a folder" in capsys.readouterr().err
