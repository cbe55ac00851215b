"""RowSizes: how many rows of a job travel as one task, a range, and how the results of a range are stored.

Used by the job. Like in maps, a row of unknown duration travels alone, and later rows travel in ranges of some
milliseconds.
"""

from __future__ import annotations

from scaler.ids import index_of
from scaler.jobs.record import RowResult
from scaler.wire.messages.client import TaskResult
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.rows import pack, results_of, rows_together


class RowSizes:
    """Measures how long rows take, to choose the size of ranges.

    Args:
        most: the most rows in a range; 1: rows travel alone.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._mean_us: float | None = None

    def learn(self, rows: int, total_us: int) -> None:
        """Update the mean duration: `rows` rows took `total_us`. The mean rises fast, and falls slowly."""
        mean_us, known = total_us / rows, self._mean_us
        self._mean_us = mean_us if known is None or mean_us > known else (3 * known + mean_us) / 4

    @property
    def is_known(self) -> bool:
        """Whether any row has ended, so that the mean duration is known."""
        return self._mean_us is not None

    def size(self, n_open: int) -> int:
        """Return how many of the open rows are to travel together now."""
        if self._most <= 1 or self._mean_us is None:
            return 1
        return rows_together(self._most, self._mean_us, n_open)


def pieces_of(result: TaskResult) -> list[RowResult]:
    """Return how the rows of a range have ended: consecutive done rows together, each failed row alone."""
    first = index_of(result.task_id)
    if result.rows > 1 and result.status == TaskStatus.SUCCESS and not any(result.statuses):
        return [RowResult(first, TaskStatus.SUCCESS, (result.payload,), result.rows, result.duration_us)]
    pieces: list[RowResult] = []
    succeeded: list[TaskResult] = []
    for row, each in enumerate(results_of(result), first):
        if each.status == TaskStatus.SUCCESS:
            succeeded.append(each)
            continue
        pieces += _together(row, succeeded)
        pieces.append(RowResult(row, each.status, (each.payload,), 1, each.duration_us))
        succeeded = []
    return [*pieces, *_together(first + (result.rows or 1), succeeded)]


def _together(end: int, succeeded: list[TaskResult]) -> list[RowResult]:
    blocks, n_rows = [each.payload for each in succeeded], len(succeeded)
    frames = (pack(blocks),) if n_rows > 1 else tuple(blocks)
    duration_us = sum(each.duration_us for each in succeeded)
    return [RowResult(end - n_rows, TaskStatus.SUCCESS, frames, n_rows, duration_us)] if succeeded else []
