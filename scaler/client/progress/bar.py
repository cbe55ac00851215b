"""Progress: measures how fast tasks end, and displays the progress from time to time.

Called by a map or by `scaler.progress`, in the thread of its caller.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TextIO

from scaler.client.insight.task_log import read_progress
from scaler.client.link.requests import OnOutput
from scaler.client.progress.displays import Display, ProgressSummary, display_for
from scaler.errors import DisconnectedError
from scaler.wire.messages.client import OutputLine

REDRAW_SECONDS = 0.1
"""The interval at which a wait with a progress bar updates the bar."""
PACE_SECONDS = 15.0
"""The period over which the rate of ended tasks is measured. Earlier rates say little about the remaining time."""
_POINTS = 16
ASK_SECONDS = 1.0
"""The interval at which a bar requests the latest report of the oldest open task, which the next update shows."""


class Progress:
    """Shows the progress of a set of tasks.

    Args:
        total: the number of tasks, or None if it is unknown.
        stream: where to show the progress, outside of notebooks.
        concern: returns why no task progresses, or how far the oldest task is; empty if neither is known.
        display: shows the progress; by default the display that suits the stream.
        done: the number of tasks that had ended before this object was made; the rate does not count them.
    """

    def __init__(
        self,
        total: int | None,
        stream: TextIO,
        concern: Callable[[], str] = str,
        display: Display | None = None,
        clock: Callable[[], float] = time.monotonic,
        done: int = 0,
    ) -> None:
        self.total = total
        self._done_before = done
        self._concern = concern
        self._clock = clock
        self._display = display_for(stream, total) if display is None else display
        self._started = clock()
        self._points: deque[tuple[float, int]] = deque([(self._started, done)])
        """recent times, each with the number of tasks that had ended by then"""
        self._next_at = self._started + self._display.pause_seconds

    def update(self, done: int, failed: int = 0) -> None:
        """Show the numbers of ended and failed tasks, if it is time to redraw."""
        now = self._clock()
        if now >= self._next_at:
            self._next_at = now + self._display.pause_seconds
            self._display.show(self._summary(done, failed, now, self._rate(now, done)))

    def finish(self, done: int, failed: int = 0) -> None:
        """Show the final numbers of ended and failed tasks."""
        if self.total is None:
            self.total = done
        now = self._clock()
        rate = (done - self._done_before) / max(now - self._started, 1e-6)
        self._display.end(self._summary(done, failed, now, rate))

    def _summary(self, done: int, failed: int, now: float, rate: float) -> ProgressSummary:
        return ProgressSummary(done, self.total, failed, now - self._started, rate, self._concern())

    def _rate(self, now: float, done: int) -> float:
        """Return the number of tasks that ended per second in the last `PACE_SECONDS`."""
        points = self._points
        while len(points) > 1 and points[1][0] <= now - PACE_SECONDS:
            points.popleft()
        since, before = points[0]
        if now - points[-1][0] >= PACE_SECONDS / _POINTS:
            points.append((now, done))
        return (done - before) / (now - since)


class Reports:
    """Requests the latest report of a task from time to time: calls `ask` with a callback for the answer."""

    def __init__(self, ask: Callable[[OnOutput], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._ask = ask
        self._clock = clock
        self._next_at = clock() + ASK_SECONDS
        self._text = ""

    def text(self) -> str:
        """Return the latest known report as text; empty if no report is known."""
        now = self._clock()
        if now >= self._next_at:
            self._next_at = now + ASK_SECONDS
            with contextlib.suppress(DisconnectedError):
                self._ask(self._take)
        return self._text

    def _take(self, lines: Sequence[OutputLine], _dropped: int) -> None:
        progress = read_progress(lines)
        self._text = "" if progress is None else f"{lines[0].name}: {progress}"
