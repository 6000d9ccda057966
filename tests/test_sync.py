"""The shell clients: what they push, what they refuse, and that quoting holds."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import layouts
import project as kit
import pytest
import tools

from docs_rag.locking import corpus_lock

pytestmark = tools.needs("bash", "rsync", "ssh", "tar")

PAGES = {
    "README.md": "# Boats\n\nBoats of the harbour.\n",
    "docs/two words.md": "# Boom\n\nThe mizzen boom is made of ash.\n",
    'docs/it\'s "quoted" $HOME `x`.md': "# Tarpaulin\n\nThe tarpaulin hook is bent.\n",
    "docs/海港/潮汐.md": "# 潮汐\n\n高水位時敲兩次鐘。\n",
    "docs/sub dir/-dash.md": "# Dash\n\nThe dashed line is a hawser.\n",
    "docs/back\\slash.MD": "# Bollards\n\nBollards are numbered.\n",
}
BESIDE = {
    "docs/archive/old.md": "# Old\n",
    "docs/.hidden/x.md": "# Hidden\n",
    "docs/node_modules/x/y.md": "# Not ours\n",
    "docs/picture.svg": "<svg/>",
    "docs/line\nend.md": "# Odd\n",
    "src/main.c": "int main;\n",
    "notes.md": "# Notes\n",
}


@dataclass(frozen=True)
class Service:
    """A service folder with one corpus "boats", and the folder its clients push."""

    directory: Path
    source: Path
    ssh: Path
    log: Path

    @property
    def mirror(self) -> Path:
        return self.directory / "corpus" / "boats"

    def environ(self, **more: str) -> dict[str, str]:
        return {
            "PATH": f"{self.ssh}:{os.environ['PATH']}",
            "HOME": str(self.directory),
            "TMPDIR": str(self.directory.parent),
            "SSH_LOG": str(self.log),
            **more,
        }

    def sync(self, *words: str, **more: str) -> subprocess.CompletedProcess:
        options = {
            "--corpus": "boats",
            "--source": str(self.source),
            "--host": "service",
            "--service-dir": str(self.directory),
        }
        cwd = more.pop("cwd", "/")
        given = [*words]
        for option, value in options.items():
            if option not in words:
                given += [option, value]
        return tools.shell(
            "client/sync_corpus.sh", *given, cwd=cwd, **self.environ(**more)
        )

    def query(self, *words: str, stdin: str = "") -> subprocess.CompletedProcess:
        place = ("--host", "service", "--service-dir", str(self.directory))
        words = ("--corpus", "boats", *place, *words)
        return tools.shell("client/query.sh", *words, stdin=stdin, **self.environ())

    def paths(self, query: str) -> list[str]:
        """Return the paths that a question leads to, through the client."""
        done = self.query("--query", query, "--json")
        assert done.returncode == 0, done.stderr
        return [hit["path"] for hit in json.loads(done.stdout)["hits"]]


def make_service(
    place: Path, pages: Mapping[str, str], ssh: Path | None = None, **config: object
) -> Service:
    directory = place / "the harbour's service"
    layouts.configure(
        directory,
        {
            "boats": {
                "top_files": ["README.md"],
                "roots": ["docs"],
                "exclude_dirs": ["archive"],
                **config,
            }
        },
    )
    (directory / ".env").write_text("RAG_EMBED_BACKEND=stub\n")
    tools.launcher(directory / ".venv" / "bin" / "docs-rag")
    source = layouts.lay_out(place / "source tree", pages)
    ssh = ssh or tools.stand_in_for_ssh(place / "bin")
    return Service(directory, source, ssh, place / "ssh.log")


@pytest.fixture
def service(tmp_path):
    """A service that is reached without a network."""
    return make_service(tmp_path, PAGES)


@pytest.fixture(scope="module")
def pushed(tmp_path_factory):
    """A service that has its mirror, for tests that only look."""
    service = make_service(tmp_path_factory.mktemp("pushed"), PAGES)
    assert service.sync().returncode == 0
    return service


@pytest.fixture
def mirrored(pushed, tmp_path):
    """A service of the test's own that has its mirror."""
    place = tmp_path / "copy"
    shutil.copytree(pushed.source.parent, place, symlinks=True)
    (place / "ssh.log").unlink()
    return Service(
        place / pushed.directory.name,
        place / pushed.source.name,
        place / "bin",
        place / "ssh.log",
    )


