"""refresh.sh: fetch, export, swap, index; and every failure leaves what was there."""

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

import layouts
import pytest
import tools

from docs_rag.cli import main
from docs_rag.config import Corpus, load_settings
from docs_rag.embedders import embedder_for
from docs_rag.errors import (
    ConfigError,
    DocsRagError,
    EmbeddingError,
    IndexLockedError,
    ShrinkError,
    SourceError,
    StorageError,
)
from docs_rag.exchange import aside_of, exchange_in_steps, put_in_place
from docs_rag.gitsource import origin_url
from docs_rag.indexer import IndexOptions, index_corpus
from docs_rag.locking import corpus_lock
from docs_rag.provenance import read_source
from docs_rag.records import IndexReport
from docs_rag.refreshing import Refreshed, refresh
from docs_rag.store import Store

pytestmark = tools.needs("git", "bash")

PAGES = {
    "docs/one.md": "# One\n\nThe first quay lamp is green.\n",
    "docs/two.md": "# Two\n\nThe second quay lamp is amber.\n",
    "src/main.c": "int main;\n",
}


@dataclass
class Backed:
    """A service with the git-backed corpus "lamps", and the origin of it."""

    rag_dir: Path
    repository: tools.Repository

    def variables(self, **more: str) -> dict[str, str]:
        settings = {"RAG_DIR": str(self.rag_dir), "RAG_EMBED_BACKEND": "stub"}
        return settings | {"RAG_CORPUS": "lamps"} | more

    @property
    def corpus(self) -> Corpus:
        return load_settings(self.variables()).chosen()

    def index(self, **options: bool) -> IndexReport:
        settings = load_settings(self.variables())
        embedder = embedder_for(settings)
        return index_corpus(settings.chosen(), embedder, IndexOptions(**options))

    def refresh(self, ref: str | None = None, **options: bool) -> Refreshed:
        """Refresh within this process, which is quicker."""
        return refresh(self.corpus, ref, lambda: self.index(**options))

    def script(self, *words: str, **more: str) -> subprocess.CompletedProcess:
        """Run refresh.sh as cron would: no environment but what is given."""
        environ = {
            "DOCS_RAG": str(self.rag_dir / "bin" / "docs-rag"),
            "RAG_DIR": str(self.rag_dir),
        }
        environ |= {"RAG_EMBED_BACKEND": "stub"} | more
        return tools.shell("refresh.sh", *words, **environ)

    @property
    def pages(self) -> set[str]:
        return tools.files_below(self.corpus.directory)

    @property
    def indexed(self) -> set[str]:
        with Store(self.corpus.index_path) as store:
            return set(store.files())

    @property
    def strangers(self) -> list[str]:
        """Return what lies beside the corpus."""
        return sorted(p.name for p in self.corpus.directory.parent.iterdir())


@pytest.fixture
def backed(tmp_path):
    repository = tools.make_repository(tmp_path / "git", PAGES)
    rag_dir = tmp_path / "rag"
    entry = {"roots": ["docs"], "git_origin_repo": str(repository.checkout)}
    layouts.configure(rag_dir, {"lamps": entry})
    # Written once: a program that some other thread's child still holds open for
    # writing is "text file busy".
    tools.launcher(rag_dir / "bin" / "docs-rag")
    return Backed(rag_dir, repository)


# -- the script -------------------------------------------------------------------


def test_the_script_works_with_an_empty_environment(backed):
    """From the root folder, as cron runs it: fetched, marked, swapped in, indexed."""
    commit = backed.repository.commit({"docs/three.md": "# Three\n"})

    done = backed.script("lamps")

    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert backed.pages == {*PAGES, "docs/three.md"}
    assert backed.indexed == {"docs/one.md", "docs/two.md", "docs/three.md"}
    marker = json.loads((backed.corpus.directory / ".corpus_source.json").read_text())
    assert (marker["commit"], marker["dirty"]) == (commit, False)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", marker["synced_at"])
    with Store(backed.corpus.index_path) as store:
        assert store.meta("commit") == commit


def test_a_failed_fetch_leaves_corpus_and_index_serving(backed):
    """Exit 1, one line that names the fetch, and the old answers."""
    assert backed.script("lamps").returncode == 0
    index = backed.corpus.index_path.read_bytes()
    marker = (backed.corpus.directory / ".corpus_source.json").read_bytes()
    shutil.move(backed.repository.origin, backed.repository.origin.with_name("gone"))

    done = backed.script("lamps")

    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert "git fetch of HEAD from" in done.stderr
    assert backed.pages == set(PAGES)
    assert backed.corpus.index_path.read_bytes() == index
    assert (backed.corpus.directory / ".corpus_source.json").read_bytes() == marker
    assert backed.strangers == ["lamps"]


