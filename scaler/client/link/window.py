"""Window: which open tasks of a client the scheduler has, and which ones wait here for others to end.

Used by the open work only. The scheduler says in its reply to a hello how much it takes from one client, since it is
the scheduler's memory that is bounded; what is more stays here, in its order. Must never reorder.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat

from scaler.ids import TaskId

logger = logging.getLogger("scaler.client")

_NO_LIMIT = 2**62


class Window:
    """The sizes of the tasks that the scheduler has, and of those that wait."""

    def __init__(self) -> None:
        self._sent: dict[TaskId, int] = {}
        self._sent_bytes = 0
        self._n_sent = 0
        """how many tasks that are; a row is one"""
        self._rows: dict[TaskId, int] = {}
        """how many rows those of all tasks here have that are ranges"""
        self.waiting: dict[TaskId, int] = {}
        """only to be looked at: tasks that wait, in their order"""
        self.tasks_most = self._bytes_most = _NO_LIMIT
        """how much the scheduler takes"""
        self._is_logged = False

    def resize(self, tasks: int, n_bytes: int) -> None:
        """Set how many open tasks, and how many bytes of arguments, the scheduler takes. 0: as much as there is."""
        self.tasks_most = tasks or _NO_LIMIT
        self._bytes_most = n_bytes or _NO_LIMIT

    def weigh(self, task_id: TaskId, rows: int) -> None:
        """A task that is about to enter is so many rows."""
        self._rows[task_id] = rows

    def split(self, task_id: TaskId, rows: Sequence[TaskId]) -> None:
        """Each row of a range is a task of its own from now on."""
        self._rows.pop(task_id, None)
        for tasks in (self._sent, self.waiting):
            if task_id in tasks:
                size, left = divmod(tasks.pop(task_id), len(rows))
                tasks.update(dict.fromkeys(rows, size))
                tasks[rows[0]] += left

    def enter(self, task_id: TaskId, size: int) -> bool:
        """Add a task. Return whether it may be sent now; else it waits. A task that is larger than the window goes
        alone.
        """
        sent, sent_bytes = self._sent, self._sent_bytes + size
        weight = self._rows.get(task_id, 1) if self._rows else 1
        n_sent = self._n_sent + weight
        if self.waiting or (sent and (sent_bytes > self._bytes_most or n_sent > self.tasks_most)):
            self.waiting[task_id] = size
            if not self._is_logged:
                self._log()
            return False
        sent[task_id] = size
        self._sent_bytes, self._n_sent = sent_bytes, n_sent
        return True

    def enter_all(self, sizes: Mapping[TaskId, int]) -> bool:
        """Add tasks that may be sent now, all of them. Return False if there is no room for all: then none is added."""
        sent, sent_bytes = self._sent, self._sent_bytes + sum(sizes.values())
        n_sent = self._n_sent + len(sizes)
        if self.waiting or sent_bytes > self._bytes_most or n_sent > self.tasks_most:
            return False
        sent.update(sizes)
        self._sent_bytes, self._n_sent = sent_bytes, n_sent
        return True

    def end(self, task_ids: Sequence[TaskId]) -> None:
        """Remove the tasks with these ids, which have ended; there may be others among them."""
        sent, before = self._sent, len(self._sent)
        if self._rows:
            self._n_sent -= sum([self._rows.pop(each, 1) - 1 for each in task_ids if each in sent])
        self._sent_bytes -= sum(map(sent.pop, task_ids, repeat(0)))
        self._n_sent -= before - len(sent)
        if self.waiting:
            for task_id in task_ids:
                self.waiting.pop(task_id, None)

    def leave(self, task_id: TaskId) -> bool:
        """Remove a task that has ended. Return whether it had been sent."""
        size = self._sent.pop(task_id, None)
        if size is None:
            self.waiting.pop(task_id, None)
            self._rows.pop(task_id, None)
            return False
        self._sent_bytes -= size
        self._n_sent -= self._rows.pop(task_id, 1)
        return True

    def admit(self) -> Iterator[TaskId]:
        """Move the tasks for which there is room now from those that wait to those that are sent, in their order."""
        while self.waiting:
            task_id, size = next(iter(self.waiting.items()))
            n_sent = self._n_sent + self._rows.get(task_id, 1)
            if self._sent and (n_sent > self.tasks_most or self._sent_bytes + size > self._bytes_most):
                return
            del self.waiting[task_id]
            self._sent[task_id] = size
            self._sent_bytes += size
            self._n_sent = n_sent
            yield task_id

    def clear(self) -> None:
        """Forget all tasks."""
        self._sent, self.waiting, self._rows, self._sent_bytes, self._n_sent = {}, {}, {}, 0, 0

    def sentence(self) -> str:
        """Return what the tasks that wait here wait for."""
        return (
            f"it waits in this process: the scheduler has {self._n_sent:,} open tasks of this client, as much as it "
            f"takes, and {len(self.waiting):,} wait here until others have ended"
        )

    def _log(self) -> None:
        self._is_logged = True
        logger.info(
            "the scheduler has %d open tasks of this client with %d bytes of arguments, as much as it takes: further "
            "ones wait in this process, and follow when others have ended",
            self._n_sent,
            self._sent_bytes,
        )
