"""Allowance: a token bucket that limits how many lines of text pass per second, with a burst after a silence.

When it is empty, it stays closed until a tenth of a burst is available again, so that lines pass in readable pieces.
Used by all that forwards the output of tasks.
"""

from __future__ import annotations

from collections.abc import Callable

CHARACTERS_PER_LINE = 256
"""A line of more characters counts for several."""
OPENING_PART = 0.1
"""The part of a full burst that must be available before it opens again."""


class Allowance:
    """A number of lines that grows with time.

    Args:
        lines_per_second: how fast it grows.
        burst_seconds: the seconds of silence after which it stops growing.
        clock: returns the time in seconds.
    """

    def __init__(self, lines_per_second: float, burst_seconds: float, clock: Callable[[], float]) -> None:
        self._rate = lines_per_second
        self._clock = clock
        self._left = self._most = lines_per_second * burst_seconds
        self._at = 0.0
        self._least = 0.0
        """the number of lines that must be available before any line passes"""

    def take(self, characters: int) -> bool:
        """Return whether a line of this length may pass, and count it if so."""
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
