"""OpenRanges: which open tasks of a client are ranges, and which of their rows have ended.

Used by the open work, with its table of tasks and its window. A range ends with one result, unless the scheduler ends
it early. Then results of single rows and of parts of the range arrive, until all rows have ended. When rows that may
have been sent are resubmitted in a new session, each row is a task of its own.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Container, Iterator, Sequence

from scaler.client.calls.entry import Entry
from scaler.client.link.window import Window
from scaler.ids import PREFIX_BYTES, TaskId, index_of
from scaler.wire.messages.client import TaskResult
from scaler.wire.messages.rows import calls_of, part_of, row_id, row_ids, rows_of


class OpenRanges:
    """The ranges among the open tasks. `window` counts the rows of sent tasks."""

    def __init__(self, tasks: dict[TaskId, Entry], window: Window) -> None:
        self._tasks = tasks
        self._window = window
        self._rows: dict[TaskId, int] = {}
        """id of a range -> number of its rows"""
        self._by_map: dict[bytes, list[int]] = {}
        """prefix of the ids of a map -> the sorted numbers of the first rows of its ranges"""
        self._ended: dict[TaskId, bytearray] = {}
        """id of a range of which some rows have ended -> one byte for each row, 1 if the row has ended, else 0"""

    def __bool__(self) -> bool:
        return bool(self._rows)

    @property
    def further_rows(self) -> int:
        """The number of open rows of all ranges, minus one for each range."""
        return sum(self._rows.values()) - len(self._rows) - sum(map(sum, self._ended.values()))

    def add(self, task_id: TaskId, rows: int) -> None:
        """Add a range that is about to be submitted."""
        self._rows[task_id] = rows
        prefix, number = task_id[:PREFIX_BYTES], index_of(task_id)
        insort(self._by_map.setdefault(prefix, []), number)
        self._window.weigh(task_id, rows)

    def restore_weights(self) -> None:
        """Register the number of rows of each range with the window again, after the window was cleared."""
        for task_id, rows in self._rows.items():
            self._window.weigh(task_id, rows)

    def forget(self, task_id: TaskId) -> int:
        """Remove a task that has ended. Return the number of its rows; 0 if the task is not a range."""
        rows = self._rows.pop(task_id, 0)
        if rows:
            self._ended.pop(task_id, None)
            prefix, number = task_id[:PREFIX_BYTES], index_of(task_id)
            firsts = self._by_map[prefix]
            del firsts[bisect_right(firsts, number) - 1]
            if not firsts:
                del self._by_map[prefix]
        return rows

    def clear(self) -> None:
        """Remove all ranges."""
        self._rows, self._by_map, self._ended = {}, {}, {}

    def first_of(self, task_id: TaskId) -> TaskId | None:
        """Return the id of the open range that has this row; None if no range has it."""
        prefix, number = task_id[:PREFIX_BYTES], index_of(task_id)
        firsts = self._by_map.get(prefix, ())
        at = bisect_right(firsts, number) - 1
        first = TaskId(prefix + firsts[at].to_bytes(8, "big")) if at >= 0 else None
        return first if first is not None and number - firsts[at] < self._rows[first] else None

    def has_open(self, task_id: TaskId) -> bool:
        """Return whether a range has this row, and the row has not ended."""
        first = self.first_of(task_id)
        ended = None if first is None else self._ended.get(first)
        return first is not None and not (ended and ended[index_of(task_id) - index_of(first)])

    def first_open_row(self, task_id: TaskId) -> TaskId:
        """Return the id of the first row of a range that has not ended; of another task its own id."""
        ended = self._ended.get(task_id)
        return task_id if ended is None else row_id(task_id, ended.index(0))

    # Results

    def match(self, results: Sequence[TaskResult]) -> Iterator[tuple[TaskResult, Entry | None]]:
        """Yield results with the entries of their tasks; None if no task is open. Remove the tasks that have ended.

        Of a range, only rows that have not ended before are yielded.
        """
        for result in results:
            entry = self._tasks.get(result.task_id)
            first = result.task_id if entry is not None and entry[0].rows else None
            if first is None and entry is None:
                first = self.first_of(result.task_id)
            if first is not None:
                yield from self._match_rows(first, result)
            elif not result.rows:
                yield result, self._tasks.pop(result.task_id, None)
                self._window.end((result.task_id,))
            else:
                yield from self._match_singles(result)

    def _match_singles(self, result: TaskResult) -> Iterator[tuple[TaskResult, Entry | None]]:
        open_ids = {row for row in row_ids(result.task_id, result.rows) if row in self._tasks}
        for each in rows_of(result) if open_ids else ():
            if each.task_id in open_ids:
                yield each, self._tasks.pop(each.task_id)
        self._window.end(list(open_ids))

    def _match_rows(self, first: TaskId, result: TaskResult) -> Iterator[tuple[TaskResult, Entry | None]]:
        entry, n_rows = self._tasks[first], self._rows[first]
        begin, count = index_of(result.task_id) - index_of(first), result.rows or 1
        if first not in self._ended and count == n_rows:
            del self._tasks[first]
            self.forget(first)
            self._window.end((first,))
            yield result, entry
            return
        ended = self._ended.setdefault(first, bytearray(n_rows))
        known = ended[begin : begin + count]
        results = [result] if not any(known) else rows_of(result)
        ended[begin : begin + count] = b"\1" * len(known)
        self._window.end_rows(first, len(known) - sum(known))
        if all(ended):
            del self._tasks[first]
            self.forget(first)
            self._window.end((first,))
        for each in results:
            row = index_of(each.task_id) - index_of(first)
            if not any(known[row - begin : row - begin + (each.rows or 1)]):
                yield each, entry if each.rows else (part_of(entry[0], row, 1), *entry[1:])

    # Rows that are resubmitted

    def submit_alone(self, unsent: Container[TaskId], most: int) -> None:
        """Replace ranges by single tasks: those that may have been sent, or have more than `most` rows."""
        for first, n_rows in list(self._rows.items()):
            if first not in unsent or n_rows > most:
                self.expand(first)

    def expand(self, first: TaskId) -> None:
        """Replace a range, if there is one with this id, by a task for each row that has not ended."""
        if first not in self._rows:
            return
        entry, ended = self._tasks.pop(first), self._ended.get(first)
        self.forget(first)
        self._window.end((first,))
        for row, single in enumerate(split_entry(entry)):
            if ended is None or not ended[row]:
                self._tasks[single[0].task_id] = single


def split_entry(entry: Entry) -> list[Entry]:
    """Return the entries of single tasks, one for each row of a range."""
    return [(row, *entry[1:]) for row in calls_of(entry[0])]