# -- over the real sshd -----------------------------------------------------------


@tools.needs_sshd
@tools.needs("git")
def test_a_document_that_is_archived_at_the_source_is_gone(tmp_path):
    """Push, ask over MCP, archive a document at the source, push: it is gone."""
    (tmp_path / "sshd").mkdir()
    with tools.sshd(tmp_path / "sshd") as ssh:
        service = make_service(tmp_path, PAGES | BESIDE, ssh)
        tools.git(service.source, "init", "-q")
        tools.git(service.source, "add", "-A")
        tools.git(service.source, "commit", "-q", "-m", "boats")
        commit = tools.git(service.source, "rev-parse", "HEAD")

        pushed = service.sync()

        assert pushed.returncode == 0, pushed.stderr
        assert tools.files_below(service.mirror) == set(PAGES)
        marker = json.loads((service.mirror / ".corpus_source.json").read_text())
        assert (marker["commit"], marker["dirty"]) == (commit, False)
        project = kit.Project(service.directory)
        with project.serving(RAG_CORPUS="boats") as running:
            before = kit.retrieve(running.url, "the tarpaulin hook")
            page = 'docs/it\'s "quoted" $HOME `x`.md'
            assert before["hits"][0]["path"] == page
            assert before["commit"] == commit
            os.renames(service.source / page, service.source / "docs/archive/hook.md")

            again = service.sync()

            assert again.returncode == 0, again.stderr
            after = kit.retrieve(running.url, "the tarpaulin hook")
            assert page not in [hit["path"] for hit in after["hits"]]
            assert "tarpaulin" not in json.dumps(after["hits"])
            status = kit.call(running.url, "corpus_status").structured_content
            assert status["files"] == len(PAGES) - 1
            assert status["dirty"] is True
        assert service.paths("高水位時敲兩次鐘")[0] == "docs/海港/潮汐.md"


# -- what is pushed ---------------------------------------------------------------


def test_exactly_the_scope_is_pushed_and_only_once(service):
    """However the source is spelled, the mirror is the scope; nothing goes twice."""
    layouts.lay_out(service.source, BESIDE)
    spellings = ["source tree", "./source tree/."]
    first = service.sync("--source", spellings[0], cwd=service.source.parent)

    assert first.returncode == 0, first.stderr
    assert len(re.findall("^<f", first.stdout, re.MULTILINE)) == len(PAGES)
    for spelling in spellings[1:]:
        again = service.sync("--source", spelling, cwd=service.source.parent)
        assert again.returncode == 0, again.stderr
        assert "<f" not in again.stdout
        assert "deleting" not in again.stdout
        assert tools.files_below(service.mirror) == set(PAGES)


def test_what_is_removed_at_the_source_is_removed_from_mirror_and_index(mirrored):
    """A removal was meant, even of most files: no flag is asked for."""
    service = mirrored
    for page in set(PAGES) - {"README.md"}:
        (service.source / page).unlink()

    done = service.sync()

    assert done.returncode == 0, done.stderr
    assert tools.files_below(service.mirror) == {"README.md"}
    assert set(service.paths("mizzen boom of ash")) <= {"README.md"}


