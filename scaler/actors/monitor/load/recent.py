"""RecentSeconds: the counters of the last minute, one entry per second, kept also while no viewer is connected."""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import NamedTuple

SECONDS_KEPT = 60
LAST_SECONDS = 5
"""The number of entries that decide whether the scheduler is busy or late."""
RATE_SECONDS_LEAST, RATE_ENDS_LEAST = 10.0, 10
"""The shortest time, and the fewest ended tasks, from which a rate is computed."""
BUSY_PERMILLE = 800
LATE_US = 50_000


class _Second(NamedTuple):
    at: float
    ended: int
    cpu_permille: int
    lag_us: int


class RecentSeconds:
    """The number of ended tasks, the processor time and the delay of the scheduler in each of the last seconds."""

    def __init__(self) -> None:
        self._seconds: deque[_Second] = deque(maxlen=SECONDS_KEPT + 1)
        self.last_end_us = 0
        """when the number of ended tasks last grew, in microseconds since 1970; 0 if it has not grown"""

    def add(self, now: float, time_us: int, ended: int, cpu_permille: int, lag_us: int) -> None:
        """Add the counters of a second; `ended` is the number of all tasks that have ended so far."""
        if self._seconds and ended > self._seconds[-1].ended:
            self.last_end_us = time_us
        self._seconds.append(_Second(now, ended, cpu_permille, lag_us))

    def per_second(self) -> float | None:
        """Return how many tasks have ended per second in the last minute, without idle time at its start.

        Return None if fewer than `RATE_ENDS_LEAST` tasks ended, or all within less than `RATE_SECONDS_LEAST` seconds.
        """
        seconds = self._seconds
        if not seconds:
            return None
        last = seconds[-1]
        before = [
            each for each, after in zip(seconds, islice(seconds, 1, None), strict=False) if after.ended > each.ended
        ]
        if not before:
            return None
        first = before[0]
        passed, ended = last.at - first.at, last.ended - first.ended
        return ended / passed if passed >= RATE_SECONDS_LEAST and ended >= RATE_ENDS_LEAST else None

    @property
    def is_busy(self) -> bool:
        """Whether the scheduler itself has used most of a core in each of the last seconds."""
        return self._last_are("cpu_permille", BUSY_PERMILLE)

    @property
    def is_late(self) -> bool:
        """Whether the event loop of the scheduler was late in each of the last seconds."""
        return self._last_are("lag_us", LATE_US)

    def _last_are(self, name: str, least: int) -> bool:
        last = list(islice(reversed(self._seconds), LAST_SECONDS))
        return len(last) == LAST_SECONDS and all(getattr(each, name) >= least for each in last)
