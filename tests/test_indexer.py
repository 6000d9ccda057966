"""An indexing run: incremental equals fresh, killed resumes, failing is harmless."""

import contextlib
import dataclasses
import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from layouts import lay_out, make_corpus

from docs_rag.config import Corpus
from docs_rag.embedding import StubEmbedder
from docs_rag.errors import (
    ConfigError,
    EmbeddingError,
    IndexLockedError,
    IndexMissingError,
    ShrinkError,
    StorageError,
    TextRefusedError,
)
from docs_rag.indexer import IndexOptions, index_corpus
from docs_rag.locking import corpus_lock
from docs_rag.records import (
    Capacity,
    EmbeddingBatch,
    IndexReport,
    ModelIdentity,
    Purpose,
)
from docs_rag.store import Store

ROOT = Path(__file__).resolve().parent.parent
PAGES = {
    "docs/anchor.md": "# Anchor\n\nLet go the anchor in mud, never on rock.\n",
    "docs/bilge.md": "# Bilge\n\nPump the bilge at noon.\n\n## Valve\n\nOil it.\n",
    "docs/capstan.md": "# Capstan\n\nFour hands turn the capstan.\n",
}


class CountingEmbedder:
    """The stub, which also notes what it was asked to embed, and fails on demand."""

    def __init__(self, model: str = "stub", fail_from: int | None = None) -> None:
        self._stub = StubEmbedder()
        self._model = model
        self._fail_from = fail_from
        self.texts: list[str] = []

    @property
    def identity(self) -> ModelIdentity:
        return dataclasses.replace(self._stub.identity, model=self._model)

    def probe(self) -> Capacity:
        return self._stub.probe()

    def count(self, text: str) -> int:
        return self._stub.count(text)

    def embed(self, texts: Sequence[str], purpose: Purpose) -> EmbeddingBatch:
        if purpose is Purpose.PASSAGE:
            self.texts += texts
            if self._fail_from is not None and len(self.texts) > self._fail_from:
                raise EmbeddingError("the endpoint is gone")
        return self._stub.embed(texts, purpose)


def run(corpus: Corpus, embedder: Any = None, **options: bool) -> IndexReport:
    return index_corpus(corpus, embedder or StubEmbedder(), IndexOptions(**options))


def content(corpus: Corpus) -> list[Any]:
    """Everything an index says, without row ids, generations and times."""
    with Store(corpus.index_path) as store, store.snapshot():
        found: list[Any] = [sorted(file.sha256 for file in store.files().values())]
        for chunk in store.all_chunks():
            vectors = store.rows(
                "SELECT w.ordinal, v.text_sha256, v.vector, v.spare FROM windows w "
                "JOIN vectors v ON v.id = w.vector_id WHERE w.chunk_id = ? "
                "ORDER BY w.ordinal",
                chunk.id,
            )
            row = dataclasses.asdict(chunk)
            del row["id"], row["mtime_ns"]
            found.append((row, vectors))
        for word in ("anchor", "pump", "turn", "oil", "new"):
            paths = [
                (store.chunks([i])[i].path, round(score, 6))
                for i, score in store.search_words(f'"{word}"', 100)
            ]
            found.append((word, sorted(paths)))
        return found


def test_first_run_reports_what_it_did(tmp_path: Path) -> None:
    """A first run adds every file, embeds every text, and says so."""
    corpus = make_corpus(tmp_path, PAGES)
    report = run(corpus)

    assert report.added == tuple(sorted(PAGES))
    assert (report.files, report.embedded, report.reused) == (3, 2 * report.chunks, 0)
    assert report.generation > 0


def test_second_run_does_nothing(tmp_path: Path) -> None:
    """Without a change nothing is embedded, no generation begins, nothing moves."""
    corpus = make_corpus(tmp_path, PAGES)
    first = run(corpus)
    embedder = CountingEmbedder()
    second = run(corpus, embedder)

    assert embedder.texts == []
    assert second.unchanged == 3
    assert second.generation == first.generation


