"""OpenRanges: which open tasks of a client are ranges, and how they are split into single tasks.

Used by the open work, with its table of tasks and its window. A range ends with one result, unless the scheduler splits
it. The client learns of a split from the first result that covers fewer rows than the range; then each row becomes a
task here, too. When rows are resubmitted to another scheduler, each row is a task of its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from scaler.client.calls.entry import Entry
from scaler.client.link.window import Window
from scaler.ids import PREFIX_BYTES, TaskId
from scaler.pickling.serialization import Buffer, size_of
from scaler.wire.messages.client import TaskResult
from scaler.wire.messages.rows import RANGE_BYTES, RowsError, calls_of, results_of, row_ids


class OpenRanges:
    """The ranges among the open tasks, and the number of rows of each range. `window` counts the rows of sent tasks."""

    def __init__(self, tasks: dict[TaskId, Entry], window: Window) -> None:
        self._tasks = tasks
        self._window = window
        self._by_map: dict[bytes, dict[TaskId, int]] = {}
        """prefix of the ids of a map -> id of a range of that map -> number of rows in the range"""

    def __bool__(self) -> bool:
        return bool(self._by_map)

    @property
    def further_rows(self) -> int:
        """The number of rows of all ranges, without the first row of each range."""
        return sum(sum(ranges.values()) - len(ranges) for ranges in self._by_map.values())

    def add(self, task_id: TaskId, rows: int) -> None:
        """Add a range that is about to be submitted."""
        self._by_map.setdefault(task_id[:PREFIX_BYTES], {})[task_id] = rows
        self._window.weigh(task_id, rows)

    def restore_weights(self) -> None:
        """Register the number of rows of each range with the window again, after the window was cleared."""
        for ranges in self._by_map.values():
            for task_id, rows in ranges.items():
                self._window.weigh(task_id, rows)

    def forget(self, task_id: TaskId) -> int:
        """Remove a task that has ended. Return the number of its rows; 0 if the task is not a range."""
        ranges = self._by_map.get(task_id[:PREFIX_BYTES])
        if ranges is None:
            return 0
        rows = ranges.pop(task_id, 0)
        if not ranges:
            del self._by_map[task_id[:PREFIX_BYTES]]
        return rows

    def clear(self) -> None:
        """Remove all ranges."""
        self._by_map.clear()

    def match(self, results: Sequence[TaskResult]) -> Sequence[TaskResult]:
        """Split the ranges that the scheduler has split. Return the results of open tasks and of rows that are open."""
        if not (self._by_map or any(result.rows for result in results)):
            return results
        matched: list[TaskResult] = []
        ended: set[TaskId] = set()
        for result in results:
            entry = self._tasks.get(result.task_id)
            rows = 0 if entry is None else entry[0].rows
            if entry is not None and rows == result.rows:
                if rows:
                    self.forget(result.task_id)
                matched.append(result)
                continue
            if rows:
                self._split(result.task_id)
            elif entry is None and not result.rows:
                self._split_around(result.task_id)
            matched += self._open_rows_of(result, ended) if result.rows else (result,)
        return matched

    def _open_rows_of(self, result: TaskResult, ended: set[TaskId]) -> list[TaskResult]:
        """Split a result. Return the results of rows that are open and not in `ended`; add these rows to `ended`."""
        open_ids = {row for row in row_ids(result.task_id, result.rows) if row in self._tasks and row not in ended}
        ended |= open_ids
        return [each for each in _results_of(result) if each.task_id in open_ids] if open_ids else []

    def _split_around(self, task_id: TaskId) -> None:
        for first, rows in self._by_map.get(task_id[:PREFIX_BYTES], {}).items():
            if 0 <= int.from_bytes(task_id, "big") - int.from_bytes(first, "big") < rows:
                self._split(first)
                return

    def _split(self, task_id: TaskId) -> None:
        entry = self._tasks.pop(task_id)
        self.forget(task_id)
        rows = split_entry(entry)
        self._tasks.update((row[0].task_id, row) for row in rows)
        self._window.split(task_id, [row[0].task_id for row in rows])

    def split_all(self, longer_than: int = 0) -> None:
        """Split all ranges of more than `longer_than` rows."""
        for ranges in list(self._by_map.values()):
            for task_id, rows in list(ranges.items()):
                if rows > longer_than:
                    self._split(task_id)


class TakenRows(NamedTuple):
    """Rows that are sent as one task: the block of arguments of each row, and the frames of all rows."""

    first: int
    blocks: list[bytes]
    frames: list[Buffer]
    """the frames of all rows, in their order; each row has the same number of frames"""


class DrawnRows:
    """Consecutive rows of a map that were read from the iterable and not sent yet; `first` is the number of the first
    one.

    A row of plain arguments is stored as its block, any other row as a whole task. One thread appends rows, and another
    thread takes them.
    """

    __slots__ = ("first", "rows")

    def __init__(self, first: int) -> None:
        self.first = first
        self.rows: deque[bytes | Entry] = deque()

    def take(self, most: int) -> TakenRows | Entry:
        """Take up to `most` rows for one task. If the first row must be a task of its own, take only that row."""
        first, rows = self.first, self.rows
        blocks: list[bytes] = []
        frames: list[Buffer] = []
        n_bytes = 0
        for _ in range(min(most, len(rows))):
            row = rows.popleft()
            if isinstance(row, bytes) and not frames:
                blocks.append(row)
                n_bytes += len(row)
            elif not isinstance(row, bytes) and _has_same_frame_count(row, len(blocks), frames):
                blocks.append(row[0].payload)
                frames += row[0].frames
                n_bytes += len(row[0].payload) + size_of(row[0].frames)
            elif blocks:
                rows.appendleft(row)
                break
            else:
                self.first += 1
                assert not isinstance(row, bytes)
                return row
            if n_bytes > RANGE_BYTES:
                break
        self.first += len(blocks)
        return TakenRows(first, blocks, frames)


def _has_same_frame_count(row: Entry, n_rows: int, frames: Sequence[Buffer]) -> bool:
    """Return whether a row has no objects, and as many frames as each of `n_rows` rows, which have `frames` in all."""
    return has_only_frames(row) and len(row[0].frames) * n_rows == len(frames)


def has_only_frames(entry: Entry) -> bool:
    """Return whether a task needs only its block of arguments and its frames, and no objects."""
    task, _sink, _function, objects, references = entry
    return not (objects or references or task.object_ids)


def split_entry(entry: Entry) -> list[Entry]:
    """Return the entries of single tasks, one for each row of a range."""
    return [(row, *entry[1:]) for row in calls_of(entry[0])]


def _results_of(result: TaskResult) -> list[TaskResult]:
    try:
        return results_of(result)
    except RowsError as error:
        return unreadable_rows(result, error)


def unreadable_rows(result: TaskResult, error: RowsError) -> list[TaskResult]:
    """Return a failed result for each row of a result that cannot be split."""
    text = f"the results of these rows cannot be read: {error}".encode()
    return [TaskResult(task_id, 8, text, 0) for task_id in row_ids(result.task_id, result.rows)]
