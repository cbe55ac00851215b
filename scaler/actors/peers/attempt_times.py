"""AttemptTimes: roughly when an attempt got its number, so that a task which waits can say for how long.

Client sessions mark the time with each heartbeat of their client, by one number that no attempt gets; a task looks it
up when somebody asks about it. Must never: cost a task anything that nobody asks about.
"""

from __future__ import annotations

from collections.abc import Callable

from scaler.ids import is_later

MARK_SECONDS = 1.0
"""The shortest time between two marks."""
MARKS_MOST = 1024
"""When there are so many, those that are close together for their age are forgotten."""
PRECISION = 0.02
"""The distance between two old marks, as a share of their age."""


class AttemptTimes:
    """The marks of one scheduler: a number, and when it was given."""

    def __init__(self) -> None:
        self._marks: list[tuple[int, float]] = []

    def mark(self, next_attempt: Callable[[], int], now: float) -> None:
        """Attempts from now on are later than this."""
        marks = self._marks
        if marks and now - marks[-1][1] < MARK_SECONDS:
            return
        marks.append((next_attempt(), now))
        if len(marks) >= MARKS_MOST:
            self._thin_out(now)

    def _thin_out(self, now: float) -> None:
        kept: list[tuple[int, float]] = []
        for mark in self._marks:
            if not kept or mark[1] - kept[-1][1] >= PRECISION * (now - mark[1]):
                kept.append(mark)
        self._marks = kept

    def seconds_since(self, attempt: int, now: float) -> float:
        """Return for how long at least an attempt has had its number; 0: since the last mark."""
        after = next((at for number, at in self._marks if is_later(number, attempt)), now)
        return now - after