USAGE = {
    "no corpus": ((), {}, "name the corpus"),
    "too much": (("lamps", "main", "more"), {}, "too many arguments at more"),
    "an unknown option": (("--force", "lamps"), {}, "unknown option --force"),
    "a blank": (("",), {}, "an argument is empty"),
    "no command": (("lamps",), {"DOCS_RAG": "/nowhere/docs-rag"}, "names no command"),
    "an unknown corpus": (("lamp",), {}, 'did you mean "lamps"?'),
    "a ref that is an option": (("lamps", "-f"), {}, "unknown option -f"),
    "a ref that is a refspec": (("lamps", "a:b"), {}, "is no name of a branch"),
}


@pytest.mark.parametrize(("words", "variables", "said"), USAGE.values(), ids=USAGE)
def test_wrong_usage_is_said_in_one_line(backed, words, variables, said):
    """Exit 2, and nothing is fetched."""
    done = backed.script(*words, **variables)

    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not backed.corpus.directory.exists()


def test_the_script_finds_what_is_installed_beside_it(backed, tmp_path):
    """.venv beside the script comes first, else the PATH; else it says what to do."""
    script = tmp_path / "code here" / "refresh.sh"
    script.parent.mkdir()
    shutil.copy(tools.ROOT / "refresh.sh", script)

    def run(**environ: str) -> subprocess.CompletedProcess:
        command = ["/bin/bash", str(script), "lamps"]
        return subprocess.run(
            command, env=environ, capture_output=True, text=True, check=False, cwd="/"
        )

    absent = run(PATH="/usr/bin:/bin")
    tools.executable(tmp_path / "bin" / "docs-rag", '#!/bin/sh\necho "path $@"\n')
    on_path = run(PATH=f"{tmp_path}/bin:/usr/bin:/bin")
    venv = script.parent / ".venv" / "bin" / "docs-rag"
    tools.executable(venv, '#!/bin/sh\necho "venv $@"\n')
    beside = run(PATH=f"{tmp_path}/bin:/usr/bin:/bin")

    assert absent.returncode == 2
    assert "pip install docs-rag" in absent.stderr
    assert on_path.stdout == "path refresh --corpus lamps\n"
    assert beside.stdout == "venv refresh --corpus lamps\n"


def test_overlapping_runs_do_not_disturb_one_another(backed):
    """One of two runs does the work, the other exits 75 or waits its turn."""
    results: list[subprocess.CompletedProcess] = []
    runs = [
        threading.Thread(target=lambda: results.append(backed.script("lamps")))
        for _ in range(3)
    ]
    for run in runs:
        run.start()
    for run in runs:
        run.join()
    codes = sorted(result.returncode for result in results)

    assert codes[0] == 0
    assert set(codes) <= {0, 75}
    for result in results:
        assert ("locked" in result.stderr) == (result.returncode == 75)
    assert backed.refresh().report.embedded == 0
    assert backed.strangers == ["lamps"]
    for store in (backed.corpus.data_dir / "source.git", backed.repository.checkout):
        assert not list(store.rglob("*.lock"))
    assert tools.git(backed.repository.checkout, "status", "--porcelain") == ""


# -- refs -------------------------------------------------------------------------


def test_branches_tags_and_commits_are_followed_where_they_move(backed):
    """A ref is what the origin says it is now, whatever it was before."""
    work, commit = backed.repository.work, backed.repository.commit
    first = tools.git(work, "rev-parse", "HEAD")
    tools.git(work, "tag", "current")
    tools.git(work, "push", "-q", "origin", "current")
    second = commit({"docs/three.md": "# Three\n"})

    assert backed.refresh("current").commit == first
    assert backed.indexed == {"docs/one.md", "docs/two.md"}
    tools.git(work, "tag", "-f", "-a", "-m", "moved", "current")
    tools.git(work, "push", "-q", "-f", "origin", "current")
    assert backed.refresh("current").commit == second
    assert "docs/three.md" in backed.indexed
    assert backed.refresh("main").commit == second
    assert backed.refresh(first).commit == first
    assert backed.refresh(first[:8]).commit == first
    tools.git(work, "checkout", "-q", "-b", "release/1.0", first)
    branch = commit({"docs/four.md": "# Four\n"})
    assert backed.refresh("release/1.0").commit == branch
    tools.git(work, "commit", "-q", "--amend", "-m", "rewritten")
    tools.git(work, "push", "-q", "-f", "origin", "release/1.0")
    rewritten = tools.git(work, "rev-parse", "HEAD")
    assert rewritten != branch
    assert backed.refresh("refs/heads/release/1.0").commit == rewritten
    # By default what HEAD of the origin says: its branch main.
    assert backed.refresh().commit == second