def test_only_the_changed_file_is_embedded(tmp_path: Path) -> None:
    """A changed page costs the texts that it changed and no other page's."""
    corpus = make_corpus(tmp_path, PAGES)
    run(corpus)
    lay_out(corpus.directory, {"docs/capstan.md": "# Capstan\n\nSix hands now.\n"})
    embedder = CountingEmbedder()
    report = run(corpus, embedder)

    assert report.changed == ("docs/capstan.md",)
    assert len(embedder.texts) == 1
    assert "Six hands" in embedder.texts[0]


def test_renames_embed_nothing(tmp_path: Path) -> None:
    """Renaming every file, even only in case, embeds nothing and keeps the count."""
    pages = {**PAGES, "docs/capstan.md": "A page without a title.\n"}
    corpus = make_corpus(tmp_path, pages)
    run(corpus)
    for path in pages:
        old = corpus.directory / path
        old.rename(old.with_name(old.name.capitalize()))
    embedder = CountingEmbedder()
    report = run(corpus, embedder)

    assert embedder.texts == []
    assert report.renamed == tuple(
        (path, path.replace("/a", "/A").replace("/b", "/B").replace("/c", "/C"))
        for path in PAGES
    )
    assert report.files == 3


def test_branch_switch_and_back_embeds_once(tmp_path: Path) -> None:
    """Texts that left and come back are not embedded again."""
    corpus = make_corpus(tmp_path, PAGES)
    run(corpus)
    lay_out(corpus.directory, {"docs/bilge.md": "# Bilge\n\nAnother branch.\n"})
    run(corpus)
    lay_out(corpus.directory, {"docs/bilge.md": PAGES["docs/bilge.md"]})
    embedder = CountingEmbedder()
    report = run(corpus, embedder)

    assert embedder.texts == []
    assert report.reused > 0


def test_excluded_files_leave_and_come_back(tmp_path: Path) -> None:
    """A new exclusion purges without a change of bytes; taking it away restores."""
    files = {**PAGES, "docs/legacy/then.md": "# Then\n\nThe sextant box.\n"}
    without = make_corpus(tmp_path, files, exclude_dirs=["legacy"])
    with_it = dataclasses.replace(without, exclude_dirs=())
    run(with_it)

    assert run(without).purged == ("docs/legacy/then.md",)
    assert run(with_it).added == ("docs/legacy/then.md",)


def test_shrink_is_refused_with_a_list(tmp_path: Path) -> None:
    """A run that would purge more than half of the files changes nothing."""
    corpus = make_corpus(tmp_path, PAGES)
    run(corpus)
    before = content(corpus)
    for path in list(PAGES)[:2]:
        (corpus.directory / path).unlink()

    with pytest.raises(ShrinkError, match="would purge 2 of 3") as refusal:
        run(corpus)

    assert "docs/anchor.md" in str(refusal.value)
    assert "--allow-shrink" in str(refusal.value)
    assert content(corpus) == before
    assert run(corpus, allow_shrink=True).files == 1


@pytest.mark.parametrize("full", [False, True], ids=["refresh", "full"])
def test_an_empty_tree_does_not_empty_the_index(tmp_path: Path, full: bool) -> None:
    """A corpus that is away for once loses nothing, not even to a full rebuild."""
    corpus = make_corpus(tmp_path, PAGES)
    run(corpus)
    before = content(corpus)
    (corpus.directory / "docs").rename(corpus.directory / "docs.away")

    with pytest.raises(ShrinkError, match="would purge 3 of 3"):
        run(corpus, full=full)

    assert content(corpus) == before


def test_a_scope_without_files_is_refused(tmp_path: Path) -> None:
    """A first run that finds nothing to index is an error that names the scope."""
    corpus = make_corpus(tmp_path, {"docs/notes.txt": "no markdown"})

    with pytest.raises(ConfigError, match="scope matches no file"):
        run(corpus)


