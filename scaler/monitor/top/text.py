"""Text in a terminal: made safe, measured in cells, cut with a `+`.

Names come from other processes: control characters and changes of the writing direction are replaced by `?`.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence

from wcwidth import wcwidth

CUT = "+"
_TURNS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def safe(text: str) -> str:
    """Return a text in which characters that would not stay in their cells are replaced by `?`."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_safe(character) for character in unicodedata.normalize("NFC", text))


def _safe(character: str) -> str:
    if character in _TURNS or unicodedata.category(character) in _HIDDEN:
        return "?"
    return character if wcwidth(character) >= 0 else "?"


def cells(text: str) -> Iterator[tuple[str, int]]:
    """Yield each character with its width of 1 or 2 cells. A combining mark is joined to the character before it."""
    held, width = "", 0
    for character in text:
        own = max(0, wcwidth(character))
        if own == 0 and held:
            held += character
            continue
        if held:
            yield held, width
        held, width = (character, own) if own else (" " + character, 1)
    if held:
        yield held, width


def width_of(text: str) -> int:
    """Return the width of a safe text in cells."""
    return len(text) if text.isascii() else sum(width for _, width in cells(text))


def _first(text: str, width: int) -> str:
    """Return the longest prefix of at most `width` cells, without half of a wide character."""
    kept, used = [], 0
    for cell, own in cells(text):
        if used + own > width:
            break
        kept.append(cell)
        used += own
    return "".join(kept)


def _last(text: str, width: int) -> str:
    kept: list[str] = []
    used = 0
    for cell, own in reversed(list(cells(text))):
        if used + own > width:
            break
        kept.insert(0, cell)
        used += own
    return "".join(kept)


def cut(text: str, width: int, mark: str = CUT) -> str:
    """Return a text of at most `width` cells. A longer text is shortened, and ends in `mark`."""
    text = safe(text)
    if width_of(text) <= width:
        return text
    return _first(text, width - 1) + mark if width > 0 else ""


def fit(text: str, width: int, right: bool = False, mark: str = CUT) -> str:
    """Return a text of exactly `width` cells: cut, or filled with blanks."""
    text = cut(text, width, mark)
    blanks = " " * (width - width_of(text))
    return blanks + text if right else text + blanks


def wrapped(text: str, width: int) -> list[str]:
    """Split a text into parts of at most `width` cells. Return at least one part."""
    text = safe(text)
    parts = []
    while width_of(text) > width > 1:
        part = _first(text, width)
        parts.append(part)
        text = text[len(part) :]
    return [*parts, text]


def cut_apart(names: Sequence[str], width: int) -> list[str]:
    """Cut names on the right. Different names that would then look alike are cut on the left instead."""
    shown = [cut(name, width) for name in names]
    seen = Counter(zip(shown, names, strict=True))
    alike = Counter(text for text, _ in seen)
    return [
        CUT + _last(safe(name), width - 1) if alike[text] > 1 and text != safe(name) and width > 1 else text
        for text, name in zip(shown, names, strict=True)
    ]
