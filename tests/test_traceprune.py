"""Rules of the retention window: the old leave, the new and the running stay."""

import fcntl
import gzip
import os
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from trace_samples import NOW, finish, make_line, read_json_lines, start_writer

from docs_rag import traceprune
from docs_rag.tracefile import append_line
from docs_rag.traceprune import prune_directory, prune_file

CUTOFF = NOW - timedelta(days=14)
OLD = make_line(ago=timedelta(days=30))
NEW = make_line(ago=timedelta(days=1))
OLD_METER = f"ts={(NOW - timedelta(days=30)).isoformat()}\tcaller=mcp\n"
NEW_METER = f"ts={NOW.isoformat()}\tcaller=mcp\n"


def write(path: Path, text: str) -> Path:
    path.write_bytes(text.encode())
    return path


def set_age(path: Path, days: int) -> None:
    moment = (NOW - timedelta(days=days)).timestamp()
    os.utime(path, (moment, moment))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (OLD + OLD + NEW + NEW, NEW + NEW),
        (NEW + OLD + NEW, NEW + NEW),
        (NEW + NEW, NEW + NEW),
        (OLD_METER + NEW_METER, NEW_METER),
        (OLD + "of the old\n" + NEW + "of the new\n", NEW + "of the new\n"),
        ("first\n" + OLD + NEW, NEW),
        ("first\n" + NEW + OLD, "first\n" + NEW),
        (OLD + NEW + NEW[:30], NEW + NEW[:30]),
        (OLD + NEW.rstrip(), NEW.rstrip()),
        ("\ufeff" + OLD + NEW, NEW),
        (OLD.replace("\n", "\r\n") + NEW.replace("\n", "\r\n"), NEW[:-1] + "\r\n"),
    ],
    ids=[
        "in-order",
        "out-of-order",
        "nothing-old",
        "metering",
        "undated-follow",
        "undated-first-old",
        "undated-first-new",
        "half-at-the-end",
        "no-last-newline",
        "byte-order-mark",
        "crlf",
    ],
)
def test_old_lines_leave_and_others_stay_as_they_are(
    before: str, after: str, tmp_path: Path
) -> None:
    """Lines older than the window go, and what stays is byte for byte the same."""
    path = write(tmp_path / "traces-a.jsonl", before)

    outcome = prune_file(path, CUTOFF)

    assert path.read_bytes() == after.encode()
    assert outcome.problem is None and not outcome.deleted
    assert outcome.kept == after.count("\n") + (not after.endswith("\n"))
    assert list(tmp_path.iterdir()) == [path]


def test_the_edge_of_the_window_stays(tmp_path: Path) -> None:
    """A record exactly as old as the window allows is kept."""
    edge = make_line(ago=timedelta(days=14))
    older = make_line(ago=timedelta(days=14, microseconds=1))
    path = write(tmp_path / "traces-a.jsonl", older + edge)

    prune_file(path, CUTOFF)

    assert path.read_bytes() == edge.encode()


