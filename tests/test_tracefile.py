"""Rules of the shared log file: lines are whole, and nobody waits for long."""

import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from trace_samples import ROOT, finish, read_json_lines, start_writer

from docs_rag.tracefile import append_line, is_current, lock_exclusive, replacing


@pytest.mark.parametrize("query_chars", [0, 6000], ids=["short", "long"])
def test_lines_of_several_processes_stay_whole(
    tmp_path: Path, query_chars: int
) -> None:
    """A thousand appends from four processes are a thousand whole lines, each once."""
    for process in [
        start_writer(str(number), tmp_path, 250, query_chars) for number in range(4)
    ]:
        finish(process)

    records = read_json_lines(tmp_path / "traces-a.jsonl")
    queries = {r["attributes"]["gen_ai.retrieval.query.text"] for r in records}
    assert len(records) == len(queries) == 1000
    assert (tmp_path / "queries-a.log").read_bytes().count(b"\n") == 1000


def test_lines_of_several_threads_stay_whole(tmp_path: Path) -> None:
    """Threads of one process append whole lines, too."""
    path = tmp_path / "log"

    def append(name: int) -> None:
        for number in range(50):
            append_line(path, b"%d-%d\n" % (name, number), wait_seconds=20)

    threads = [threading.Thread(target=append, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    lines = path.read_bytes().splitlines()
    assert sorted(lines) == sorted(
        b"%d-%d" % (name, number) for name in range(4) for number in range(50)
    )


def test_a_killed_writer_leaves_whole_lines_and_at_most_a_part(tmp_path: Path) -> None:
    """After kill -9 all lines but perhaps the last are whole, and appends go on."""
    path = tmp_path / "traces-a.jsonl"
    victim = start_writer("victim", tmp_path, 1_000_000, 6000)
    deadline = time.monotonic() + 30
    while not path.exists() or path.stat().st_size < 100_000:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    victim.send_signal(signal.SIGKILL)
    victim.communicate()
    whole, _, part = path.read_bytes().rpartition(b"\n")

    finish(start_writer("heir", tmp_path, 1, 0))

    lines = path.read_bytes().splitlines()
    assert lines[: whole.count(b"\n") + 1] == whole.split(b"\n")
    assert len(lines) == whole.count(b"\n") + 2 + bool(part)
    assert b"heir/0" in lines[-1]


def test_half_a_line_spoils_only_itself(tmp_path: Path) -> None:
    """What a crash left unfinished is ended before the next line is written."""
    path = tmp_path / "log"
    path.write_bytes(b'whole\n{"half": ')

    append_line(path, b"next\n", wait_seconds=1)

    assert path.read_bytes() == b'whole\n{"half": \nnext\n'


def test_a_new_file_is_for_its_owner_only(tmp_path: Path) -> None:
    """A log is created with mode 0600 whatever the umask."""
    mask = os.umask(0)
    try:
        append_line(tmp_path / "log", b"x\n", wait_seconds=1)
    finally:
        os.umask(mask)

    assert (tmp_path / "log").stat().st_mode & 0o777 == 0o600


def test_a_full_disk_takes_no_part_of_a_line(tmp_path: Path) -> None:
    """Where only a part of the line fits, it is taken back and the error raised."""
    code = (
        "import resource, sys; from pathlib import Path\n"
        "from docs_rag.tracefile import append_line\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
        "path = Path(sys.argv[1])\n"
        "append_line(path, b'a' * 59 + b'\\n', wait_seconds=1)\n"
        "try: append_line(path, b'b' * 59 + b'\\n', wait_seconds=1)\n"
        "except OSError: sys.exit(7)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "log")],
        env={"PYTHONPATH": str(ROOT)},
        check=False,
    )

    assert done.returncode == 7
    assert (tmp_path / "log").read_bytes() == b"a" * 59 + b"\n"


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Path]:
    """A log whose lock someone else holds."""
    path = tmp_path / "log"
    with path.open("wb") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield path


def test_a_held_lock_is_waited_for_and_given_up(held: Path) -> None:
    """A lock that is not to be had costs the time allowed, then an error."""
    started = time.monotonic()

    with pytest.raises(BlockingIOError):
        append_line(held, b"x\n", wait_seconds=0.05)

    assert 0.05 <= time.monotonic() - started < 5
    assert held.read_bytes() == b""


def test_a_pipe_in_the_place_of_the_log_stops_nobody(tmp_path: Path) -> None:
    """A pipe that is full or that nobody reads is an error, not a wait."""
    os.mkfifo(tmp_path / "log")

    append_line(tmp_path / "log", b"x\n", wait_seconds=1)
    with pytest.raises(OSError):
        append_line(tmp_path / "log", b"x" * 10_000_000, wait_seconds=1)


def test_an_append_follows_the_path_to_the_new_file(tmp_path: Path) -> None:
    """A file that is replaced while its lock is awaited gets no more lines."""
    path, old = tmp_path / "log", tmp_path / "old"
    path.write_bytes(b"old\n")
    with path.open("rb") as stream:
        lock_exclusive(stream.fileno(), 1)
        thread = threading.Thread(
            target=append_line, args=(path, b"new\n"), kwargs={"wait_seconds": 20}
        )
        thread.start()
        time.sleep(0.05)
        path.rename(old)
        assert not is_current(stream.fileno(), path)
    thread.join()

    assert (path.read_bytes(), old.read_bytes()) == (b"new\n", b"old\n")


def test_a_replacement_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    """A failure while writing leaves the former file and no remains."""
    target = tmp_path / "page.html"
    with replacing(target) as stream:
        stream.write(b"first")
    with pytest.raises(ZeroDivisionError), replacing(target) as stream:
        stream.write(b"second")
        raise ZeroDivisionError

    assert target.read_bytes() == b"first"
    assert target.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [target]
