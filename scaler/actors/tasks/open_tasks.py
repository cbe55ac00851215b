"""OpenTasks: the open tasks of one client, by id, or of one job, by row.

Used by client sessions and by jobs. The tasks count for the owner of the client or job.
"""

from __future__ import annotations

from typing import Any, TypeVar

from scaler.actors.messages.tasks import CancelTask
from scaler.actors.vocabulary.owners import Owner
from scaler.kit import ActorRef

Key = TypeVar("Key")


class OpenTasks(dict[Key, ActorRef]):
    """Open tasks by key. The key of a range is the key of its first row. `add` and `end` keep the counts."""

    __slots__ = ("_canceled", "_owner", "ranges")

    def __init__(self, owner: Owner) -> None:
        super().__init__()
        self._owner = owner
        self.ranges: dict[Key, int] = {}
        self._canceled: set[Key] = set()
        """ranges that were cancelled, and may have ended early before they received that"""

    @property
    def n_rows(self) -> int:
        """The number of rows of all tasks; a task that is no range counts as one row."""
        return len(self) + sum(self.ranges.values()) - len(self.ranges)

    def add(self, key: Key, task: ActorRef, n_rows: int = 1) -> None:
        """Add a task, or a range of `n_rows` rows."""
        self[key] = task
        if n_rows > 1:
            self.ranges[key] = n_rows
        self._owner.tasks += n_rows or 1

    def end(self, key: Key) -> bool:
        """Remove a task that has ended. Return False if it had been removed before."""
        if self.pop(key, None) is None:
            return False
        self._owner.end(self.ranges.pop(key, 1) if self.ranges else 1)
        self._canceled.discard(key)
        return True

    def end_range(self, first: Key, running: Key | None) -> bool | None:
        """Replace a range that has ended early by its running row, if any. Return whether the range was cancelled.

        Return None if the range is unknown: then nothing of it is opened again.
        """
        if first not in self.ranges:
            return None
        task, is_canceled = self[first], first in self._canceled
        self.end(first)
        if running is not None:
            self.add(running, task)
        return is_canceled

    def cancel(self, key: Key, cancel: CancelTask) -> None:
        """Cancel a task. If it is a range that has just ended early, the rows that return are not opened again."""
        if key in self.ranges:
            self._canceled.add(key)
        self[key].send(cancel)

    def key_of(self, task: ActorRef) -> Key | None:
        """Return the key of a task; None if the task has ended."""
        return next((key for key, known in self.items() if known is task), None)

    def tell(self, message: Any) -> None:
        """Send a message to all tasks."""
        for task in self.values():
            task.send(message)

    def check(self) -> None:
        """Assert that each range is open."""
        assert self.ranges.keys() <= self.keys()
        assert self._canceled <= self.ranges.keys()

    def take_all(self) -> list[ActorRef]:
        """Remove and return all tasks."""
        tasks = list(self.values())
        self._owner.end(self.n_rows)
        self.clear()
        self.ranges, self._canceled = {}, set()
        return tasks
