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
from typing import Any, TypeVar

from docs_rag.errors import DocsRagError

T = TypeVar("T")

# Searches that run at once; more only take the processor from one another.
PARALLEL_CALLS = 4
# Those and the ones that nobody waits for any more: such a call has nothing left to
# do but to wait for an embedding endpoint, which takes ten seconds at most.
MAX_THREADS = 32

_STOPPING = "the server is stopping; ask again in a moment"


class StoppingError(DocsRagError):
    """The server stops before the call is done."""


class Workers:
    """Runs functions in daemon threads. Make and use it in one event loop."""

    def __init__(
        self, parallel_calls: int = PARALLEL_CALLS, max_threads: int = MAX_THREADS
    ) -> None:
        self._turns = asyncio.Semaphore(parallel_calls)
        self._threads = asyncio.Semaphore(max_threads)
        self._awaited: set[asyncio.Future[Any]] = set()
        self._is_stopping = False

    async def run(self, function: Callable[[], T]) -> T:
        """
        Return what ``function`` returns, or raise what it raises, in its turn.

        Raises ``StoppingError`` once the calls were given up.
        """
        async with self._turns:
            if self._is_stopping:
                raise StoppingError(_STOPPING)
            await self._threads.acquire()
            loop = asyncio.get_running_loop()
            outcome: asyncio.Future[T] = loop.create_future()

            def finish(result: T | None, error: BaseException | None) -> None:
                self._threads.release()
                if outcome.done():
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
            self._awaited.add(outcome)
            try:
                return await outcome
            finally:
                self._awaited.discard(outcome)

    def give_up(self) -> None:
        """Let every call that is waited for, and every later one, fail at once."""
        self._is_stopping = True
        for outcome in self._awaited:
            if not outcome.done():
                outcome.set_exception(StoppingError(_STOPPING))
