"""Progress: measures how fast some tasks end, and has it shown from time to time.

Called by a map or by `scaler.progress`, in the thread of its caller. Must never draw more often than a person can read.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import TextIO

from scaler.client.progress.displays import Display, display_for
from scaler.client.progress.summary import Summary

REDRAW_SECONDS = 0.1
"""Whoever waits for tasks and shows their progress looks so often."""
PACE_SECONDS = 15.0
"""The rate is that of so many seconds: what was before says little about what is left."""
_POINTS = 16


class Progress:
    """Shows the progress of some tasks.

    Args:
        total: how many there are, or None if that is unknown.
        stream: where to show it, if no notebook is around.
        concern: returns what else there is to say: why nothing goes on, or how far the oldest task is; or nothing.
        display: shows it; None: what suits the stream.
    """

    def __init__(
        self,
        total: int | None,
        stream: TextIO,
        concern: Callable[[], str] = str,
        display: Display | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._total = total
        self._concern = concern
        self._clock = clock
        self._display = display_for(stream, total) if display is None else display
        self._started = clock()
        self._points: deque[tuple[float, int]] = deque([(self._started, 0)])
        """how many had ended when, of late"""
        self._next_at = self._started + self._display.pause_seconds

    def update(self, done: int, failed: int = 0) -> None:
        """Draw, if it is time."""
        now = self._clock()
        if now >= self._next_at:
            self._next_at = now + self._display.pause_seconds
            self._display.show(self._summary(done, failed, now, self._rate(now, done)))

    def finish(self, done: int, failed: int = 0) -> None:
        """Draw for the last time."""
        if self._total is None:
            self._total = done
        now = self._clock()
        self._display.end(self._summary(done, failed, now, done / max(now - self._started, 1e-6)))

    def _summary(self, done: int, failed: int, now: float, rate: float) -> Summary:
        return Summary(done, self._total, failed, now - self._started, rate, self._concern())

    def _rate(self, now: float, done: int) -> float:
        """Return how many end in a second, as of late."""
        points = self._points
        while len(points) > 1 and points[1][0] <= now - PACE_SECONDS:
            points.popleft()
        since, before = points[0]
        if now - points[-1][0] >= PACE_SECONDS / _POINTS:
            points.append((now, done))
        return (done - before) / (now - since)
