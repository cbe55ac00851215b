"""Texts for logs, terminals and error messages: those of other processes made harmless, and numbers of things."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from math import isfinite
from reprlib import Repr
from typing import Any

NAME_CHARACTERS = 256
"""Longer names are cut where they arrive."""
CUT = "..."
JSON_BYTES, JSON_DEPTH = 1024 * 1024, 16
"""The largest JSON of another process that is read, and how deeply it may nest."""
_DIGITS_MOST = len(str(-(2**63)))
_SHORT = Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 80
_NUMBERS = re.compile(r"0x[0-9a-fA-F]+|(?<!exit code )(?<!\d)\d+")


def printable(text: str, most_characters: int) -> str:
    """Return a text for one line: what is not printable is escaped, and what is too long is cut off."""
    if len(text) <= most_characters and text.isprintable():
        return text
    shown = escaped(text[: most_characters + 1])
    return shown if len(shown) <= most_characters else shown[: most_characters - len(CUT)] + CUT


def escaped(text: str, but: str = "") -> str:
    """Return a text with escape sequences for the characters that are neither printable nor one of `but`."""
    return "".join(
        character
        if character.isprintable() or character in but
        else character.encode("unicode_escape", "backslashreplace").decode()
        for character in text
    )


def read_json(text: str | bytes) -> Any:
    """Return the value of a JSON text from another process: shallow, with finite numbers of 64 bits and valid Unicode.

    Raises:
        ValueError: if it is anything else, or longer than `JSON_BYTES`.
    """
    if len(text) > JSON_BYTES:
        raise ValueError(f"the JSON has {len(text):,} characters, and may have {JSON_BYTES:,}")
    text = text.decode() if isinstance(text, bytes) else text
    try:
        value = json.loads(text, parse_int=_whole_number, parse_float=_finite_number, parse_constant=_finite_number)
    except RecursionError:
        raise ValueError(f"the JSON nests more than {JSON_DEPTH} levels deep") from None
    level = [value]
    for _ in range(JSON_DEPTH + 1):
        for each in level:
            if isinstance(each, str):
                each.encode()  # a lone surrogate, which an escape sequence can make, cannot be sent or printed
        containers = [each for each in level if isinstance(each, (dict, list))]
        if not containers:
            return value
        level = [inner for each in containers for inner in each]  # of an object the keys
        level += [inner for each in containers if isinstance(each, dict) for inner in each.values()]
    raise ValueError(f"the JSON nests more than {JSON_DEPTH} levels deep")


def _whole_number(digits: str) -> int:
    number = int(digits) if len(digits) <= _DIGITS_MOST else 2**64
    if not -(2**63) <= number < 2**63:
        raise ValueError("the JSON has an integer of more than 64 bits")
    return number


def _finite_number(digits: str) -> float:
    number = float(digits)
    if not isfinite(number):
        raise ValueError(f"the JSON has the number {shown(digits)}, which is not finite")
    return number


def shown(value: object) -> str:
    """Return the `repr` of a user's value, shortened, for an error about it."""
    return _SHORT.repr(value)


def signature(message: str, worker: str = "") -> str:
    """Return what error messages of one kind have in common: all but their numbers and the worker. Exit codes stay."""
    return _NUMBERS.sub("#", message.replace(worker, "#") if worker else message)


def counted(number: int, noun: str) -> str:
    """Return so many of something: `1 task`, `2,000 tasks`."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def did_you_mean(name: str, known: Iterable[str], least: float = 0.6, text: str = "; did you mean {!r}?") -> str:
    """Return the end of a sentence about an unknown name: the known one that is most similar; empty if none is.

    Args:
        least: how similar it must be, from 0 to 1.
        text: with a place for it.
    """
    import difflib  # noqa: PLC0415 - for an error only

    names = difflib.get_close_matches(name, list(known), 1, least)
    return text.format(names[0]) if names else ""
