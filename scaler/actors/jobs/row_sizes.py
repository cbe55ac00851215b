"""RowSizes: which rows of a job travel as one task, a range.

Used by the job. The rules are those of the maps of clients: while nothing is known of a row it travels alone, then as
many together as take some milliseconds. Must never: put rows together whose ids do not follow one another.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from scaler.jobs.values import Row
from scaler.wire.messages.rows import RANGE_BYTES, rows_together


class RowSizes:
    """How long rows take, and what follows from it.

    Args:
        most: so many rows may travel together; 1: none do.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._mean_us: float | None = None

    def learn(self, rows: int, total_us: int) -> None:
        """So many rows have taken so long. The mean rises fast, and falls slowly."""
        mean_us, known = total_us / rows, self._mean_us
        self._mean_us = mean_us if known is None or mean_us > known else (3 * known + mean_us) / 4

    def size(self, n_open: int) -> int:
        """Return how many rows are to travel together now, of so many that are open."""
        if self._most <= 1 or self._mean_us is None:
            return 1
        return rows_together(self._most, self._mean_us, n_open)


def grouped(taken: Sequence[tuple[int, Row]], size: int) -> Iterator[list[tuple[int, Row]]]:
    """Go through rows in groups of at most so many that may travel together."""
    group: list[tuple[int, Row]] = []
    n_bytes = 0
    for row, arguments in taken:
        is_alone = bool(arguments.object_ids or arguments.frames)
        if group and (is_alone or len(group) >= size or n_bytes > RANGE_BYTES or row != group[-1][0] + 1):
            yield group
            group, n_bytes = [], 0
        group.append((row, arguments))
        n_bytes += len(arguments.payload)
        if is_alone:
            yield group
            group, n_bytes = [], 0
    if group:
        yield group
