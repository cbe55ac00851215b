"""Sizes: reads and writes numbers of bytes as users write them, such as `500G`.

Used by the settings of all processes, the amounts of capabilities, the option `memory` of tasks, and the quotas of
owners. K, M, G and T are powers of 1024.
"""

from __future__ import annotations

import re

from scaler.texts import shown

WITH_UNIT = "a number with K, M, G or T (powers of 1024) such as 64G or 1.5T"
"""The sizes that are more than a number, for errors."""

_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_SIZE = re.compile(r"(\d{1,19})(?:\.(\d{1,9}))? ?(?:([KMGT])(?:i?B)?|B?)", re.ASCII | re.IGNORECASE)


def read_size(text: str) -> int:
    """Return the number that a text such as `4096`, `500G`, `500 GiB` or `1.5T` stands for, rounded down.

    Raises:
        ValueError: if the text is anything else.
    """
    found = _SIZE.fullmatch(text.strip())
    whole, fraction, letter = ("", "", "") if found is None else found.groups("")
    if not whole or (fraction and not letter):
        raise ValueError(f"a size is a whole number, or {WITH_UNIT}, not {shown(text)}")
    scale = int(10 ** len(fraction))
    return int(whole + fraction) * _UNITS[letter.upper()] // scale


def size_text(size: int) -> str:
    """Return a number as `read_size` reads it: with the largest unit that divides it."""
    units = [(each, letter) for letter, each in _UNITS.items() if size and size % each == 0]
    unit, letter = max(units, default=(1, ""))
    return f"{size // unit}{letter}"
