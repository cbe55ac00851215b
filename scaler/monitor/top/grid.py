"""A grid of cells: the content of a frame, and how it differs from the previous frame."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from scaler.monitor.top.text import cells, safe

PLAIN = ""
BOLD, REVERSE, DIM = "bold", "reverse", "dim"
RUNNING, SUCCESS, FAILED, CANCELED = "yellow", "green", "red", "magenta"
"""The styles of states. A style consists of names of attributes and colours of a terminal, joined by `_`."""

_GAP = 4
"""Two changes in one row are written together if at most this many unchanged cells lie between them."""


@dataclass(frozen=True, slots=True)
class Run:
    """Neighbouring cells of one row and one style."""

    x: int
    y: int
    text: str
    style: str


class Grid:
    """A frame of the given size, initially blank."""

    def __init__(self, width: int, height: int) -> None:
        self.width = width
        self.height = height
        self._rows = [[(" ", PLAIN)] * width for _ in range(height)]

    def put(self, x: int, y: int, text: str, style: str = PLAIN, most: int | None = None) -> int:
        """Write a text, cut at the edge of the grid or after `most` cells. Return the column after the text."""
        end = self.width if most is None else min(self.width, x + most)
        if not 0 <= y < self.height:
            return x
        row = self._rows[y]
        for cell, width in cells(safe(text)):
            if x + width > end:
                break
            row[x] = (cell, style)
            if width == 2:
                row[x + 1] = ("", style)
            x += width
        return x

    def fill(self, y: int, style: str) -> None:
        """Change the style of a row."""
        self.fill_part(y, 0, self.width, style)

    def fill_part(self, y: int, x: int, end: int, style: str) -> None:
        """Change the style of a part of a row."""
        row = self._rows[y]
        for index in range(x, min(end, self.width)):
            row[index] = (row[index][0], style)

    def paste(self, x: int, y: int, part: Grid) -> None:
        """Copy the grid `part` into this grid."""
        for number, row in enumerate(part._rows):
            if y + number < self.height:
                self._rows[y + number][x : x + part.width] = row[: self.width - x]

    def lines(self) -> list[str]:
        """Return the rows as plain text, without trailing blanks."""
        return ["".join(cell for cell, _ in row).rstrip() for row in self._rows]

    def changes(self, before: Grid | None) -> Iterator[Run]:
        """Yield the runs of cells that differ from `before`, the grid on the screen; None: the screen is empty."""
        blank = [(" ", PLAIN)] * self.width
        for y, row in enumerate(self._rows):
            old = before._rows[y] if before is not None else blank  # noqa: SLF001 - another grid
            if row != old:
                yield from _row_changes(y, row, old)


def _row_changes(y: int, row: list[tuple[str, str]], old: list[tuple[str, str]]) -> Iterator[Run]:
    changed = [index for index, (new, was) in enumerate(zip(row, old, strict=True)) if new != was]
    spans: list[list[int]] = []
    for index in changed:
        first = index - 1 if row[index][0] == "" else index  # the second half of a wide character
        if spans and first <= spans[-1][1] + _GAP:
            spans[-1][1] = index + 1
        else:
            spans.append([first, index + 1])
    for first, end in spans:
        last = end + 1 if end < len(row) and row[end][0] == "" else end
        yield from _runs(y, row, first, last)


def _runs(y: int, row: list[tuple[str, str]], first: int, end: int) -> Iterator[Run]:
    start = first
    for index in range(first + 1, end + 1):
        if index == end or row[index][1] != row[start][1]:
            yield Run(start, y, "".join(cell for cell, _ in row[start:index]), row[start][1])
            start = index
