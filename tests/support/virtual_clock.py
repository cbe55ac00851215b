"""VirtualClock: a clock for tests, which advance it: a whole scheduler runs without a sleep."""

from __future__ import annotations


class VirtualClock:
    """A clock that moves only when it is advanced.

    >>> clock = VirtualClock()
    >>> clock.advance(2.5)
    >>> clock()
    2.5
    """

    def __init__(self, start_seconds: float = 0.0) -> None:
        self._now = start_seconds

    def __call__(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        """Move time forward. Raises `ValueError` if `seconds` is negative; time never runs backwards."""
        if seconds < 0:
            raise ValueError(f"time cannot run backwards: {seconds} s")
        self._now += seconds