def test_half_may_go(tmp_path: Path) -> None:
    """Purging exactly half is no shrink to refuse."""
    corpus = make_corpus(tmp_path, dict(list(PAGES.items())[:2]))
    run(corpus)
    (corpus.directory / "docs/anchor.md").unlink()

    assert run(corpus).purged == ("docs/anchor.md",)


def test_dry_run_writes_nothing(tmp_path: Path) -> None:
    """A dry run shows the plan and leaves no file behind."""
    corpus = make_corpus(tmp_path, PAGES)
    report = run(corpus, dry_run=True)

    assert report.added == tuple(sorted(PAGES))
    assert report.dry_run
    assert not corpus.data_dir.exists()


def test_dry_run_over_an_index_changes_no_byte(tmp_path: Path) -> None:
    """A dry run over an existing index shows changes without making them."""
    corpus = make_corpus(tmp_path, PAGES)
    run(corpus)
    digest = hashlib.sha256(corpus.index_path.read_bytes()).digest()
    lay_out(corpus.directory, {"docs/new.md": "# New\n"})

    assert run(corpus, dry_run=True).added == ("docs/new.md",)
    assert hashlib.sha256(corpus.index_path.read_bytes()).digest() == digest


def test_files_without_text_are_reported_once_done(tmp_path: Path) -> None:
    """Empty, blank and metadata-only files are named with a reason and not redone."""
    corpus = make_corpus(
        tmp_path,
        {
            "docs/blank.md": " \n\n",
            "docs/good.md": "# Good\n\nText.\n",
            "docs/meta.md": "---\ntitle: Only this\n---\n",
            "docs/zero.md": "",
        },
    )
    report = run(corpus)
    again = run(corpus)

    assert {s.path: s.reason for s in report.skipped} == {
        "docs/blank.md": "empty",
        "docs/meta.md": "no text but front matter",
        "docs/zero.md": "empty",
    }
    assert again.skipped == report.skipped
    assert again.unchanged == 4


def test_payloads_are_shown_as_left_out_and_never_embedded(tmp_path: Path) -> None:
    """Of an embedded picture the alt text counts, and nothing else."""
    picture = f"![the dial](data:image/png;base64,{'QUJD' * 200})"
    corpus = make_corpus(
        tmp_path,
        {"docs/a.md": f"# Dial\n\nBefore.\n\n{picture}\n", "docs/b.md": f"{picture}\n"},
    )
    embedder = CountingEmbedder()
    run(corpus, embedder)

    assert all(text.strip() and "base64" not in text for text in embedder.texts)
    assert any("the dial" in text for text in embedder.texts)
    with Store(corpus.index_path) as store:
        assert all("left-out" in chunk.text for chunk in store.all_chunks())
        assert store.search_words('"base64"', 5) == []


def test_nothing_blank_is_embedded(tmp_path: Path) -> None:
    """No blank text ever reaches an embedder."""
    corpus = make_corpus(tmp_path, {**PAGES, "docs/z.md": "", "docs/y.md": "\n\n#\n"})
    embedder = CountingEmbedder()
    run(corpus, embedder)

    assert all(text.strip() for text in embedder.texts)


def test_unmatched_scope_is_reported_every_time(tmp_path: Path) -> None:
    """A scope entry that matches nothing is in each run's report."""
    corpus = make_corpus(tmp_path, PAGES, roots=["docs", "dcos"])

    for _ in range(2):
        assert any("dcos" in entry for entry in run(corpus).unmatched_scope)


def test_failing_endpoint_leaves_the_index_and_keeps_vectors(tmp_path: Path) -> None:
    """When embedding fails the index stays as it was; what was embedded is kept."""
    corpus = make_corpus(tmp_path, PAGES)
    run(corpus)
    before = content(corpus)
    pages = {f"docs/n{i:03}.md": f"# New {i}\n\nPage number {i}.\n" for i in range(80)}
    lay_out(corpus.directory, pages)
    failing = CountingEmbedder(fail_from=40)

    with pytest.raises(EmbeddingError, match="the endpoint is gone"):
        run(corpus, failing)

    assert content(corpus) == before
    embedder = CountingEmbedder()
    report = run(corpus, embedder)
    assert report.files == 83
    assert 0 < len(embedder.texts) < 160


