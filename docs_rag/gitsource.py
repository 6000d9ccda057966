"""
The repository a corpus is fetched from: one commit of its origin, as plain files.

The fetch goes into a bare repository of our own. Nothing of the checkout but the URL of
its origin is used: its hooks, its configuration and the variables of a hook that runs
us never come into play.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from docs_rag.config import current_environment
from docs_rag.corpora import excerpt, printable
from docs_rag.errors import ConfigError, SourceError

_FETCH_TIMEOUT_SECONDS = 1800
_FETCHED = "refs/docs-rag/fetched"

# What git itself forbids in the name of a ref, and what would make it a refspec.
_NO_REF = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|^[-/.+]|[/.]$")
_COMMIT = re.compile(r"[0-9a-fA-F]{4,64}")
_LOCAL = re.compile(r"[^:/]+:|[A-Za-z][A-Za-z0-9+.-]*://|/")
_CREDENTIALS = re.compile(r"(?<=://)[^/@\s]+@")

# Hooks and monitors are programs; what the files are made from is their bytes alone.
_OPTIONS = (
    *("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false"),
    *("-c", "core.autocrlf=false", "-c", "gc.autoDetach=false"),
    *("-c", "maintenance.autoDetach=false", "-c", "advice.detachedHead=false"),
    *("-c", "http.lowSpeedLimit=1000", "-c", "http.lowSpeedTime=60"),
)


def origin_url(checkout: Path) -> str:
    """Return the URL of the origin of ``checkout``; a relative one made absolute."""
    if not checkout.is_dir():
        raise ConfigError(
            f"git_origin_repo {checkout} is not there: name the folder of a checkout "
            "in corpora.json"
        )
    trusted = ("-c", f"safe.directory={checkout}")
    done = _run([*trusted, "-C", str(checkout), "config", "--get", "remote.origin.url"])
    url = os.fsdecode(done.stdout).strip()
    if done.returncode != 0 or not url:
        raise ConfigError(
            f"git_origin_repo {checkout} is no git checkout with a remote named "
            f"origin: add one with `git -C {checkout} remote add origin URL`"
        )
    return url if _LOCAL.match(url) else os.path.normpath(checkout / url)


def fetch(url: str, ref: str | None, repository: Path) -> str:
    """
    Fetch ``ref`` of ``url``, by default what its HEAD says, and return the commit.

    ``ref`` is a branch, a tag or a commit; one that was moved is followed. What was
    fetched before into ``repository`` is used again, and is made anew if it is damaged.
    Raises ``SourceError`` naming the fetch.
    """
    if ref is not None and _NO_REF.search(ref):
        raise ConfigError(
            f'"{excerpt(ref)}" is no name of a branch, tag or commit: give one such '
            "as main, v1.2 or a commit id"
        )
    if repository.is_dir():
        _remove_stale_locks(repository)
        commit, _ = _fetch(url, ref, repository)
        if commit:
            return commit
    # Made anew beside the old one, which a network that is down must not cost us.
    fresh = repository.with_name(f"{repository.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    try:
        _must(["init", "--quiet", "--bare", "--template=", str(fresh)], "init")
        commit, reason = _fetch(url, ref, fresh)
        if not commit:
            raise SourceError(
                f"git fetch of {ref or 'HEAD'} from {_masked(url)} failed: {reason}; "
                "corpus and index stay as they were"
            )
        shutil.rmtree(repository, ignore_errors=True)
        fresh.rename(repository)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return commit


def export(repository: Path, commit: str, directory: Path) -> None:
    """
    Write the files of ``commit`` into the new folder ``directory``.

    Whatever attributes say of archives: documentation is often left out of those.
    """
    index = repository / "docs-rag-index"
    index.unlink(missing_ok=True)
    git = [f"--git-dir={repository}"]
    try:
        directory.mkdir()
        _must([*git, "read-tree", commit], "read-tree", GIT_INDEX_FILE=str(index))
        _must(
            [
                *(*git, f"--work-tree={directory}", "checkout-index", "--all"),
                *("--quiet", f"--prefix={directory}/"),
            ],
            "checkout",
            GIT_INDEX_FILE=str(index),
        )
    finally:
        index.unlink(missing_ok=True)


def _fetch(url: str, ref: str | None, repository: Path) -> tuple[str, str]:
    """Return the commit fetched, or "" and what git says is wrong."""
    git = [f"--git-dir={repository}"]
    fetching = [*git, "fetch", "--quiet", "--force", "--no-tags"]
    target = f"+{ref or 'HEAD'}:{_FETCHED}"
    done = _run([*fetching, "--depth=1", "--", url, target])
    wanted = _FETCHED
    if done.returncode != 0 and ref is not None and _COMMIT.fullmatch(ref):
        # An id that is short, or that the server does not give out by itself.
        everything = ["+refs/heads/*:refs/docs-rag/heads/*"]
        everything += ["+refs/tags/*:refs/docs-rag/tags/*"]
        if (repository / "shallow").exists():
            fetching.append("--unshallow")
        done = _run([*fetching, "--", url, *everything])
        wanted = ref
    if done.returncode != 0:
        return "", _reason(done)
    found = _run([*git, "rev-parse", "--verify", "--quiet", f"{wanted}^{{commit}}"])
    if found.returncode != 0:
        return "", f"there is no commit {ref} in it"
    return os.fsdecode(found.stdout).strip(), ""


def _remove_stale_locks(repository: Path) -> None:
    """Remove what a killed run left: only the holder of the refresh lock is here."""
    for lock in repository.rglob("*.lock"):
        lock.unlink(missing_ok=True)


def _must(arguments: Sequence[str], step: str, **variables: str) -> None:
    done = _run(arguments, **variables)
    if done.returncode != 0:
        raise SourceError(
            f"git {step} failed: {_reason(done)}; corpus and index stay as they were"
        )


def _run(
    arguments: Sequence[str], **variables: str
) -> "subprocess.CompletedProcess[bytes]":
    # A hook that runs us leaves GIT_DIR and the like, which mean its repository. How to
    # reach a server is the operator's to say.
    environ = {
        name: value
        for name, value in current_environment().items()
        if not name.startswith("GIT_") or name == "GIT_SSH_COMMAND"
    }
    environ |= {"HOME": str(Path.home()), "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    try:
        return subprocess.run(
            ["git", *_OPTIONS, *arguments],
            env=environ | variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_FETCH_TIMEOUT_SECONDS,
            check=False,
        )
    except FileNotFoundError as error:
        raise SourceError("git is not on the PATH: install it") from error
    except subprocess.TimeoutExpired as error:
        raise SourceError(
            f"git {arguments[-1]} took longer than {_FETCH_TIMEOUT_SECONDS} seconds; "
            "corpus and index stay as they were"
        ) from error


def _reason(done: "subprocess.CompletedProcess[bytes]") -> str:
    """Return the line in which git says why, without credentials."""
    lines = [line.strip() for line in os.fsdecode(done.stderr).splitlines()]
    told = [line for line in lines if line.startswith(("fatal:", "error:"))]
    line = (told or [line for line in lines if line] or ["it did not say why"])[0]
    return printable(_masked(line))


def _masked(text: str) -> str:
    return _CREDENTIALS.sub("***@", text)
