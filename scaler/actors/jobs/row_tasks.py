"""RowTasks: the tasks of the rows of a job that were said and have not ended.

Used by the job. Must never: know what becomes of a row.
"""

from __future__ import annotations

from typing import Any

from scaler.kit import ActorRef


class RowTasks:
    """Tasks by row; a range by its first one."""

    def __init__(self) -> None:
        self._tasks: dict[int, ActorRef] = {}
        self._ranges: dict[int, int] = {}
        """how many rows travel with each of these, itself among them"""

    def __len__(self) -> int:
        return len(self._tasks)

    def add(self, first: int, task: ActorRef, n_rows: int = 1) -> None:
        """Rows were said."""
        self._tasks[first] = task
        if n_rows > 1:
            self._ranges[first] = n_rows

    def has(self, first: int) -> bool:
        """Return whether there is a task that begins with this row."""
        return first in self._tasks

    def is_range(self, first: int) -> bool:
        """Return whether it has several rows."""
        return first in self._ranges

    def end(self, first: int) -> bool:
        """A task has ended, or others take its place. Return whether there was one."""
        self._ranges.pop(first, None)
        return self._tasks.pop(first, None) is not None

    def end_of(self, task: ActorRef) -> range:
        """A task has failed. Return its rows."""
        for first, known in self._tasks.items():
            if known is task:
                rows = range(first, first + self._ranges.get(first, 1))
                self.end(first)
                return rows
        return range(0)

    def tell(self, message: Any) -> None:
        """Send a message to all tasks."""
        for task in self._tasks.values():
            task.send(message)
