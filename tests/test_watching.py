"""The watch: quick after a save, patient with everything else, and easy to stop."""

import contextlib
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import layouts
import project as kit
import pytest
import tools
from watchfiles import Change

from docs_rag.config import Corpus
from docs_rag.embedding import StubEmbedder
from docs_rag.errors import EmbeddingError, IndexLockedError
from docs_rag.indexer import IndexOptions, Progress, index_corpus
from docs_rag.records import IndexReport
from docs_rag.store import Store
from docs_rag.watching import Watch, Watched

PAGES = {
    "README.md": "# Pier\n",
    "docs/lamps.md": "# Lamps\n\nThe lamp is lit at dusk.\n",
    "docs/tides.md": "# Tides\n\nTwo bells at high water.\n",
}


@dataclass
class Watching:
    """A watch in a thread, and what it did."""

    corpus: Corpus
    reports: list[IndexReport] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    runs: list[float] = field(default_factory=list)
    before_run: Callable[[], None] = lambda: None

    def index(self, progress: Progress) -> IndexReport:
        self.runs.append(time.monotonic())
        self.before_run()
        return index_corpus(self.corpus, StubEmbedder(), IndexOptions(), progress)

    @property
    def indexed(self) -> set[str]:
        with Store(self.corpus.index_path) as store:
            return set(store.files())

    def until(self, condition: Callable[[], bool]) -> None:
        kit.eventually(condition, f"it ({self.said}, {len(self.runs)} runs)")


@contextmanager
def watching(
    corpus: Corpus, before_run: Callable[[], None] = lambda: None, **options: float
) -> Iterator[Watching]:
    """Watch ``corpus``; the block begins when the first run has ended."""
    one = Watching(corpus, before_run=before_run)
    watch = Watch(corpus, one.index, one.reports.append, one.said.append, **options)
    watch.start()
    try:
        one.until(lambda: bool(one.reports or one.said))
        yield one
    finally:
        watch.request_stop()
        watch.wait()


@pytest.fixture
def corpus(tmp_path):
    return layouts.make_corpus(tmp_path, PAGES, roots=["docs"], top_files=["README.md"])


# -- what is noticed --------------------------------------------------------------


def test_a_save_is_indexed_at_once(corpus):
    """Add, change, rename and remove: each is in the index soon after."""
    docs = corpus.directory / "docs"
    with watching(corpus) as watch:
        assert watch.indexed == set(PAGES)
        saved_at = time.monotonic()
        (docs / "new.md").write_text("# New\n")
        watch.until(lambda: "docs/new.md" in watch.indexed)
        # A second, on a machine that has nothing else to do.
        assert time.monotonic() - saved_at < 10
        (docs / "new.md").rename(docs / "moved.md")
        watch.until(lambda: "docs/moved.md" in watch.indexed)
        assert "docs/new.md" not in watch.indexed
        (docs / "lamps.md").write_text("# Lamps\n\nNone is lit.\n")
        watch.until(lambda: watch.reports[-1].changed == ("docs/lamps.md",))
        (docs / "sub").mkdir()
        (docs / "sub" / "deep.md").write_text("# Deep\n")
        watch.until(lambda: "docs/sub/deep.md" in watch.indexed)
        (docs / "moved.md").unlink()
        watch.until(lambda: "docs/moved.md" not in watch.indexed)
    assert watch.said == []


def test_the_files_that_the_scope_names_are_looked_at(corpus):
    """A file at the top is watched without watching all that lies beside it."""
    with watching(corpus) as watch:
        (corpus.directory / "README.md").write_text("# Pier\n\nNew boards.\n")
        watch.until(lambda: watch.reports[-1].changed == ("README.md",))
        (corpus.directory / "README.md").unlink()
        watch.until(lambda: "README.md" not in watch.indexed)


def test_a_burst_is_one_run(corpus):
    """A branch switch of a thousand files does not index a thousand times."""
    docs = corpus.directory / "docs"
    with watching(corpus) as watch:
        runs = len(watch.runs)
        for number in range(1000):
            (docs / f"page-{number}.md").write_text(f"# Page\n\nNumber {number}.\n")
        watch.until(lambda: len(watch.indexed) == 1000 + len(PAGES))
        # One, or one more where this machine paused in the middle of the writing.
        assert len(watch.runs) - runs <= 5


def test_what_no_event_tells_of_is_found_by_a_look(corpus, tmp_path):
    """A linked folder outside the watched ones is found by the rescan."""
    shared = layouts.lay_out(corpus.directory / "shared", {"a.md": "# A\n"})
    (corpus.directory / "docs" / "shared").symlink_to(shared)
    with watching(corpus, rescan_seconds=0.5) as watch:
        (shared / "b.md").write_text("# B\n")
        watch.until(lambda: "docs/shared/b.md" in watch.indexed)