def test_the_scope_is_that_of_the_service_now(mirrored):
    """A scope that is changed on the service counts for the very next push."""
    service = mirrored
    config = json.loads((service.directory / "corpora.json").read_text())
    config["boats"] = {"roots": ["docs/sub dir"], "extensions": [".md", ".mdx"]}
    layouts.configure(service.directory, config)
    layouts.lay_out(service.source, {"docs/sub dir/new.mdx": "# New\n"})

    done = service.sync()

    assert done.returncode == 0, done.stderr
    expected = {"docs/sub dir/-dash.md", "docs/sub dir/new.mdx"}
    assert tools.files_below(service.mirror) == expected


def test_links_are_pushed_as_what_they_lead_to_inside_the_source(tmp_path):
    """A link out of the source is named and not sent; one file goes only once."""
    outside = layouts.lay_out(tmp_path / "outside", {"secret.md": "# Secret\n"})
    service = make_service(
        tmp_path,
        {
            "docs/a.md": "# A\n",
            "shared/common.md": "# Common\n",
            "shared/part/deep.md": "# Deep\n",
            "shared/archive/x.md": "# X\n",
            "docs/v2/b.md": "# B\n",
        },
        top_files=[],
    )
    links = {
        "docs/common.md": "../shared/common.md",
        "docs/again.md": "a.md",
        "docs/part": "../shared/part",
        "docs/latest": "v2",
        "docs/round": ".",
        "docs/secret.md": str(outside / "secret.md"),
        "docs/leak": str(outside),
        "docs/broken.md": "nowhere.md",
        "docs/old": "../shared/archive",
    }
    for name, target in links.items():
        (service.source / name).symlink_to(target)

    done = service.sync()

    assert done.returncode == 0, done.stderr
    plain = {"docs/a.md", "docs/v2/b.md"}
    assert tools.files_below(service.mirror) == {
        *plain,
        "docs/common.md",
        "docs/part/deep.md",
    }
    assert not any(path.is_symlink() for path in service.mirror.rglob("*"))
    assert "docs/secret.md: link that leaves the source" in done.stderr
    assert "docs/leak: link that leaves the source" in done.stderr


def test_a_dry_run_prints_the_payload_and_changes_nothing(service):
    """--dry-run lists what would go; the service stays as it was."""
    before = tools.files_below(service.directory)

    done = service.sync("--dry-run")

    assert done.returncode == 0, done.stderr
    assert set(done.stdout.splitlines()) == set(PAGES)
    assert tools.files_below(service.directory) == before
    assert not service.mirror.exists()
    assert len(list(service.directory.parent.glob("docs-rag-sync*"))) == 0


def test_the_marker_of_a_folder_without_git_says_so(service):
    """Where git knows nothing, the commit is unknown, and status shows none."""
    done = service.sync(GIT_DIR=str(tools.ROOT / ".git"))
    marker = json.loads((service.mirror / ".corpus_source.json").read_text())

    assert done.returncode == 0, done.stderr
    assert marker["commit"] == "unknown"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", marker["synced_at"])


# -- what is refused --------------------------------------------------------------

DIRECTORY = "/srv/rag"
REFUSED = {
    "another remote dir": (["--remote-dir", "/srv/rag/corpus"], 1, "may only be"),
    "one of another corpus": (
        ["--remote-dir", "/srv/rag/corpus/tides"],
        1,
        "may only be /srv/rag/corpus/boats",
    ),
    "a slash at its end": (["--remote-dir", "/srv/rag/corpus/boats/"], 1, "may only"),
    "dots in it": (["--remote-dir", "/srv/rag/corpus/../corpus/boats"], 1, "may only"),
    "none in it": (["--remote-dir", ""], 1, "may only be"),
    "a corpus that climbs": (["--corpus", ".."], 1, "no name of a corpus"),
    "a corpus with a slash": (["--corpus", "boats/../x"], 1, "no name of a corpus"),
    "a corpus with a blank": (["--corpus", "boats x"], 1, "no name of a corpus"),
    "a corpus that is an option": (["--corpus", "-rf"], 1, "no name of a corpus"),
    "a corpus with a line end": (["--corpus", "boats\nx"], 1, "no name of a corpus"),
    "a corpus with a command": (["--corpus", "$(id)"], 1, "no name of a corpus"),
    "a host that is an option": (["--host", "-oProxyCommand=id"], 1, "name of a host"),
    "a host with a command": (["--host", "h;id"], 1, "no name of a host"),
    "a host with a path": (["--host", "h:/etc"], 1, "no name of a host"),
    "a service dir that climbs": (["--service-dir", "/srv/../etc"], 1, "holds .."),
    "the root": (["--service-dir", "/"], 1, "is / or holds"),
    "a service dir with a line end": (["--service-dir", "/srv\n/x"], 1, "line end"),
    "a source that is not there": (["--source", "/nowhere"], 2, "is no folder"),
    "a source that is a file": (["--source", "/etc/passwd"], 2, "is no folder"),
    "no corpus": (["--corpus", ""], 2, "--corpus is missing"),
    "an unknown option": (["--delete"], 2, "unknown argument"),
    "patience in words": (["--lock-wait", "long"], 2, "number of seconds"),
}


