"""How long the open tasks will still take, from the durations of those of their functions that have ended."""

from __future__ import annotations

from collections.abc import Iterable

from scaler.monitor import shown
from scaler.wire.messages.monitor import StateFunction

_UNKNOWN_PART = 0.05
"""So few tasks of an unknown duration, for each other one, change no estimate of one digit."""


class Left:
    """How long the open tasks will take, as far as that can be said."""

    def __init__(self) -> None:
        self._last: float | None = None
        self.seconds: float | None = None
        """None while a duration is unknown or the estimate jumps."""

    def see(self, functions: Iterable[StateFunction], places: int) -> None:
        """Look at the functions of one moment, with as many workers."""
        work_us = known = unknown = 0
        for each in functions:
            count = each.waiting + each.running
            work_us += count * each.mean_us
            if each.mean_us:
                known += count
            else:
                unknown += count
        is_known = places > 0 and unknown <= known * _UNKNOWN_PART
        seconds = work_us / 1e6 / places if is_known else None
        last, self._last = self._last, seconds
        is_steady = seconds is not None and (last is None or last / 2 <= seconds <= last * 2 or seconds < 1)
        self.seconds = seconds if is_steady and work_us else None

    @property
    def text(self) -> str:
        """`~2 min`, or nothing."""
        return "" if self.seconds is None else shown.about(self.seconds)
