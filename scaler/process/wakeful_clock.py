"""WakefulClock: the time that a process was awake. It stands still while the process is stopped or starved.

Used by the loop of the scheduler, which looks at it once a turn: what happens in one turn happens at one time. A peer
that is silent while the scheduler itself is paused (SIGSTOP, a virtual machine that is moved, swapping) is not dead:
what it has said meanwhile waits in the sockets.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from math import inf

PAUSE_SECONDS = 1.0
"""Less than this late is a busy machine, and counts."""
PAUSES_REMEMBERED = 16


class WakefulClock:
    """Seconds, like those of the clock that it reads, less all pauses.

    Args:
        clock: the real time, monotonic.
        looks_seconds: it is looked at so often, whatever happens: a longer pause is noticed in any sleep that has an
            end.

    Attributes:
        now: the time when it was last looked at.
    """

    __slots__ = ("_awake_by", "_clock", "_looks_seconds", "_paused_seconds", "_pauses", "now")

    def __init__(self, clock: Callable[[], float] = time.monotonic, looks_seconds: float = inf) -> None:
        self._clock = clock
        self._looks_seconds = looks_seconds
        self._pauses: deque[tuple[float, float]] = deque(maxlen=PAUSES_REMEMBERED)
        """when the last ones were, and how long"""
        self._paused_seconds = 0.0
        self.now = clock()
        self._awake_by = self.now
        """when it is looked at again at the latest, unless the process is paused"""

    def look(self) -> float:
        """Return the time. More than a second since the last look, other than in a planned sleep, was a pause.

        When the process was paused in a planned sleep, it is not known how much of it passed before: then none counts.
        Otherwise all deadlines up to its end would be over at once, before the sockets are read.
        """
        now = self._clock() - self._paused_seconds
        if now - self._awake_by > PAUSE_SECONDS:
            self._paused_seconds += now - self.now
            self._pauses.append((self.now, now - self.now))
            now = self.now
        self.now = self._awake_by = now
        return now

    def sleep_until(self, deadline: float | None) -> None:
        """The process sleeps from now until `deadline`; None: until something comes."""
        self._awake_by = inf if deadline is None else max(self._awake_by, min(deadline, self.now + self._looks_seconds))

    def paused_since(self, since: float) -> float:
        """Return for how many seconds the process was paused since this time."""
        return sum(seconds for at, seconds in self._pauses if at >= since)