@pytest.mark.parametrize("ref", ["no-such-branch", "beef", "0" * 40])
def test_a_ref_that_is_not_there_is_a_failed_fetch(backed, ref):
    """Nothing else is taken in its place."""
    with pytest.raises(SourceError, match=f"git fetch of {ref} "):
        backed.refresh(ref)
    assert not backed.corpus.directory.exists()


BAD_REFS = (
    "-f",
    "a b",
    "a:b",
    "+main",
    "main~1",
    "main^",
    "a..b",
    "@{-1}",
    "a\nb",
    "*",
)


@pytest.mark.parametrize("ref", BAD_REFS)
def test_what_is_no_ref_never_reaches_git(backed, ref):
    """A refspec or an option in the place of a ref is refused: exit 2."""
    with pytest.raises(ConfigError, match="is no name of a branch"):
        backed.refresh(ref)


# -- what comes out ---------------------------------------------------------------


def test_what_the_repository_leaves_out_of_archives_is_there(backed):
    """export-ignore is for archives; a marker or a link in its place is replaced."""
    outside = backed.rag_dir / "victim"
    outside.write_text("mine\n")
    (backed.repository.work / ".corpus_source.json").symlink_to(outside)
    commit = backed.repository.commit(
        {".gitattributes": "docs/** export-ignore\n*.md text eol=lf\n"}
    )

    backed.refresh()

    assert backed.indexed == {"docs/one.md", "docs/two.md"}
    assert outside.read_text() == "mine\n"
    assert read_source(backed.corpus.directory).commit == commit


def test_nothing_of_the_checkout_is_run(backed, monkeypatch, tmp_path):
    """Hooks, monitors and transports of the checkout, and a hook's GIT_DIR: unused."""
    checkout, trace = backed.repository.checkout, tmp_path / "ran"
    program = str(tools.executable(tmp_path / "evil", f"#!/bin/sh\ntouch {trace}\n"))
    for name in ("post-checkout", "reference-transaction", "post-index-change"):
        shutil.copy(program, checkout / ".git" / "hooks" / name)
    for key in ("core.fsmonitor", "core.sshCommand", "remote.origin.uploadpack"):
        tools.git(checkout, "config", key, program)
    templates = tmp_path / "templates"
    shutil.copytree(checkout / ".git" / "hooks", templates / "hooks")
    monkeypatch.setenv("GIT_TEMPLATE_DIR", str(templates))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "nowhere"))
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", program)

    backed.refresh()
    backed.refresh()

    assert not trace.exists()
    assert backed.indexed == {"docs/one.md", "docs/two.md"}


def test_a_relative_origin_is_relative_to_the_checkout(backed):
    """As git reads it when it is asked in the checkout."""
    checkout = backed.repository.checkout
    tools.git(checkout, "remote", "set-url", "origin", "../origin.git")

    assert origin_url(checkout) == str(backed.repository.origin)
    assert backed.refresh().commit


def test_credentials_in_the_url_are_not_shown(backed):
    """A message names the server, not the password to it."""
    url = "http://keeper:hunter2hunter2@127.0.0.1:9/x.git"
    tools.git(backed.repository.checkout, "remote", "set-url", "origin", url)

    with pytest.raises(SourceError) as failure:
        backed.refresh()
    assert "hunter2" not in str(failure.value)
    assert "127.0.0.1:9" in str(failure.value)


def test_a_damaged_store_of_fetches_is_made_anew(backed):
    """So are the locks that a killed fetch leaves."""
    backed.refresh()
    store = backed.corpus.data_dir / "source.git"
    (store / "shallow.lock").write_text("")
    (store / "refs" / "docs-rag" / "fetched.lock").write_text("")
    backed.repository.commit({"docs/three.md": "# Three\n"})
    assert "docs/three.md" in backed.refresh().report.added
    shutil.rmtree(store / "objects")
    (store / "HEAD").write_text("nonsense")

    assert backed.refresh().report.unchanged == 3


# -- guards -----------------------------------------------------------------------


def test_a_corpus_that_shrinks_is_put_back(backed):
    """Refused as by the indexer, with the old files in place; or told that it may."""
    backed.repository.commit({"docs/three.md": "# Three\n"})
    backed.refresh()
    backed.repository.commit({"docs/one.md": None, "docs/two.md": None})

    with pytest.raises(ShrinkError):
        backed.refresh()

    assert backed.pages == {*PAGES, "docs/three.md"}
    assert backed.strangers == ["lamps"]
    assert backed.refresh(allow_shrink=True).report.purged == (
        "docs/one.md",
        "docs/two.md",
    )
    assert "docs/one.md" not in backed.pages


