"""WakefulClock: a clock that stops while the process is stopped or starved.

Used by the loop of the scheduler, which reads the clock once per turn, so that all events of a turn have the same time.
A peer that is silent while the scheduler itself is paused (SIGSTOP, a migrated virtual machine, swapping) is not dead:
its messages wait in the sockets.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from math import inf

PAUSE_SECONDS = 1.0
"""A delay of up to this many seconds may be due to a busy machine. A longer one counts as a pause of the process."""
PAUSES_REMEMBERED = 16


class WakefulClock:
    """The seconds of another clock, without the pauses of this process.

    Args:
        clock: a function that returns the real time in monotonic seconds.
        update_seconds: the clock is read at least this often, also in a planned sleep, so that a longer pause is
            noticed.

    Attributes:
        now: the time of the last reading.
    """

    __slots__ = ("_awake_by", "_clock", "_paused_seconds", "_pauses", "_update_seconds", "now")

    def __init__(self, clock: Callable[[], float] = time.monotonic, update_seconds: float = inf) -> None:
        self._clock = clock
        self._update_seconds = update_seconds
        self._pauses: deque[tuple[float, float]] = deque(maxlen=PAUSES_REMEMBERED)
        """the start and the length of each of the latest pauses"""
        self._paused_seconds = 0.0
        self.now = clock()
        self._awake_by = self.now
        """the time by which the next reading follows, unless the process is paused"""

    def update(self) -> float:
        """Read the clock and return the time. If the reading is more than `PAUSE_SECONDS` late, the process was paused.

        If the process was paused during a planned sleep, the whole sleep counts as a pause: otherwise all deadlines
        within the sleep would expire at once, before the sockets are read.
        """
        now = self._clock() - self._paused_seconds
        if now - self._awake_by > PAUSE_SECONDS:
            self._paused_seconds += now - self.now
            self._pauses.append((self.now, now - self.now))
            now = self.now
        self.now = self._awake_by = now
        return now

    def sleep_until(self, deadline: float | None) -> None:
        """Note that the process sleeps from now until `deadline`; None: until a message or a signal arrives."""
        self._awake_by = (
            inf if deadline is None else max(self._awake_by, min(deadline, self.now + self._update_seconds))
        )

    def paused_since(self, since: float) -> float:
        """Return for how many seconds the process was paused since the time `since`."""
        return sum(seconds for at, seconds in self._pauses if at >= since)
