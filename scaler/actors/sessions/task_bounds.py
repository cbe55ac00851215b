"""TaskBounds: how many tasks a client may have open. No task of a client that keeps to its window is refused.

Owned by the client session. Tasks over the quota of the owner are held elsewhere (`HeldTasks`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate

from scaler.actors.dependencies.waiting_tasks import WaitingTasks
from scaler.actors.sessions.held_tasks import HeldTasks
from scaler.actors.tasks.open_tasks import OpenTasks
from scaler.actors.vocabulary.owners import Owner
from scaler.actors.vocabulary.peer import Peer
from scaler.actors.vocabulary.services import Services
from scaler.ids import TaskId
from scaler.wire.messages.client import Task, TaskResult
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.rows import calls_of, flaw_of

TASKS_BEYOND_WINDOW = 2
"""The most open tasks of a client, as a multiple of its window. The client may already count some of them as ended."""


class TaskBounds:
    """Limits the open tasks of one client: to `most`, or to fewer if its owner has a quota."""

    def __init__(
        self,
        open_tasks: OpenTasks[TaskId],
        held: HeldTasks,
        waiting: WaitingTasks,
        owner: Owner,
        peer: Peer,
        services: Services,
        audit: Callable[[str, str], None],
        end_unstarted: Callable[[Task, TaskStatus, str], None],
    ) -> None:
        self._open_tasks, self._held, self._waiting = open_tasks, held, waiting
        self._owner, self._peer, self._services, self._audit = owner, peer, services, audit
        self._end_unstarted = end_unstarted
        config = services.config
        self.most = TASKS_BEYOND_WINDOW * config.client_tasks
        self._rows_most = config.per_worker_queue_size if config.max_number_of_tasks_waiting < 0 else 1

    @property
    def n_open(self) -> int:
        """The number of open tasks in the window of the client; each row counts as one."""
        return self._open_tasks.n_rows + len(self._held) - self._waiting.n_beyond_window

    def within(self, batch: Sequence[Task]) -> Sequence[Task]:
        """Return the tasks that may be open; refuse the others."""
        has_ranges = any(spec.rows for spec in batch)
        if has_ranges:
            batch = self._split_ranges(batch)
        most = self.most
        if self._owner.has_quota:
            most = min(most, TASKS_BEYOND_WINDOW * self._peer.tasks_announced)
        room = most - self.n_open
        sizes = [spec.rows or 1 for spec in batch] if has_ranges else [1] * len(batch)
        if sum(sizes) <= room:
            return batch
        taken = sum(size <= room for size in accumulate(sizes))
        refused = sum(sizes[taken:])
        self._audit("over quota", f"{refused:,} tasks were refused: the client has {most:,} open tasks")
        sentence = f"its client has {most} open tasks, as many as the scheduler accepts"
        for spec in batch[taken:]:
            if spec.task_id not in self._open_tasks and spec.task_id not in self._held:
                self.refuse(spec, TaskStatus.NO_WORKER, sentence)
        return batch[:taken]

    def refuse(self, spec: Task, status: TaskStatus, sentence: str) -> None:
        """Report to the client that a task is refused."""
        self._end_unstarted(spec, status, sentence)
        refusal = TaskResult(spec.task_id, status, sentence.encode(), 0, b"", spec.rows)
        self._services.outbox.put(self._peer, refusal)

    def _split_ranges(self, batch: Sequence[Task]) -> Sequence[Task]:
        """Split ranges that are longer than the bound. Refuse invalid ranges."""
        split_batch: list[Task] = []
        rows_most = 1 if self._owner.has_quota or self._held else self._rows_most
        for spec in batch:
            if not spec.rows:
                split_batch.append(spec)
            elif flaw := flaw_of(spec, not spec.options or self._services.read_options(spec.options).suit_rows):
                why = f"the scheduler cannot take these rows: {flaw}"
                self.refuse(replace(spec, rows=0), TaskStatus.INTERNAL_ERROR, why)  # the ids of the rows are unknown
            elif spec.task_id in self._open_tasks.ranges:
                continue  # resent after a lost connection
            elif 1 < spec.rows <= rows_most:
                split_batch.append(spec)
            else:
                split_batch += calls_of(spec)
        return split_batch
