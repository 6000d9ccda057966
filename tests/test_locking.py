"""One writer at a time, and never a lock without a living holder."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from layouts import ordinary_user

from docs_rag.errors import EXIT_LOCKED, IndexLockedError, StorageError
from docs_rag.locking import corpus_lock

ROOT = Path(__file__).resolve().parent.parent
HOLD = """
import sys, time
from pathlib import Path
from docs_rag.locking import corpus_lock
with corpus_lock(Path(sys.argv[1]), "demo"):
    print("held", flush=True)
    time.sleep(60)
"""

FORK = """
import os, sys
from pathlib import Path
from docs_rag.locking import corpus_lock
path = Path(sys.argv[1])
reader, writer = os.pipe()
with corpus_lock(path, "demo"):
    child = os.fork()
    if child == 0:
        os.close(writer)
        os.read(reader, 1)
        os._exit(0)
try:
    with corpus_lock(path, "demo"):
        print("locked again")
finally:
    os.close(writer)
    os.waitpid(child, 0)
"""


@contextlib.contextmanager
def holder(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lock, until it is killed."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


def test_a_second_process_is_told_who_holds_it(tmp_path: Path) -> None:
    """It fails at once with exit code 75, naming process and host."""
    path = tmp_path / "data" / ".index.lock"
    with holder(path) as other:
        started = time.monotonic()
        with pytest.raises(IndexLockedError) as caught, corpus_lock(path, "demo"):
            pytest.fail("two hold the lock")
        seconds = time.monotonic() - started
    message = str(caught.value)

    assert seconds < 5
    assert caught.value.exit_code == EXIT_LOCKED
    assert f"process {other.pid} on {socket.gethostname()}" in message
    assert "'demo' is locked" in message and str(path) in message
    assert "\n" not in message


def test_a_killed_holder_leaves_no_lock(tmp_path: Path) -> None:
    """After kill -9 the next run takes the lock at once."""
    path = tmp_path / ".index.lock"
    with holder(path) as other:
        other.send_signal(signal.SIGKILL)
        other.wait(10)
        with corpus_lock(path, "demo"):
            assert json.loads(path.read_text())["pid"] == os.getpid()


def test_a_lock_is_free_after_its_block(tmp_path: Path) -> None:
    """However the block ends, the lock ends with it."""
    path = tmp_path / ".index.lock"
    with pytest.raises(ZeroDivisionError), corpus_lock(path, "demo"):
        raise ZeroDivisionError
    with corpus_lock(path, "demo"):
        pass
    with corpus_lock(path, "demo"):
        pass


def test_a_process_cannot_lock_twice(tmp_path: Path) -> None:
    """The lock also holds against the process that has it."""
    path = tmp_path / ".index.lock"
    with (
        corpus_lock(path, "demo"),
        pytest.raises(IndexLockedError, match=f"process {os.getpid()} "),
        corpus_lock(path, "demo"),
    ):
        pytest.fail("locked twice")


@pytest.mark.parametrize(
    "content",
    ["", '{"pid": 999999999, "host": "gone"}', "4711\n", "\0\xff", "x" * 9999],
)
def test_a_left_over_file_locks_nothing(tmp_path: Path, content: str) -> None:
    """What a lock file says does not matter, only whether someone holds it."""
    path = tmp_path / ".index.lock"
    path.write_text(content, encoding="latin-1")
    with corpus_lock(path, "demo"):
        assert json.loads(path.read_text())["pid"] == os.getpid()


@pytest.mark.parametrize("content", ["", "no JSON", "[]", '{"pid": 1}', "\xff"])
def test_a_holder_that_says_nothing_still_holds(tmp_path: Path, content: str) -> None:
    """The lock is honoured even where its file does not tell who has it."""
    path = tmp_path / ".index.lock"
    with corpus_lock(path, "demo"):
        path.write_text(content, encoding="latin-1")
        with (
            pytest.raises(IndexLockedError, match="another process is indexing it"),
            corpus_lock(path, "demo"),
        ):
            pytest.fail("two hold the lock")


def test_an_old_empty_lock_folder_is_replaced(tmp_path: Path) -> None:
    """A folder of that name, as older versions made, is out of the way."""
    path = tmp_path / ".index.lock"
    path.mkdir()
    with corpus_lock(path, "demo"):
        assert path.is_file()


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    """A folder that is not an empty lock is an error, and keeps its content."""
    path = tmp_path / ".index.lock"
    (path / "kept").mkdir(parents=True)
    with (
        pytest.raises(StorageError, match=r"cannot make the lock .*not empty"),
        corpus_lock(path, "demo"),
    ):
        pytest.fail("locked a folder")
    assert (path / "kept").is_dir()


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """Without permission the message names the lock and what to check."""
    path = tmp_path / "data" / ".index.lock"
    tmp_path.chmod(0o555)
    with (
        ordinary_user(),
        pytest.raises(StorageError, match=r"Permission denied.*is writable"),
        corpus_lock(path, "demo"),
    ):
        pytest.fail("locked without permission")


def test_a_child_does_not_inherit_the_lock(tmp_path: Path) -> None:
    """A process forked meanwhile does not keep the lock beyond the block."""
    done = subprocess.run(
        [sys.executable, "-c", FORK, str(tmp_path / ".index.lock")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout == "locked again\n"