CHANGES = {
    "a page": (Change.modified, "docs/a.md", True),
    "a page in capitals": (Change.added, "docs/sub/A.MD", True),
    "a folder": (Change.added, "docs", True),
    "a folder that is gone": (Change.deleted, "docs/v1.2", True),
    "elsewhere": (Change.modified, "outside.c", True),
    "a picture": (Change.modified, "docs/a.png", False),
    "vim's swap file": (Change.added, "docs/.a.md.swp", False),
    "vim's probe": (Change.added, "docs/4913", False),
    "vim's probe, gone": (Change.deleted, "docs/4913", False),
    "a backup": (Change.added, "docs/a.md~", False),
    "emacs' lock": (Change.added, "docs/.#a.md", False),
    "emacs' copy": (Change.added, "docs/#a.md#", False),
    "a half-written file": (Change.added, "docs/a.md.tmp", False),
    "git's own": (Change.modified, "docs/.git/index", False),
    "node_modules": (Change.added, "docs/node_modules/x/README.md", False),
}


@pytest.mark.parametrize(("change", "path", "counts"), CHANGES.values(), ids=CHANGES)
def test_what_editors_leave_beside_a_page_wakes_nobody(corpus, change, path, counts):
    """Pages and folders count, and whatever was removed; temporary files do not."""
    watched = Watched(corpus)

    assert watched.concerns(change, str(corpus.directory / path)) is counts


@pytest.mark.parametrize(
    ("roots", "folders"),
    [
        (["docs"], ["docs"]),
        (["docs", "docs/guide", "more"], ["docs", "more"]),
        ([".", "docs"], ["."]),
    ],
)
def test_no_folder_is_watched_twice(tmp_path, roots, folders):
    """A root inside another needs no watch of its own."""
    corpus = layouts.make_corpus(tmp_path, PAGES, roots=roots)

    expected = [corpus.directory / folder for folder in folders]
    assert list(Watched(corpus).folders) == expected


# -- what is survived -------------------------------------------------------------


def test_an_emptied_or_unmounted_folder_empties_no_index(corpus):
    """The watch says that it waits, and goes on when the folder is back."""
    docs = corpus.directory / "docs"
    away = corpus.directory / "away"
    with watching(corpus) as watch:
        docs.rename(away)
        watch.until(lambda: any("waiting" in line for line in watch.said))
        assert watch.indexed == set(PAGES)
        docs.mkdir()
        time.sleep(0.5)
        assert watch.indexed == set(PAGES)
        docs.rmdir()
        away.rename(docs)
        (docs / "new.md").write_text("# New\n")
        watch.until(lambda: watch.indexed == {*PAGES, "docs/new.md"})
        # The new folder is the one that is watched now.
        (docs / "newer.md").write_text("# Newer\n")
        watch.until(lambda: "docs/newer.md" in watch.indexed)
    assert len(watch.said) <= 4


@tools.needs_root
def test_a_disk_that_is_unmounted_and_mounted_again_is_waited_for(corpus):
    """What is under the mount is an empty folder, and no reason to purge."""
    docs = corpus.directory / "docs"
    pages = {path.name: path.read_text() for path in docs.iterdir()}
    for path in docs.iterdir():
        path.unlink()
    with tools.small_disk(docs, "1m"):
        layouts.lay_out(docs, pages)
        with contextlib.ExitStack() as stack:
            watch = stack.enter_context(watching(corpus))
            subprocess.run(["umount", "-l", str(docs)], check=True)
            watch.until(lambda: any("waiting" in line for line in watch.said))
            assert watch.indexed == set(PAGES)
            stack.enter_context(tools.small_disk(docs, "1m"))
            layouts.lay_out(docs, {**pages, "new.md": "# New\n"})
            watch.until(lambda: watch.indexed == {*PAGES, "docs/new.md"})
            # Whoever mounted first takes it away last.
            subprocess.run(["mount", "-t", "tmpfs", "none", str(docs)], check=True)


def test_a_corpus_that_is_not_there_yet_is_waited_for(tmp_path):
    """The watch may start before its folder is mounted."""
    corpus = layouts.make_corpus(tmp_path, {})
    corpus.directory.rmdir()
    with watching(corpus) as watch:
        assert "waiting" in watch.said[0]
        layouts.lay_out(corpus.directory, PAGES)
        watch.until(lambda: bool(watch.reports))
        assert watch.indexed == set(PAGES) - {"README.md"}


