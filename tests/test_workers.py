"""Blocking calls made from the event loop: few at once, and none that holds it up."""

import asyncio
import threading

import pytest

from docs_rag.workers import StoppingError, Workers


def test_results_and_errors_come_back():
    """What a function returns is returned, what it raises is raised."""

    async def use() -> None:
        workers = Workers()
        assert await workers.run(lambda: 3) == 3
        with pytest.raises(ZeroDivisionError):
            await workers.run(lambda: 1 // 0)

    asyncio.run(use())


def test_no_more_calls_run_at_once_than_allowed():
    """However many wait, only so many run; all get their turn."""
    running, most = 0, 0
    lock = threading.Lock()

    def count() -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        threading.Event().wait(0.01)
        with lock:
            running -= 1

    async def use() -> None:
        workers = Workers(parallel_calls=2)
        await asyncio.gather(*(workers.run(count) for _ in range(10)))

    asyncio.run(use())

    assert most == 2
    assert running == 0


def test_caller_that_leaves_gives_up_its_turn_at_once():
    """A cancelled call makes room for the next, though its thread is still busy."""
    release = threading.Event()

    async def use() -> None:
        workers = Workers(parallel_calls=1)
        stuck = asyncio.ensure_future(workers.run(release.wait))
        await asyncio.sleep(0.01)
        stuck.cancel()
        assert await asyncio.wait_for(workers.run(lambda: "next"), 10) == "next"
        release.set()

    asyncio.run(use())


def test_abandoned_threads_are_bounded():
    """Callers that come and leave cannot make more threads than allowed."""
    release = threading.Event()
    started = []

    def hang() -> None:
        started.append(1)
        release.wait()

    async def use() -> None:
        workers = Workers(parallel_calls=1, max_threads=3)
        for _ in range(10):
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(workers.run(hang), 0.02)
        assert len(started) == 3
        release.set()
        assert await asyncio.wait_for(workers.run(lambda: "next"), 10) == "next"

    asyncio.run(use())


def test_call_that_outlives_the_loop_is_nobodys_business():
    """A thread that ends after the loop was closed ends silently."""
    release = threading.Event()
    ended = threading.Event()

    def outlive() -> None:
        release.wait()
        ended.set()

    async def leave() -> None:
        running = asyncio.ensure_future(Workers().run(outlive))
        await asyncio.sleep(0.01)
        assert not running.done()

    asyncio.run(leave())
    release.set()

    assert ended.wait(10)


def test_calls_that_are_given_up_fail_at_once():
    """Giving up ends every wait, those in the queue too, and whatever comes later."""
    release = threading.Event()

    async def use() -> None:
        workers = Workers(parallel_calls=1)
        calls = [asyncio.ensure_future(workers.run(release.wait)) for _ in range(3)]
        await asyncio.sleep(0.01)
        workers.give_up()
        for outcome in await asyncio.gather(*calls, return_exceptions=True):
            assert isinstance(outcome, StoppingError)
        with pytest.raises(StoppingError, match="ask again in a moment"):
            await workers.run(lambda: None)
        release.set()

    asyncio.run(use())
