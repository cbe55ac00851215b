"""RowTasks: the tasks of the rows of a job that were said and have not ended. Its owner has them open.

Used by the job. Must never: know what becomes of a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scaler.actors.peers.owners import Owner
from scaler.kit import ActorRef


class RowTasks:
    """Tasks by row; a range by its first one.

    Args:
        owner: of the job.
    """

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._tasks: dict[int, ActorRef] = {}
        self._ranges: dict[int, int] = {}
        """how many rows travel with each of these, itself among them"""

    def __len__(self) -> int:
        return len(self._tasks)

    def add(self, first: int, task: ActorRef, n_rows: int = 1) -> None:
        """Rows were said."""
        self._owner.tasks += n_rows
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
        """A task has ended. Return whether there was one."""
        n_rows = self._ranges.pop(first, 1)
        if self._tasks.pop(first, None) is None:
            return False
        self._owner.end(n_rows)
        return True

    def open(self, first: int, rows: Sequence[ActorRef]) -> None:
        """Each row of a range is a task of its own from now on."""
        del self._ranges[first]
        self._tasks.update(enumerate(rows, first))

    def end_all(self) -> None:
        """The job ends before they do."""
        self._owner.end(len(self._tasks) - len(self._ranges) + sum(self._ranges.values()))
        self._tasks, self._ranges = {}, {}

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