class PickyEmbedder(CountingEmbedder):
    """Refuses any text that holds a word, and embeds the others."""

    def __init__(self, word: str) -> None:
        super().__init__()
        self._word = word

    def embed(self, texts: Sequence[str], purpose: Purpose) -> EmbeddingBatch:
        for position, text in enumerate(texts):
            if self._word in text:
                raise TextRefusedError("vector of NaN", position)
        return super().embed(texts, purpose)


def test_a_refused_text_costs_only_its_own_vector(tmp_path: Path) -> None:
    """A text that cannot be embedded is named, found by words, and tried again."""
    corpus = make_corpus(tmp_path, PAGES)
    report = run(corpus, PickyEmbedder("Pump"))
    with Store(corpus.index_path) as store:
        by_words = store.search_words('"pump"', 5)
        held = store.value("SELECT count(*) FROM vectors WHERE spare = 0")
    again = run(corpus)

    assert [(f.path, "NaN" in f.reason) for f in report.failed] == [
        ("docs/bilge.md", True)
    ]
    assert len(by_words) == 1
    assert held == 2 * report.chunks - 1
    assert (again.failed, again.rebuilt, again.embedded) == ((), 1, 1)


def test_model_change_re_embeds_everything(tmp_path: Path) -> None:
    """Another model of the same width embeds every text again and drops the old."""
    corpus = make_corpus(tmp_path, PAGES)
    run(corpus)
    embedder = CountingEmbedder(model="second")
    report = run(corpus, embedder)

    assert report.rebuilt == 3
    assert len(embedder.texts) == 2 * report.chunks
    with Store(corpus.index_path) as store:
        assert store.rows("SELECT model FROM spaces") == [("second",)]
        assert store.value("SELECT count(*) FROM vectors") == 2 * report.chunks


def test_full_rebuild_embeds_everything_and_goes_on_counting(tmp_path: Path) -> None:
    """--full makes the same index anew, under a later generation, leaving nothing."""
    corpus = make_corpus(tmp_path, PAGES)
    first = run(corpus)
    before = content(corpus)
    embedder = CountingEmbedder()
    report = run(corpus, embedder, full=True)

    assert len(embedder.texts) == 2 * report.chunks
    assert report.generation > first.generation
    assert content(corpus) == before
    assert list(corpus.data_dir.glob("*rebuild*")) == []


def test_full_rebuild_replaces_a_damaged_file(tmp_path: Path) -> None:
    """--full works over a file that is no index, and keeps that file aside."""
    corpus = make_corpus(tmp_path, PAGES)
    corpus.data_dir.mkdir(parents=True)
    corpus.index_path.write_bytes(b"this is no database" * 1000)

    assert run(corpus, full=True).files == 3
    assert (corpus.data_dir / "index.sqlite.damaged").exists()
    with Store(corpus.index_path, writable=True) as store:
        assert store.integrity_problems() == []


def test_reader_sees_old_rows_until_the_full_rebuild_is_done(tmp_path: Path) -> None:
    """A reader that has the index open before --full sees the new one after it."""
    corpus = make_corpus(tmp_path, PAGES)
    run(corpus)
    with Store(corpus.index_path) as reader:
        lay_out(corpus.directory, {"docs/new.md": "# New\n\nFresh paint.\n"})
        run(corpus, full=True)
        with reader.snapshot():
            assert "docs/new.md" in reader.files()


MANY = {f"docs/{n:03}.md": f"# Page {n}\n\nRope {n}.\n" for n in range(70)}
DISASTERS: dict[str, Callable[[Corpus], object]] = {
    "file deleted": lambda corpus: corpus.index_path.unlink(),
    "folder deleted": lambda corpus: shutil.rmtree(corpus.data_dir),
    "folder moved": lambda corpus: corpus.data_dir.rename(f"{corpus.data_dir}.old"),
    "file replaced": lambda corpus: replace_by_copy(corpus.index_path),
    "folder is a file": lambda corpus: replace_by_file(corpus.data_dir),
}


