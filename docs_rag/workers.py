"""
Blocking calls made from the event loop: few at once, and none that can hold it up.

A caller that leaves gives its turn to the next at once. Its thread cannot be stopped
and runs to its end unheard; threads are bounded too, and the process does not wait
for them when it ends.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

# Searches that run at once; more only take the processor from one another.
PARALLEL_CALLS = 4
# Those and the ones that nobody waits for any more: such a call has nothing left to
# do but to wait for an embedding endpoint, which takes ten seconds at most.
MAX_THREADS = 32


class Workers:
    """Runs functions in daemon threads. Make and use it in one event loop."""

    def __init__(
        self, parallel_calls: int = PARALLEL_CALLS, max_threads: int = MAX_THREADS
    ) -> None:
        self._turns = asyncio.Semaphore(parallel_calls)
        self._threads = asyncio.Semaphore(max_threads)

    async def run(self, function: Callable[[], T]) -> T:
        """Return what ``function`` returns, or raise what it raises, in its turn."""
        async with self._turns:
            await self._threads.acquire()
            loop = asyncio.get_running_loop()
            outcome: asyncio.Future[T] = loop.create_future()

            def finish(result: T | None, error: BaseException | None) -> None:
                self._threads.release()
                if outcome.cancelled():
                    return
                if error is not None:
                    outcome.set_exception(error)
                else:
                    outcome.set_result(result)  # type: ignore[arg-type]

            def work() -> None:
                result, error = None, None
                try:
                    result = function()
                except BaseException as raised:
                    error = raised
                # The loop may be closed by now: then nobody is left to hear it.
                with contextlib.suppress(RuntimeError):
                    loop.call_soon_threadsafe(finish, result, error)

            threading.Thread(target=work, name="call", daemon=True).start()
            return await outcome
