"""Allowance: a token bucket that limits how many lines of text pass per second, with a burst after a silence.

Once the bucket is empty, no line passes until a tenth of a burst is available, so that several lines pass in a row.
Used by all modules that forward the output of tasks.
"""

from __future__ import annotations

from collections.abc import Callable

CHARACTERS_PER_LINE = 256
"""The number of characters that count as one line; a longer line counts for several lines."""
OPENING_PART = 0.1
"""The part of a full burst, from 0 to 1, that must be available before lines pass again."""


class Allowance:
    """A number of lines that may pass now. The number grows with time, and each passing line reduces it.

    Args:
        burst_seconds: the seconds of silence after which the number stops growing.
    """

    def __init__(self, lines_per_second: float, burst_seconds: float, clock: Callable[[], float]) -> None:
        self._rate = lines_per_second
        self._clock = clock
        self._available = self._capacity = lines_per_second * burst_seconds
        self._updated_at = 0.0
        self._required = 0.0

    def take(self, characters: int) -> bool:
        """Return whether a line of this many characters may pass. If so, subtract the line from the number of lines."""
        now = self._clock()
        self._available = min(self._capacity, self._available + (now - self._updated_at) * self._rate)
        self._updated_at = now
        if self._available < max(_cost(characters), self._required):
            self._required = self._capacity * OPENING_PART
            return False
        self._required = 0.0
        self.charge(characters)
        return True

    def charge(self, characters: int) -> None:
        """Subtract a line that passes in any case. Later lines pass correspondingly later, at most by a burst."""
        self._available = max(self._available - _cost(characters), -self._capacity)


def _cost(characters: int) -> float:
    return max(1.0, characters / CHARACTERS_PER_LINE)