def test_a_model_that_fails_leaves_the_old_index(backed):
    """The files are new, the index is old and says so; the next run catches up."""
    backed.refresh()
    backed.repository.commit({"docs/three.md": "# Three\n"})

    def fail() -> IndexReport:
        raise EmbeddingError("the endpoint is down")

    with pytest.raises(EmbeddingError):
        refresh(backed.corpus, None, fail)
    assert backed.indexed == {"docs/one.md", "docs/two.md"}
    assert backed.refresh().report.added == ("docs/three.md",)


def _in_place(backed: Backed) -> Corpus:
    shutil.copytree(backed.repository.checkout, backed.rag_dir / "corpus" / "lamps")
    return backed.corpus


def _around(backed: Backed) -> Corpus:
    entry = {"roots": ["."], "git_origin_repo": str(backed.repository.checkout)}
    entry["corpus_dir"] = str(backed.repository.checkout.parent)
    layouts.configure(backed.rag_dir, {"lamps": entry})
    return backed.corpus


def _with_files(backed: Backed) -> Corpus:
    layouts.lay_out(backed.rag_dir / "corpus" / "lamps", {"docs/mine.md": "# Mine\n"})
    return backed.corpus


def _index_inside(backed: Backed) -> Corpus:
    entry = {"roots": ["docs"], "git_origin_repo": str(backed.repository.checkout)}
    entry["data_dir"] = "corpus/lamps/data"
    layouts.configure(backed.rag_dir, {"lamps": entry})
    return backed.corpus


PRECIOUS = {
    "a checkout": (_in_place, "is a checkout or holds one"),
    "a folder around one": (_around, "is a checkout or holds one"),
    "files of another kind": (_with_files, "no refresh put there"),
    "the index inside": (_index_inside, "move .* elsewhere"),
}


@pytest.mark.parametrize(("arrange", "said"), PRECIOUS.values(), ids=PRECIOUS)
def test_what_no_refresh_made_is_never_replaced(backed, arrange, said):
    """Somebody's work in the place of the corpus is refused, not deleted."""
    corpus = arrange(backed)
    before = tools.files_below(corpus.directory)

    with pytest.raises(ConfigError, match=said):
        refresh(corpus, None, backed.index)
    assert tools.files_below(corpus.directory) == before


NO_CHECKOUTS = {
    "nothing there": (lambda path: None, "is not there"),
    "no repository": (lambda path: path.mkdir(), "no git checkout with a remote"),
    "no origin": (
        lambda path: path.mkdir() or tools.git(path, "init", "-q"),
        "remote add origin",
    ),
}


@pytest.mark.parametrize(("arrange", "said"), NO_CHECKOUTS.values(), ids=NO_CHECKOUTS)
def test_an_origin_that_cannot_be_told_is_configuration(tmp_path, arrange, said):
    """The message names the key, the folder and what to do."""
    arrange(tmp_path / "checkout")

    with pytest.raises(ConfigError, match=said):
        origin_url(tmp_path / "checkout")


@pytest.mark.parametrize("lock", [".index.lock", ".refresh.lock"])
def test_a_held_lock_ends_the_run_with_nothing_changed(backed, lock):
    """Neither a refresh nor an indexer is run into: exit 75."""
    backed.refresh()
    backed.repository.commit({"docs/three.md": "# Three\n"})

    with (
        corpus_lock(backed.corpus.data_dir / lock, "lamps"),
        pytest.raises(IndexLockedError),
    ):
        backed.refresh()
    assert backed.pages == set(PAGES)
    assert backed.strangers == ["lamps"]


def test_a_killed_run_is_tidied_up_by_the_next(backed):
    """What lies beside the corpus goes; one caught between two names comes back."""
    backed.refresh()
    place = backed.corpus.directory
    layouts.lay_out(place.with_name(".lamps.incoming"), {"docs/half.md": "# Half\n"})
    place.rename(aside_of(place))
    shutil.move(backed.repository.origin, backed.repository.origin.with_name("gone"))

    with pytest.raises(SourceError):
        backed.refresh()
    assert backed.pages == set(PAGES)
    assert backed.strangers == ["lamps"]


