"""Units: counts, bytes, durations and shares as text. Long numbers are rounded, never cut; an unknown value is `-`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import lru_cache

from scaler.wire.messages import vocabulary

UNKNOWN = "-"
_WAITS_FOR: dict[str, str] = {
    vocabulary.NO_WORKER: "any worker",
    vocabulary.NOT_ABLE: "a fit worker",
    vocabulary.NO_ROOM: "a free worker",
    vocabulary.TURN: "its turn",
    vocabulary.INPUTS: "other tasks",
}
"""what unassigned tasks wait for, by reason"""
_THOUSANDS = ("", "k", "M", "G", "T", "P")
_BYTES = ("b", "k", "m", "g", "t", "p")


def count(number: float | None, width: int = 99) -> str:
    """Return a count as `9,120,377`, or as `9.1M` if that is too wide. Four-digit numbers first lose their comma."""
    if number is None:
        return UNKNOWN
    for text in (f"{number:,.0f}", f"{number:.0f}" if number < 10_000 else ""):
        if text and len(text) <= width:
            return text
    return _scaled(number, 1000, _THOUSANDS, 999_950, width)


def waits_for(reason: str, asks: str) -> str:
    """Return what tasks wait for, in a few words: `a free worker`, or `gpu=1` if the tasks request this."""
    if asks and reason == vocabulary.NOT_ABLE:
        return f"{asks}: no worker"
    return asks if asks and reason in (vocabulary.TAKEN, vocabulary.NO_ROOM) else _WAITS_FOR.get(reason, reason)


def size(number: float | None, width: int = 6) -> str:
    """Return a number of bytes as `412.0m`; k, m, g and t are powers of 1024."""
    if number is None:
        return UNKNOWN
    return _scaled(number, 1024, _BYTES, 1023.95, width)


def _scaled(number: float, step: int, units: Sequence[str], most: float, width: int) -> str:
    index = 0
    while abs(number) >= min(most, step) and index < len(units) - 1:
        number /= step
        index += 1
        most = step - 0.05
    text = f"{number:.1f}{units[index]}" if index else f"{number:.0f}{units[index]}"
    return text if len(text) <= width else f"{number:.0f}{units[index]}"


def duration(microseconds: float | None) -> str:
    """Return a duration as `0.7ms`, `41ms`, `1.2s`, `12s`, `3m` or `2.5h`."""
    if microseconds is None:
        return UNKNOWN
    if microseconds < 100:
        return f"{microseconds:.0f}us"
    for limit, divisor, unit in ((999_500, 1e3, "ms"), (119.5e6, 1e6, "s"), (119.5 * 60e6, 60e6, "m")):
        if microseconds < limit:
            return _short(microseconds / divisor, unit)
    return _short(microseconds / 3600e6, "h")


def _short(number: float, unit: str) -> str:
    return f"{number:.1f}{unit}" if number < 9.95 else f"{number:.0f}{unit}"


def share(permille: float | None, width: int = 99) -> str:
    """Return CPU time in permille of a core as `99.9%`, or as `100%` if the first form is wider than `width`."""
    if permille is None:
        return UNKNOWN
    text = f"{permille / 10:.1f}%"
    return text if len(text) <= width else f"{permille / 10:.0f}%"


def rate(per_second: float | None, width: int = 9) -> str:
    """Return a number per second as `385` or `9.2`."""
    if per_second is None:
        return UNKNOWN
    return f"{per_second:.1f}" if 0 < per_second < 9.95 else count(per_second, width)


def about(seconds: float) -> str:
    """Return an estimated time with one digit, as `~2 min`."""
    for limit, divisor, unit in (
        (55, 1, "s"),
        (55 * 60, 60, "min"),
        (36 * 3600, 3600, "h"),
        (float("inf"), 86400, "d"),
    ):
        if seconds < limit:
            return f"~{_one_digit(seconds / divisor)} {unit}"
    raise AssertionError  # the last limit is infinite


def _one_digit(number: float) -> str:
    rounded = float(f"{max(number, 1):.0e}")
    return f"{rounded:,.0f}"


def ago(seconds: float) -> str:
    """Return the time since an event, in at most four characters."""
    for limit, divisor, unit in ((1, 1, ""), (120, 1, "s"), (7200, 60, "m"), (172800, 3600, "h")):
        if seconds < limit:
            return f"{int(seconds / divisor)}{unit}" if unit else "now"
    return f"{int(seconds / 86400)}d"


def clock(microseconds: int) -> str:
    """Return microseconds since 1970 as the local time of day: `12:41:07`."""
    return time.strftime("%H:%M:%S", time.localtime(microseconds / 1e6)) if microseconds else UNKNOWN


def day_and_clock(microseconds: int) -> str:
    """Return microseconds since 1970 as the local day and time: `11-22 12:41:07`."""
    return time.strftime("%m-%d %H:%M:%S", time.localtime(microseconds / 1e6)) if microseconds else UNKNOWN


@lru_cache(maxsize=10_000)
def natural(name: str) -> tuple[tuple[int, str], ...]:
    """Return the key that sorts names as people do: `w2` before `w10`."""
    parts: list[tuple[int, str]] = []
    digits = ""
    for character in name:
        if character.isdecimal():
            digits += character
            continue
        parts.append((int(digits) if digits else -1, character))
        digits = ""
    return (*parts, (int(digits) if digits else -1, ""))