def replace_by_file(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.write_text("")


def replace_by_copy(path: Path) -> None:
    copy = path.with_name("copy")
    shutil.copyfile(path, copy)
    copy.replace(path)


@pytest.mark.parametrize("full", [False, True], ids=["refresh", "full"])
@pytest.mark.parametrize("moment", ["embedding", "writing"])
@pytest.mark.parametrize("disaster", DISASTERS)
def test_a_run_never_calls_an_index_done_that_is_not_there(
    tmp_path: Path, disaster: str, moment: str, full: bool
) -> None:
    """An index taken away in the middle of a run fails it, or is there at its end."""
    corpus = make_corpus(tmp_path, MANY)
    run(corpus)
    lay_out(corpus.directory, {path: f"{MANY[path]}\nNew.\n" for path in MANY})
    struck: list[int] = []

    def strike(stage: str, done: int, total: int) -> None:
        if stage == moment and not struck:
            struck.append(done)
            DISASTERS[disaster](corpus)

    with contextlib.suppress(StorageError):
        index_corpus(corpus, StubEmbedder(), IndexOptions(full=full), strike)
        assert "New." in {chunk.split()[-1] for chunk in bodies(corpus)}
    assert struck


def bodies(corpus: Corpus) -> list[str]:
    with Store(corpus.index_path) as store:
        return [chunk.body for chunk in store.all_chunks()]


@pytest.mark.parametrize("name", ["index.sqlite.rebuild", "index.sqlite.damaged"])
def test_a_folder_in_the_way_of_a_rebuild_is_named(tmp_path: Path, name: str) -> None:
    """What a rebuild cannot put away stops it with its name; the file stays."""
    corpus = make_corpus(tmp_path, PAGES)
    run(corpus)
    before = corpus.index_path.read_bytes()
    if name.endswith("damaged"):
        before = b"no index at all"
        corpus.index_path.write_bytes(before)
    (corpus.data_dir / name).mkdir()

    with pytest.raises(StorageError, match=rf"^cannot remove \S+/{name} \("):
        run(corpus, full=True)
    assert corpus.index_path.read_bytes() == before


def test_files_that_vanish_during_a_run_are_named_once(tmp_path: Path) -> None:
    """A file that neither pass could read is one skipped file, not two."""
    corpus = make_corpus(tmp_path, MANY)

    def strike(stage: str, done: int, total: int) -> None:
        shutil.rmtree(corpus.directory / "docs", ignore_errors=True)

    report = index_corpus(corpus, StubEmbedder(), IndexOptions(), strike)

    assert [s.path for s in report.skipped] == sorted(MANY)[-len(report.skipped) :]
    assert len(report.skipped) == len(MANY) - report.files > 0


def test_second_writer_is_turned_away(tmp_path: Path) -> None:
    """While a run holds the lock another one stops at once and names the holder."""
    corpus = make_corpus(tmp_path, PAGES)

    with (
        corpus_lock(corpus.lock_path, corpus.name),
        pytest.raises(IndexLockedError, match=f"process {os.getpid()} "),
    ):
        run(corpus)


def test_scope_is_indexed_once_however_often_it_is_named(tmp_path: Path) -> None:
    """Overlapping entries yield each file once."""
    corpus = make_corpus(
        tmp_path, PAGES, roots=["docs", "docs", "."], doc_root_files=["anchor.md"]
    )

    assert run(corpus).files == 3


EDITS = st.lists(
    st.tuples(
        st.sampled_from(["write", "delete", "rename", "index"]),
        st.integers(0, 4),
        st.integers(0, 4),
        st.sampled_from(
            [
                "# Anchor\n\nLet go the anchor.\n",
                "# Pump\n\nNew pump.\n\n## Oil\n\nOil it.\n",
                "Turn it.\n",
                "",
                "---\ntitle: New\n---\n\n```\nturn\n```\n",
            ]
        ),
    ),
    min_size=1,
    max_size=8,
)


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(edits=EDITS)
def test_incremental_equals_fresh(
    edits: list[tuple[str, int, int, str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Any sequence of edits, renames and deletes, then a run, equals a fresh index."""
    place = tmp_path_factory.mktemp("edits")
    corpus = make_corpus(place, {"docs/keep.md": "# Keep\n\nAlways here.\n"})
    for action, one, other, text in edits:
        source = corpus.directory / f"docs/p{one}.md"
        if action == "write":
            source.write_text(text)
        elif action == "delete":
            source.unlink(missing_ok=True)
        elif action == "rename" and source.exists():
            source.rename(corpus.directory / f"docs/p{other}.md")
        elif action == "index":
            run(corpus, allow_shrink=True)
    run(corpus, allow_shrink=True)
    fresh = dataclasses.replace(corpus, data_dir=place / "fresh")
    run(fresh)

    assert content(corpus) == content(fresh)
    with Store(corpus.index_path, writable=True) as store:
        assert store.integrity_problems() == []


def start_slow_run(
    corpus: Corpus, seconds_per_text: float
) -> "subprocess.Popen[bytes]":
    """Start an indexing run in a process of its own, slow enough to be killed."""
    code = (
        "import sys, time\n"
        "from docs_rag.config import load_settings\n"
        "from docs_rag.embedding import StubEmbedder\n"
        "from docs_rag.indexer import index_corpus\n"
        "class Slow(StubEmbedder):\n"
        "    def embed(self, texts, purpose):\n"
        "        time.sleep(float(sys.argv[2]) * len(texts))\n"
        "        return super().embed(texts, purpose)\n"
        "environ = {'RAG_DIR': sys.argv[1], 'RAG_CORPUS': 'demo'}\n"
        "corpus = load_settings(environ).chosen()\n"
        "print('ready', flush=True)\n"
        "index_corpus(corpus, Slow())\n"
    )
    rag_dir = corpus.data_dir.parent
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(rag_dir), str(seconds_per_text)],
        stdout=subprocess.PIPE,
        env={"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"]},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    return process


def wait_until(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.005)


@pytest.mark.slow
def test_killed_runs_resume(tmp_path: Path) -> None:
    """Killed at ten random moments, then run to the end: as if never disturbed."""
    pages = {
        f"docs/p{i:03}.md": f"# Page {i}\n\nAnchor {i}.\n\n## Pump\n\nTurn {i}.\n"
        for i in range(150)
    }
    corpus = make_corpus(tmp_path, pages)
    chance = random.Random(20)
    readings = 0
    for _ in range(10):
        process = start_slow_run(corpus, 0.001)
        until = time.monotonic() + chance.uniform(0.05, 0.6)
        while time.monotonic() < until:
            try:
                with Store(corpus.index_path) as store, store.snapshot():
                    assert len(store.files()) <= 150
                    readings += 1
            except IndexMissingError:
                pass
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
    run(corpus)
    fresh = dataclasses.replace(corpus, data_dir=tmp_path / "fresh")
    run(fresh)

    assert readings > 10
    assert content(corpus) == content(fresh)
    with Store(corpus.index_path, writable=True) as store:
        assert store.integrity_problems() == []


@pytest.mark.slow
def test_killed_run_keeps_what_it_embedded(tmp_path: Path) -> None:
    """After a kill the next run embeds only what the killed one had not committed."""
    pages = {f"docs/p{i:03}.md": f"# Page {i}\n\nText {i}.\n" for i in range(200)}
    corpus = make_corpus(tmp_path, pages)
    process = start_slow_run(corpus, 0.005)

    def some_are_there() -> bool:
        try:
            with Store(corpus.index_path) as store:
                return bool(store.value("SELECT count(*) > 60 FROM vectors"))
        except IndexMissingError:
            return False

    wait_until(some_are_there)
    process.kill()
    process.wait()
    assert process.stdout is not None
    process.stdout.close()
    embedder = CountingEmbedder()
    report = run(corpus, embedder)

    assert report.files == 200
    assert len(embedder.texts) < 340