@pytest.mark.parametrize("error", [EmbeddingError, IndexLockedError])
def test_a_failing_run_is_tried_again_later_each_time(corpus, error):
    """An endpoint that is down is not hammered, and is said only once."""
    failures = iter(range(2))

    def fail() -> None:
        if next(failures, None) is not None:
            raise error("it is down; start it")

    with watching(corpus, fail) as watch:
        for number in range(20):
            (corpus.directory / "docs" / f"{number}.md").write_text("# Page\n")
            time.sleep(0.05)
        watch.until(lambda: bool(watch.reports))
        pauses = [b - a for a, b in zip(watch.runs, watch.runs[1:], strict=False)]
        assert pauses[0] >= 0.9
        assert pauses[1] >= 1.9
        assert watch.said == ["waiting: it is down; start it"]
        assert len(watch.indexed) == 20 + len(PAGES)


def test_a_run_under_way_ends_at_the_next_file(corpus):
    """Stopping does not wait for a long run, and what it embedded is kept."""
    started, go_on = threading.Event(), threading.Event()

    def index(progress: Progress) -> IndexReport:
        started.set()
        go_on.wait(kit.PATIENCE_SECONDS)
        return index_corpus(corpus, StubEmbedder(), IndexOptions(), progress)

    reports: list[IndexReport] = []
    watch = Watch(corpus, index, reports.append, reports.append)
    watch.start()
    started.wait(kit.PATIENCE_SECONDS)
    watch.request_stop()
    go_on.set()
    watch.wait()

    assert reports == []


def test_a_fault_of_the_watch_is_not_swallowed(corpus):
    """What ends the thread is raised to whoever waits for it."""

    def index(progress: Progress) -> IndexReport:
        raise ValueError("a fault")

    said: list[str] = []
    watch = Watch(corpus, index, said.append, said.append)
    watch.start()

    with pytest.raises(ValueError, match="a fault"):
        watch.wait()
    assert said == ["the watch has ended: ValueError: a fault"]


# -- the commands -----------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_command_ends_with_exit_code_0(tmp_path, number):
    """indexer.py --watch prints each run, and a signal is the way to end it."""
    project = kit.make_project(tmp_path)
    with subprocess.Popen(
        [sys.executable, str(kit.ROOT / "indexer.py"), "--watch"],
        env=project.variables(PYTHONPATH=None),
        cwd="/",
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        first = _read_until(process.stdout, "indexed (generation")
        project.write({"docs/new.md": "# New\n\nA new page.\n"})
        second = _read_until(process.stdout, "indexed (generation")
        process.send_signal(number)
        code = process.wait(kit.PATIENCE_SECONDS)

    assert "3 added" in first
    assert "+ docs/new.md" in second
    assert code == 0


def _read_until(stream, text: str) -> str:
    lines = []
    for line in stream:
        lines.append(line)
        if text in line:
            break
    return "".join(lines)


def test_a_flag_for_one_run_does_not_go_with_a_watch(tmp_path):
    """--full in a watch would rebuild for ever: exit 2."""
    project = kit.make_project(tmp_path)

    done = project.run("index", "--watch", "--full")

    assert done.returncode == 2
    assert "--full is for one run" in done.stderr


def test_one_process_serves_and_watches(tmp_path):
    """serve --watch answers from a page saved a moment ago, and ends as servers do."""
    project = kit.make_project(tmp_path)
    log = tmp_path / "serve.log"
    port = kit.free_port()
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            [sys.executable, str(kit.ROOT / "serve.py"), "--watch", f"--port={port}"],
            env=project.variables(PYTHONPATH=None),
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
        )
    try:
        url = f"http://127.0.0.1:{port}/mcp"
        kit.eventually(lambda: " serving corpus " in _text(log, process), "serving")
        kit.eventually(lambda: "indexed (generation" in _text(log, process), "indexed")
        project.write({"docs/fog.md": "# Fog\n\nThe foghorn sounds every minute.\n"})
        kit.eventually(
            lambda: (
                "docs/fog.md"
                in [hit["path"] for hit in kit.retrieve(url, "foghorn")["hits"]]
            ),
            "the new page",
        )
        process.terminate()
        out, _ = process.communicate(timeout=kit.PATIENCE_SECONDS)
    finally:
        process.kill()
        process.wait()

    assert process.returncode == 0
    assert out == b""
    assert "Traceback" not in log.read_text()


def _text(log: Path, process: subprocess.Popen) -> str:
    text = log.read_text()
    assert process.poll() is None, text
    return text