@pytest.mark.parametrize(("words", "code", "said"), REFUSED.values(), ids=REFUSED)
def test_what_could_mean_another_place_is_refused_unasked(service, words, code, said):
    """Guards come first: ssh is not called at all, and one line says why."""
    place = [] if "--service-dir" in words else ["--service-dir", DIRECTORY]
    done = service.sync(*place, *words)

    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert len(done.stderr.splitlines()) <= 2
    assert not service.log.exists()


def test_a_scope_that_matches_nothing_is_refused_before_anything_is_sent(mirrored):
    """A wrong or an empty source cannot empty the mirror."""
    service = mirrored
    empty = service.source.parent / "empty"
    empty.mkdir()

    done = service.sync("--source", str(empty))

    assert done.returncode == 1
    assert "matches nothing" in done.stderr
    assert "nothing here for the scope entry: root docs" in done.stderr
    assert "rsync" not in service.log.read_text()
    assert tools.files_below(service.mirror) == set(PAGES)


NO_MIRRORS = {
    "another folder": ({"corpus_dir": "elsewhere"}, "remove corpus_dir"),
    "a git-backed corpus": ({"git_origin_repo": "x"}, "refresh.sh"),
    "an index inside": ({"data_dir": "corpus/boats/data"}, "would delete the index"),
}


@pytest.mark.parametrize(("config", "said"), NO_MIRRORS.values(), ids=NO_MIRRORS)
def test_a_corpus_that_is_no_mirror_is_refused(tmp_path, config, said):
    """A push deletes what is not in scope, so it only goes where only mirrors are."""
    service = make_service(tmp_path, PAGES, **config)

    done = service.sync()

    assert done.returncode == 2
    assert said in done.stderr
    assert "nothing was changed" in done.stderr
    assert "rsync" not in service.log.read_text()


def test_a_checkout_in_the_place_of_the_mirror_is_refused(service):
    """Where somebody works in the mirror itself, nothing is deleted."""
    (service.mirror / ".git").mkdir(parents=True)

    done = service.sync()

    assert (done.returncode, "is a checkout" in done.stderr) == (2, True)


def test_an_option_without_its_value_is_said(service):
    """The last word may be missing; it is not taken from elsewhere."""
    done = tools.shell("client/sync_corpus.sh", "--corpus", **service.environ())

    assert (done.returncode, "--corpus needs a value" in done.stderr) == (2, True)


def test_an_unknown_corpus_and_a_missing_service_fail_with_its_words(service):
    """What is wrong over there is said here, and with its exit code."""
    unknown = service.sync("--corpus", "boots")
    nowhere = service.sync("--service-dir", "/nowhere/at all")
    (service.directory / ".venv/bin/docs-rag").unlink()
    absent = service.sync(PATH=f"{service.ssh}:/usr/bin:/bin")

    assert unknown.returncode == 2
    assert 'did you mean "boats"' in unknown.stderr
    assert nowhere.returncode != 0
    assert "nothing was changed" in nowhere.stderr
    assert absent.returncode == 127
    assert "no docs-rag in" in absent.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_folder_that_cannot_be_read_stops_the_push(mirrored):
    """What is unreadable here is not deleted there."""
    service = mirrored
    closed = service.source / "docs" / "sub dir"
    closed.chmod(0)
    try:
        done = service.sync()
    finally:
        closed.chmod(0o755)

    assert done.returncode == 1
    assert tools.files_below(service.mirror) == set(PAGES)


