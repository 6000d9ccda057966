"""
How far a long run has come: a bar on a terminal, a line now and then in a log.

Writes to standard error alone, so what a command prints stays its report.
"""

import os
import time
from typing import Any, TextIO

from tqdm import tqdm

# A log that is read by nobody at the time wants a line now and then, not a bar.
SECONDS_BETWEEN_LINES = 10.0
_COLUMNS, _LINES = 79, 24


class ProgressMeter:
    """Shows the progress of an indexing run on ``stream``; None shows nothing."""

    def __init__(
        self,
        stream: TextIO | None,
        seconds_between_lines: float = SECONDS_BETWEEN_LINES,
    ) -> None:
        self._stream = stream
        self._seconds_between_lines = seconds_between_lines
        self._stage = ""
        self._bar: Any = None
        self._last_line = time.monotonic()

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Note that ``done`` of ``total`` files have passed ``stage``."""
        if self._stream is None:
            return
        if self._stream.isatty():
            self._move_bar(self._stream, stage, done, total)
        elif time.monotonic() - self._last_line >= self._seconds_between_lines:
            self._last_line = time.monotonic()
            self._stream.write(f"{stage}: {done} of {total} files\n")
            self._stream.flush()

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.close()

    def _move_bar(self, stream: TextIO, stage: str, done: int, total: int) -> None:
        if stage != self._stage:
            self.close()
            self._stage = stage
            self._bar = tqdm(
                total=total,
                desc=stage,
                unit="file",
                leave=False,
                file=stream,
                **_assumed_size(stream),
            )
        self._bar.update(done - self._bar.n)


def _assumed_size(stream: TextIO) -> dict[str, Any]:
    """Return a size for terminals that do not know theirs: on 0 x 0 nothing shows."""
    if os.get_terminal_size(stream.fileno()).columns:
        return {}
    return {"ncols": _COLUMNS, "nrows": _LINES}