@settings(
    max_examples=50,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(ages=st.lists(st.integers(0, 30), max_size=30))
def test_exactly_the_young_remain(ages: list[int], tmp_path: Path) -> None:
    """Whatever the order, what remains are the lines inside the window, in order."""
    lines = [make_line(ago=timedelta(days=age), k=n) for n, age in enumerate(ages)]
    path = write(tmp_path / "traces-a.jsonl", "".join(lines))

    outcome = prune_file(path, CUTOFF)

    young = [line for line, age in zip(lines, ages, strict=True) if age <= 14]
    left = path.read_text(encoding="utf-8") if path.exists() else ""
    assert left == "".join(young)
    assert outcome.removed == len(lines) - len(young)


def test_a_file_without_anything_new_is_removed(tmp_path: Path) -> None:
    """Files of which all is old go; undated ones are as old as their last change."""
    for name in ("traces-a.jsonl", "traces-a.jsonl.1", "queries-a.log"):
        write(tmp_path / name, OLD * 3)
    for name in ("traces-odd.jsonl", "traces-empty.jsonl"):
        set_age(write(tmp_path / name, "?\n" if "odd" in name else ""), days=30)
    young = write(tmp_path / "traces-young.jsonl", "?\n")
    set_age(young, days=1)
    write(tmp_path / "notes.txt", OLD)

    outcomes = prune_directory(tmp_path, CUTOFF)

    assert sorted(p.name for p in tmp_path.iterdir()) == ["notes.txt", young.name]
    assert sorted(o.deleted for o in outcomes) == [False] + [True] * 5


def test_rotated_and_packed_files_are_pruned(tmp_path: Path) -> None:
    """What was rotated is pruned inside, packed files stay packed."""
    plain = write(tmp_path / "traces-a.jsonl.1", OLD + NEW)
    packed = tmp_path / "traces-a.jsonl.2.gz"
    packed.write_bytes(gzip.compress((OLD + NEW).encode()))

    prune_directory(tmp_path, CUTOFF)

    assert plain.read_bytes() == NEW.encode()
    assert gzip.decompress(packed.read_bytes()) == NEW.encode()


def test_what_cannot_be_pruned_is_said_and_left(tmp_path: Path) -> None:
    """A damaged file, a device and a folder are left alone, and named."""
    damaged = tmp_path / "traces-a.jsonl.gz"
    damaged.write_bytes(gzip.compress((OLD * 5000).encode())[:-200] + b"x" * 100)
    content = damaged.read_bytes()
    (tmp_path / "traces-b.jsonl").symlink_to("/dev/zero")
    (tmp_path / "traces-c.jsonl").mkdir()
    write(tmp_path / "traces-d.jsonl", OLD + NEW)

    outcomes = prune_directory(tmp_path, CUTOFF)

    assert [bool(outcome.problem) for outcome in outcomes] == [True, True, True, False]
    assert damaged.read_bytes() == content
    assert not list(tmp_path.glob(".prune-*"))


def test_mode_and_owner_survive(tmp_path: Path) -> None:
    """A pruned file belongs to whom it did: a service must still append to it."""
    path = write(tmp_path / "traces-a.jsonl", OLD + NEW)
    path.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(path, 4321, 4322)
    before = path.stat()

    prune_file(path, CUTOFF)

    after = path.stat()
    assert (after.st_mode, after.st_uid, after.st_gid) == (
        before.st_mode,
        before.st_uid,
        before.st_gid,
    )
    assert after.st_ino != before.st_ino


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    """Where the log is a link, the file behind it is pruned."""
    real = write(tmp_path / "elsewhere", OLD + NEW)
    link = tmp_path / "traces-a.jsonl"
    link.symlink_to(real)

    prune_directory(tmp_path, CUTOFF)

    assert link.is_symlink() and real.read_bytes() == NEW.encode()


def test_remains_of_a_killed_prune_are_removed(tmp_path: Path) -> None:
    """Old temporary files go, recent ones may be in use."""
    old, recent = tmp_path / ".prune-old", tmp_path / ".prune-recent"
    for path in (old, recent):
        write(path, OLD)
    os.utime(old, (time.time() - 2 * 86_400,) * 2)

    prune_directory(tmp_path, CUTOFF)

    assert list(tmp_path.iterdir()) == [recent]


def test_a_held_lock_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A prune that cannot get the lock changes nothing and says so."""
    monkeypatch.setattr(traceprune, "_LOCK_WAIT_SECONDS", 0.05)
    path = write(tmp_path / "traces-a.jsonl", OLD + NEW)
    with path.open("rb") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        outcome = prune_file(path, CUTOFF)

    assert outcome.problem is not None and "lock" in outcome.problem
    assert path.read_bytes() == (OLD + NEW).encode()
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_replaced_meanwhile_is_pruned_instead(tmp_path: Path) -> None:
    """A prune that finds another file in the place starts over with that one."""
    path = write(tmp_path / "traces-a.jsonl", OLD + NEW)
    later = write(tmp_path / "later", OLD + NEW + NEW)
    outcomes: list[traceprune.Pruned] = []
    with path.open("rb") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        thread = threading.Thread(
            target=lambda: outcomes.append(prune_file(path, CUTOFF))
        )
        thread.start()
        while not list(tmp_path.glob(".prune-*")):
            time.sleep(0.001)
        later.replace(path)
    thread.join()

    assert path.read_bytes() == (NEW + NEW).encode()
    assert (outcomes[0].kept, outcomes[0].removed) == (2, 1)
    assert list(tmp_path.iterdir()) == [path]


def test_appends_during_prunes_are_all_kept(tmp_path: Path) -> None:
    """While four processes append and prunes go on, no new line is lost."""
    ancient = OLD.replace("2031", "2001")
    cutoff = datetime.now(UTC) - timedelta(days=14)
    path = write(tmp_path / "traces-a.jsonl", ancient * 50)
    writers = [start_writer(str(number), tmp_path, 150, 500) for number in range(4)]
    prunes = rewrites = 0
    while any(writer.poll() is None for writer in writers) or prunes < 20:
        # Old lines keep coming, so that there is always something to rewrite.
        append_line(path, ancient.encode(), wait_seconds=20)
        outcome = prune_file(path, cutoff)
        assert outcome.problem is None
        prunes += 1
        rewrites += outcome.removed > 0
    for writer in writers:
        finish(writer)

    records = read_json_lines(path)
    queries = [r["attributes"]["gen_ai.retrieval.query.text"] for r in records]
    expected = {f"{n}/{i} " + "q" * 500 for n in range(4) for i in range(150)}
    assert len(queries) == 600 and set(queries) == expected
    assert rewrites == prunes
