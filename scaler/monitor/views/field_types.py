"""Field types: how values of one kind are shown as text, written to CSV and metrics, and sorted.

Values are in base units: seconds, bytes, cores, seconds since 1970. They are numbers and texts, as JSON has them; None
stands for an unknown value.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from scaler.monitor import units

BAR_CELLS = 10
"""The usual width of a bar in a terminal, in cells."""


@dataclass(frozen=True)
class FieldType:
    """A kind of values."""

    name: str
    show: Callable[[Any, int], str]
    """returns the text of a known value for a terminal, at most as wide as given if that is possible"""
    is_number: bool = True
    """whether texts are aligned on the right, and large values come first"""
    unit: str = ""
    """the unit, as at the end of the names of metrics"""
    meaning: str = ""
    """what a value is, for the documentation"""

    def text(self, value: Any, width: int = 99) -> str:
        """Return the text of a value for a terminal; an unknown value is `-`."""
        return units.UNKNOWN if value is None else self.show(value, width)

    def csv(self, value: Any) -> str:
        """Return a value as CSV has it; an unknown value is empty, and a clock is an ISO 8601 time in UTC."""
        if value is None:
            return ""
        if self.is_clock:
            return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(value))
        return str(value)

    @property
    def is_clock(self) -> bool:
        """Whether values are points in time."""
        return self.name == "clock"


_DAY_WIDTH = 14


def _clock(seconds: float, width: int) -> str:
    show = units.day_and_clock if width >= _DAY_WIDTH else units.clock
    return show(round(seconds * 1e6))


def _bar(share: float, width: int) -> str:
    cells = min(width, BAR_CELLS)
    return "#" * round(max(0.0, min(1.0, share)) * cells) + (f" {share:.0%}" if width > BAR_CELLS else "")


def _as_text(value: Any, _width: int) -> str:
    return str(value)


COUNT = FieldType("count", units.count, meaning="a number")
SECONDS = FieldType("seconds", lambda value, _: units.duration(value * 1e6), unit="seconds", meaning="seconds")
BYTES = FieldType("bytes", lambda value, _: units.size(value), unit="bytes", meaning="bytes")
SHARE = FieldType("share", lambda value, width: units.share(value * 1e3, width), unit="cores", meaning="cores")
CLOCK = FieldType("clock", _clock, unit="timestamp_seconds", meaning="seconds since 1970")
BAR = FieldType("bar", _bar, False, "ratio", "a fraction from 0 to 1")
NAME = FieldType("name", _as_text, False, meaning="a name")
STATE = FieldType("state", _as_text, False, meaning="a state in a word")
WAIT = FieldType("wait", _as_text, False, meaning="what tasks wait for")
TEXT = FieldType("text", _as_text, False, meaning="a text")
PID = FieldType("pid", _as_text, meaning="a process id")
TYPES = (COUNT, PID, SECONDS, BYTES, SHARE, CLOCK, BAR, NAME, STATE, WAIT, TEXT)