def test_a_held_lock_is_waited_for_and_then_said(service):
    """Synced, and exit 75: the index catches up with the next run."""
    data = service.directory / "data-boats"
    with corpus_lock(data / ".index.lock", "boats"):
        done = service.sync("--lock-wait", "1")

    assert done.returncode == 75
    assert "its next run there catches up" in done.stderr
    assert tools.files_below(service.mirror) == set(PAGES)
    assert service.sync("--lock-wait", "0").returncode == 0


# -- query.sh ---------------------------------------------------------------------

QUESTIONS = {
    "quotes": """it's the "tarpaulin" hook""",
    "a command": "$(id) `id` $HOME; echo the tarpaulin hook",
    "backslashes": "\\the tarpaulin hook \\n %s %d",
    "line ends": "tarpaulin\nhook\n",
    "a dash": "--tarpaulin hook",
    "another script": "the tarpaulin hook 潮汐",
}


@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)
def test_questions_arrive_as_they_were_typed(pushed, question):
    """No shell on the way reads a question as anything but itself."""
    done = pushed.query("--query", question, "--also", question, "--json", "-k", "2")

    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["query"].split() == question.split()
    assert len(answer["hits"]) <= 2
    assert answer["hits"][0]["path"].startswith("docs/it's")


def test_a_question_may_come_on_standard_input(pushed):
    """Without --query the question is read; the answer is text for people."""
    done = pushed.query(stdin="the tarpaulin hook")

    assert done.returncode == 0, done.stderr
    assert "tarpaulin hook is bent" in done.stdout


def test_a_wrong_question_fails_with_the_code_of_the_command(pushed):
    """k out of range is a matter of usage, here as there."""
    assert pushed.query("--query", "x", "-k", "0").returncode == 2
    assert pushed.query("--query", "x", "-k", "many").returncode == 2


def test_asking_changes_nothing_of_the_corpus(pushed):
    """A query reads: mirror and index stay as they are."""
    index = pushed.directory / "data-boats" / "index.sqlite"
    before = index.read_bytes()

    pushed.paths("tarpaulin")

    assert index.read_bytes() == before


# -- the scripts themselves -------------------------------------------------------

SCRIPTS = ("refresh.sh", "client/sync_corpus.sh", "client/query.sh", "client/remote.sh")
NEWER_BASH = re.compile(
    r"declare -A|local -n|mapfile|readarray|\$\{\w+(,,|\^\^)|\|&|&>>|coproc|@Q\}"
)


@pytest.mark.parametrize("script", SCRIPTS)
def test_scripts_stay_with_the_bash_of_macos(script):
    """Nothing that bash 3.2 does not know, and nothing that shellcheck warns of."""
    text = (tools.ROOT / script).read_text()

    assert NEWER_BASH.search(text) is None
    subprocess.run(["/bin/bash", "-n", str(tools.ROOT / script)], check=True)


@tools.needs("shellcheck")
def test_scripts_pass_shellcheck():
    """shellcheck finds nothing in any of them."""
    done = subprocess.run(
        ["shellcheck", "-x", *SCRIPTS],
        cwd=tools.ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stdout == ""


@pytest.mark.parametrize("script", SCRIPTS[:3])
def test_scripts_explain_themselves(script):
    """--help prints the usage, from any folder and without an environment."""
    done = tools.shell(script, "--help")

    assert done.returncode == 0
    assert done.stdout.startswith(f"usage: {Path(script).name} ")
