"""Ages: the durations for which a job is kept, as users write them: `3600`, "90s", "12h", "30d", "1y", "ever"."""

from __future__ import annotations

import re

from scaler.config import ConfigError, check_number, plain_number
from scaler.texts import shown

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0, "y": 365 * 86400.0}
EVER = "ever"

AGE_SECONDS_MOST = 2.0**40
"""The age in seconds that stands for "ever", and for all longer ages, such as infinity."""
_TEXT = re.compile(r"(\d+(?:\.\d+)?) ?([smhdwy]?)")


def seconds_of(name: str, value: object) -> float | None:
    """Return an age in seconds; None if no age is given. Raises `ConfigError` if the argument `name` is bad."""
    if value is None:
        return None
    if not isinstance(value, bool) and isinstance(plain_number(value), (int, float)):
        return min(float(check_number(name, value, 0)), AGE_SECONDS_MOST)
    text = value.strip() if isinstance(value, str) else ""
    if text == EVER:
        return AGE_SECONDS_MOST
    found = _TEXT.fullmatch(text)
    if found is None:
        took = shown(value)
        raise ConfigError(f'{name} must be seconds, or a text such as "12h", "30d", "1y" or "ever", not {took}')
    return min(float(found[1]) * _UNITS[found[2]], AGE_SECONDS_MOST)
