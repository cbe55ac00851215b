"""Window: which open tasks of a client were sent to the scheduler, and which wait in this process until others end.

The scheduler's reply to a hello says how many tasks and bytes it accepts from a client. Further tasks wait here, in the
order of their submission.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat

from scaler.ids import TaskId

logger = logging.getLogger("scaler.client")

_NO_LIMIT = 2**62


class Window:
    """Limits how many open tasks of a client, and bytes of their arguments, are sent to the scheduler."""

    def __init__(self) -> None:
        self._sent: dict[TaskId, int] = {}
        self._sent_bytes = 0
        self._n_sent = 0
        """the number of sent tasks; each row of a range counts as one"""
        self._rows: dict[TaskId, int] = {}
        """id of a range, sent or waiting -> its number of rows"""
        self.waiting: dict[TaskId, int] = {}
        """id of a waiting task -> the size of its arguments, in order of submission; read-only outside this class"""
        self.tasks_most = self._bytes_most = _NO_LIMIT
        """the number of tasks, and of bytes of arguments, that the scheduler accepts from this client at a time"""
        self._is_logged = False

    def resize(self, tasks: int, n_bytes: int) -> None:
        """Set the number of tasks, and of bytes of arguments, that may be sent at a time; 0: no limit."""
        self.tasks_most = tasks or _NO_LIMIT
        self._bytes_most = n_bytes or _NO_LIMIT

    def weigh(self, task_id: TaskId, rows: int) -> None:
        """Set the number of rows of a range. Call this before `enter` is called for the range."""
        self._rows[task_id] = rows

    def end_rows(self, task_id: TaskId, rows: int) -> None:
        """Count fewer rows of a sent range, because some have ended."""
        self._rows[task_id] -= rows
        self._n_sent -= rows

    def enter(self, task_id: TaskId, size: int) -> bool:
        """Add a task. Return whether it may be sent now. A task that exceeds the window may be sent alone."""
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
        """Add tasks, if all of them may be sent now. Return whether they were added."""
        sent, sent_bytes = self._sent, self._sent_bytes + sum(sizes.values())
        n_sent = self._n_sent + len(sizes)
        if self.waiting or sent_bytes > self._bytes_most or n_sent > self.tasks_most:
            return False
        sent.update(sizes)
        self._sent_bytes, self._n_sent = sent_bytes, n_sent
        return True

    def end(self, task_ids: Sequence[TaskId]) -> None:
        """Remove ended tasks. Unknown ids are ignored."""
        sent, before = self._sent, len(self._sent)
        if self._rows:
            self._n_sent -= sum([self._rows.pop(each, 1) - 1 for each in task_ids if each in sent])
        self._sent_bytes -= sum(map(sent.pop, task_ids, repeat(0)))
        self._n_sent -= before - len(sent)
        if self.waiting:
            for task_id in task_ids:
                self.waiting.pop(task_id, None)

    def leave(self, task_id: TaskId) -> bool:
        """Remove a task that is no longer open. Return whether it had been sent."""
        size = self._sent.pop(task_id, None)
        if size is None:
            self.waiting.pop(task_id, None)
            self._rows.pop(task_id, None)
            return False
        self._sent_bytes -= size
        self._n_sent -= self._rows.pop(task_id, 1)
        return True

    def admit(self) -> Iterator[TaskId]:
        """Mark the waiting tasks that fit now as sent, in order, and yield the ids of these tasks."""
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

    def admit_now(self, task_id: TaskId) -> bool:
        """Mark a waiting task as sent, even beyond the limits, because sent tasks need it. Return whether it waited."""
        size = self.waiting.pop(task_id, None)
        if size is None:
            return False
        self._sent[task_id] = size
        self._sent_bytes += size
        self._n_sent += self._rows.get(task_id, 1)
        return True

    def clear(self) -> None:
        """Forget all tasks."""
        self._sent, self.waiting, self._rows, self._sent_bytes, self._n_sent = {}, {}, {}, 0, 0

    def sentence(self) -> str:
        """Return a sentence that says why the waiting tasks wait."""
        return (
            f"it waits in this process: the scheduler has {self._n_sent:,} open tasks of this client, which is "
            f"its limit. Until some of those end, {len(self.waiting):,} tasks wait here"
        )

    def _log(self) -> None:
        self._is_logged = True
        logger.info(
            "the scheduler has %d open tasks of this client with %d bytes of arguments, which is its limit; "
            "further tasks wait in this process until some of those have ended",
            self._n_sent,
            self._sent_bytes,
        )
