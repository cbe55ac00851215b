"""Allowance: how many lines of text may pass: so many in a second, and some more after a silence.

When none are left it stays closed until a part of them is there again, so that what passes is in pieces that can be
read. Used by whoever hands on what tasks write. Must never: wait.
"""

from __future__ import annotations

from collections.abc import Callable

CHARACTERS_PER_LINE = 256
"""A line of more characters counts for several."""
OPENING_PART = 0.1
"""So much of a burst must be there before it opens again."""


class Allowance:
    """A number of lines that grows with time.

    Args:
        lines_per_second: how fast it grows.
        burst_seconds: after so many seconds of silence it grows no more.
        clock: returns the time in seconds.
    """

    def __init__(self, lines_per_second: float, burst_seconds: float, clock: Callable[[], float]) -> None:
        self._rate = lines_per_second
        self._clock = clock
        self._left = self._most = lines_per_second * burst_seconds
        self._at = 0.0
        self._least = 0.0
        """so many must be there before any passes"""

    def take(self, characters: int) -> bool:
        """Return whether a line of so many characters may pass. It is counted if it may."""
        now = self._clock()
        self._left = min(self._most, self._left + (now - self._at) * self._rate)
        self._at = now
        cost = max(1.0, characters / CHARACTERS_PER_LINE)
        if self._left < max(cost, self._least):
            self._least = self._most * OPENING_PART
            return False
        self._left -= cost
        self._least = 0.0
        return True
