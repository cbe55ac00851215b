"""Progress bar: shows the progress of a map on a terminal or in a log.

Called by the map, in the thread of its caller. On a terminal it redraws one line; in a log it prints a few lines. Must
never draw more often than a person can read, or raise because a stream is closed.
"""

from __future__ import annotations

import contextlib
import time
from typing import TextIO

REDRAW_SECONDS = 0.1
LOG_SECONDS = 10.0
BAR_WIDTH = 30


class Progress:
    """Draws the progress of one map.

    Args:
        total: the number of tasks, or None if it is unknown.
        stream: where to draw.
    """

    def __init__(self, total: int | None, stream: TextIO) -> None:
        self._total = total
        self._stream = stream
        self._is_terminal = stream.isatty()
        self._pause_seconds = REDRAW_SECONDS if self._is_terminal else LOG_SECONDS
        self._started = time.monotonic()
        self._next_at = self._started + self._pause_seconds
        self._width = 0

    def update(self, done: int) -> None:
        """Draw, if it is time."""
        now = time.monotonic()
        if now >= self._next_at:
            self._next_at = now + self._pause_seconds
            self._draw(done, now, "")

    def finish(self, done: int) -> None:
        """Draw for the last time."""
        if self._total is None:
            self._total = done
        self._draw(done, time.monotonic(), "\n")

    def _draw(self, done: int, now: float, end: str) -> None:
        line = self._line(done, now - self._started)
        with contextlib.suppress(OSError, ValueError):  # the stream is closed
            if self._is_terminal:
                self._stream.write("\r" + line.ljust(self._width) + end)
                self._width = len(line)
            else:
                self._stream.write(line + "\n")
            self._stream.flush()

    def _line(self, done: int, elapsed_seconds: float) -> str:
        rate = done / elapsed_seconds if elapsed_seconds > 0 else 0.0
        timing = f"{_clock(elapsed_seconds)} elapsed, {rate:,.0f} tasks/s"
        if self._total is None:
            return f"{done:,} tasks  {timing}"
        share = done / self._total if self._total else 1.0
        filled = int(share * BAR_WIDTH)
        left = f", {_clock((self._total - done) / rate)} left" if rate and done < self._total else ""
        return f"[{'#' * filled}{'.' * (BAR_WIDTH - filled)}] {done:,}/{self._total:,} {share:4.0%}  {timing}{left}"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