@tools.needs_root
def test_a_full_disk_leaves_the_last_good_corpus(backed, tmp_path):
    """The export does not fit: one line, and corpus and index as before."""
    backed.refresh()
    with tools.small_disk(tmp_path / "small", "2m") as disk:
        entry = {"roots": ["docs"], "git_origin_repo": str(backed.repository.checkout)}
        entry["corpus_dir"] = str(disk / "lamps")
        layouts.configure(backed.rag_dir, {"lamps": entry})
        backed.refresh()
        backed.repository.commit({"docs/big.md": os.urandom(3 << 19).hex()})

        with pytest.raises((SourceError, StorageError), match=r"space|full"):
            backed.refresh()

        assert backed.pages == set(PAGES)
        assert backed.indexed == {"docs/one.md", "docs/two.md"}
        assert backed.strangers == ["lamps"]


def test_two_corpora_refreshed_at_once_do_not_disturb_each_other(backed, tmp_path):
    """Each has its own locks, its own store of fetches and its own index."""
    other = tools.make_repository(tmp_path / "other", {"docs/tide.md": "# Tide\n"})
    entries = {
        name: {"roots": ["docs"], "git_origin_repo": str(repository.checkout)}
        for name, repository in (("lamps", backed.repository), ("tides", other))
    }
    layouts.configure(backed.rag_dir, entries)
    results: dict[str, subprocess.CompletedProcess] = {}

    def run(name: str) -> None:
        results[name] = backed.script(name)

    threads = [threading.Thread(target=run, args=(name,)) for name in entries]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [results[name].returncode for name in sorted(results)] == [0, 0]
    assert backed.indexed == {"docs/one.md", "docs/two.md"}
    tides = load_settings(backed.variables(RAG_CORPUS="tides")).chosen()
    with Store(tides.index_path) as store:
        assert set(store.files()) == {"docs/tide.md"}


# -- mirrors ----------------------------------------------------------------------


def test_a_mirror_is_only_indexed(tmp_path, monkeypatch, capfd):
    """Without git_origin_repo there is nothing to fetch, and no ref to name."""
    layouts.make_corpus(tmp_path, {"docs/a.md": "# A\n"})
    monkeypatch.setenv("RAG_EMBED_BACKEND", "stub")

    assert main(["refresh", "--corpus", "demo"]) == 0
    assert "demo: 1 added" in capfd.readouterr().out
    assert main(["refresh", "main", "--corpus", "demo"]) == 2
    assert "has no git_origin_repo" in capfd.readouterr().err


def test_the_report_is_there_for_machines(backed, monkeypatch, capfd):
    """--json holds the commit that was fetched and the report of the run."""
    for name, value in backed.variables().items():
        monkeypatch.setenv(name, value)

    assert main(["refresh", "--json"]) == 0
    report = json.loads(capfd.readouterr().out)
    head = tools.git(backed.repository.work, "rev-parse", "HEAD")
    assert report["fetched"] == head
    assert report["added"] == ["docs/one.md", "docs/two.md"]


# -- exchange ---------------------------------------------------------------------


@pytest.mark.parametrize("exchange", [put_in_place, exchange_in_steps])
def test_two_folders_change_places(tmp_path, exchange):
    """At once or in steps, what is new is in place and what was there is kept."""
    new = layouts.lay_out(tmp_path / "new", {"a": "new"})
    place = layouts.lay_out(tmp_path / "place", {"a": "old"})

    exchange(new, place)

    assert (place / "a").read_text() == "new"
    assert (new / "a").read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "place"]


def test_the_first_folder_simply_moves_in(tmp_path):
    """Where nothing is in the place, nothing is given back."""
    new = layouts.lay_out(tmp_path / "new", {"a": "new"})

    assert put_in_place(new, tmp_path / "place") is False
    assert not new.exists()


def test_a_failed_exchange_in_steps_puts_the_old_one_back(tmp_path):
    """The place is not left empty."""
    place = layouts.lay_out(tmp_path / "place", {"a": "old"})

    with pytest.raises(OSError, match="No such file"):
        exchange_in_steps(tmp_path / "missing", place)
    assert (place / "a").read_text() == "old"


@pytest.mark.skipif(sys.platform != "linux", reason="looks at the folder without pause")
def test_readers_never_miss_the_folder(tmp_path):
    """While folders change places, there always is one in the place."""
    new = layouts.lay_out(tmp_path / "new", {"a": "1"})
    place = layouts.lay_out(tmp_path / "place", {"a": "2"})
    missed: list[DocsRagError | OSError] = []
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            try:
                (place / "a").read_text()
            except OSError as error:
                missed.append(error)

    reader = threading.Thread(target=look)
    reader.start()
    for _ in range(500):
        put_in_place(new, place)
    done.set()
    reader.join()

    assert missed == []
