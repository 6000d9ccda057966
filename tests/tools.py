"""The real tools that operations use: shell scripts, git, sshd, small disks."""

import contextlib
import getpass
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PATIENCE_SECONDS = 60.0
SSHD = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")

AUTHOR = {
    "GIT_AUTHOR_NAME": "nobody",
    "GIT_AUTHOR_EMAIL": "nobody@example.invalid",
    "GIT_COMMITTER_NAME": "nobody",
    "GIT_COMMITTER_EMAIL": "nobody@example.invalid",
}


def needs(*names: str) -> pytest.MarkDecorator:
    """Skip a test where one of these commands is missing, and say which."""
    missing = [name for name in names if shutil.which(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"not here: {', '.join(missing)}")


needs_sshd = pytest.mark.skipif(SSHD is None, reason="not here: sshd")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")


def executable(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def launcher(path: Path) -> Path:
    """Write a ``docs-rag`` command that runs the code under test."""
    command = f"PYTHONPATH='{ROOT}' exec '{sys.executable}' -m docs_rag"
    return executable(path, f'#!/bin/sh\n{command} "$@"\n')


def shell(
    script: str, *words: str, cwd: Path | str = "/", stdin: str = "", **environ: str
) -> subprocess.CompletedProcess:
    """Run one of our scripts with this environment and no other."""
    return subprocess.run(
        ["/bin/bash", str(ROOT / script), *words],
        input=stdin,
        env=environ,
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )


# -- git --------------------------------------------------------------------------


def git(directory: Path, *words: str) -> str:
    """Run git as nobody in particular, and return what it prints."""
    done = subprocess.run(
        ["git", "-c", "init.defaultBranch=main", "-C", str(directory), *words],
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", **AUTHOR},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@dataclass(frozen=True)
class Repository:
    """A bare origin, a working copy that pushes to it, and a checkout of it."""

    origin: Path
    work: Path
    checkout: Path

    def commit(self, pages: Mapping[str, str | None], message: str = "more") -> str:
        """Write pages (None removes one), commit, push, and return the commit."""
        for name, text in pages.items():
            path = self.work / name
            if text is None:
                path.unlink()
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
        git(self.work, "add", "-A")
        git(self.work, "commit", "-q", "-m", message)
        git(self.work, "push", "-q", "origin", "HEAD")
        return git(self.work, "rev-parse", "HEAD")


def make_repository(place: Path, pages: Mapping[str, str]) -> Repository:
    repository = Repository(place / "origin.git", place / "work", place / "check out")
    repository.work.mkdir(parents=True)
    git(place, "init", "-q", "--bare", str(repository.origin))
    git(repository.work, "init", "-q")
    git(repository.work, "remote", "add", "origin", str(repository.origin))
    repository.commit(pages, "first")
    git(place, "clone", "-q", str(repository.origin), str(repository.checkout))
    return repository


# -- ssh --------------------------------------------------------------------------

# Runs the command here, in a shell, as sshd would; and notes it.
STAND_IN = """#!/bin/sh
while [ "${1#-}" != "$1" ]; do case "$1" in -[oFip]) shift;; esac; shift; done
shift
printf '%s\\n' "$*" >>"$SSH_LOG"
exec /bin/sh -c "$*"
"""


def stand_in_for_ssh(directory: Path) -> Path:
    """Write an ``ssh`` that stays on this machine, and return its folder."""
    executable(directory / "ssh", STAND_IN)
    return directory


@contextlib.contextmanager
def sshd(place: Path) -> Iterator[Path]:
    """Run sshd on loopback with throw-away keys; yield a folder with its ``ssh``."""
    for name in ("host", "user"):
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(place / name)],
            check=True,
            stdin=subprocess.DEVNULL,
        )
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    if os.geteuid() == 0:
        # As the service of the package does at its start.
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    (place / "sshd_config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {place}/host\n"
        f"AuthorizedKeysFile {place}/user.pub\nPidFile none\nStrictModes no\n"
        f"UsePAM {'yes' if os.geteuid() == 0 else 'no'}\nPermitRootLogin yes\n"
        "PasswordAuthentication no\nKbdInteractiveAuthentication no\nPrintMotd no\n"
    )
    (place / "ssh_config").write_text(
        f"Host service\n  HostName 127.0.0.1\n  Port {port}\n"
        f"  User {getpass.getuser()}\n  IdentityFile {place}/user\n"
        "  IdentitiesOnly yes\n  IdentityAgent none\n  LogLevel ERROR\n"
        f"  StrictHostKeyChecking no\n  UserKnownHostsFile {place}/known\n"
    )
    ssh = shutil.which("ssh")
    executable(
        place / "bin" / "ssh", f'#!/bin/sh\nexec {ssh} -F "{place}/ssh_config" "$@"\n'
    )
    log = place / "sshd.log"
    daemon = subprocess.Popen(
        [SSHD, "-D", "-f", f"{place}/sshd_config", "-E", str(log)],
        stdin=subprocess.DEVNULL,
    )
    try:
        _wait_for(port, daemon, log)
        command = [str(place / "bin" / "ssh"), "-o", "BatchMode=yes", "service", "true"]
        tried = subprocess.run(command, capture_output=True, text=True, check=False)
        if tried.returncode != 0:
            pytest.skip(f"this account may not log in here: {tried.stderr.strip()}")
        yield place / "bin"
    finally:
        daemon.terminate()
        daemon.wait(PATIENCE_SECONDS)


def _wait_for(port: int, daemon: subprocess.Popen, log: Path) -> None:
    give_up_at = time.monotonic() + PATIENCE_SECONDS
    while True:
        with (
            contextlib.suppress(OSError),
            socket.create_connection(("127.0.0.1", port)),
        ):
            return
        assert daemon.poll() is None, log.read_text()
        assert time.monotonic() < give_up_at, log.read_text()
        time.sleep(0.05)


# -- disks ------------------------------------------------------------------------


@contextlib.contextmanager
def small_disk(place: Path, size: str) -> Iterator[Path]:
    """Mount a disk of ``size`` at ``place``, for root."""
    place.mkdir(parents=True, exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(place)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"cannot mount here: {done.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


@contextlib.contextmanager
def read_only(directory: Path) -> Iterator[None]:
    """Make a folder read-only, also for root."""
    if os.geteuid() != 0:
        directory.chmod(0o555)
        try:
            yield
        finally:
            directory.chmod(0o755)
        return
    place = str(directory)
    done = subprocess.run(["mount", "--bind", place, place], check=False)
    if done.returncode != 0:
        pytest.skip("cannot mount here")
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", place], check=True)
        yield
    finally:
        subprocess.run(["umount", "-l", place], check=True)


def files_below(directory: Path) -> set[str]:
    """Return the files below a folder, but for the source marker."""
    return {
        str(path.relative_to(directory))
        for path in directory.rglob("*")
        if not path.is_dir() and path.name != ".corpus_source.json"
    }
