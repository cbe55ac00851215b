"""Texts for logs, terminals and error messages: those of other processes made harmless, and numbers of things."""

from __future__ import annotations

import re
from collections.abc import Iterable
from reprlib import Repr

NAME_CHARACTERS = 256
"""Longer names are cut where they arrive."""
CUT = "..."
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
