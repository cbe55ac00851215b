"""KeptTasks: the single tasks that a viewer knows, and which of the open ones run.

A task is shown as running only while agents report its run. The scheduler names all open tasks of its sample once a
second. All other open tasks are dropped here, because their ends were missed.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, islice

from scaler.ids import PUBLIC_ID_BYTES
from scaler.wire.messages.monitor import StateRuns, StateTask, unseen_after_us
from scaler.wire.messages.vocabulary import SUCCESS

TASKS_MOST = 10_000
"""The most single tasks that are kept. Runs that no agent reports any longer are dropped first, then successes."""

RUNNING, QUEUED, UNSEEN = "running", "queued", "unseen"
"""States of a task at a worker: an agent reports its run; no agent has reported a run yet; none does any longer."""


class KeptTasks(dict[bytes, StateTask]):
    """The tasks by short id, the ones that changed last at the end."""

    def __init__(self, tasks: Iterable[tuple[bytes, StateTask]] = ()) -> None:
        super().__init__(tasks)
        self._seen_us: dict[bytes, int] = {}
        self._interval_ms = 0
        self._now_us = 0

    def copy(self) -> KeptTasks:
        """Return a copy."""
        copied = KeptTasks(self.items())
        copied._seen_us, copied._interval_ms, copied._now_us = dict(self._seen_us), self._interval_ms, self._now_us
        return copied

    def take(self, tasks: Iterable[StateTask], now_us: int) -> None:
        """Add tasks, or replace them. `now_us`: the time of the message, by the clock of the scheduler."""
        self._now_us = max(now_us, self._now_us)
        for task in tasks:
            self.pop(task.task, None)
            self[task.task] = task
            if not task.seen_us or task.ended_us:  # the reports named an earlier run
                self._seen_us.pop(task.task, None)
        self._limit()

    def take_runs(self, runs: StateRuns, now_us: int) -> None:
        """Store which tasks run now, and drop the open tasks that the scheduler does not name."""
        self._now_us, self._interval_ms = max(now_us, self._now_us), runs.interval_ms
        running = ids_in(runs.running)
        named = {*running, *ids_in(runs.others)}
        for short_id in [short_id for short_id, task in self.items() if not task.ended_us and short_id not in named]:
            del self[short_id]
        self._seen_us = {short_id: at for short_id, at in self._seen_us.items() if short_id in self}
        self._seen_us.update((short_id, now_us) for short_id in running if short_id in self)

    def drop_open(self) -> None:
        """Drop all open tasks, because their ends are not received from now on."""
        for short_id in [short_id for short_id, task in self.items() if not task.ended_us]:
            del self[short_id]

    def tick(self, now_us: int) -> None:
        """Advance the time, by the clock of the scheduler."""
        self._now_us = max(now_us, self._now_us)

    def seen_us(self, task: StateTask) -> int:
        """Return when an agent last reported a run of an open task, in microseconds since 1970; 0: never."""
        return max(task.seen_us, self._seen_us.get(task.task, 0))

    def state_of(self, task: StateTask) -> str:
        """Return the state to show: that of the task, or `QUEUED` or `UNSEEN` if no agent reports its run now."""
        if task.state != RUNNING or task.ended_us:
            return task.state
        seen_us = self.seen_us(task)
        if not seen_us:
            return QUEUED
        return RUNNING if self._now_us - seen_us <= unseen_after_us(self._interval_ms) else UNSEEN

    def ran_us(self, task: StateTask) -> int:
        """Return the duration of the last run in microseconds; of a running task, the time since its start."""
        if task.ended_us or not task.started_us:
            return task.duration_us
        until_us = self._now_us if self.state_of(task) == RUNNING else self.seen_us(task)
        return max(0, until_us - task.started_us) if until_us else task.duration_us

    def _limit(self) -> None:
        excess = len(self) - TASKS_MOST
        if excess > 0:
            unseen = (short_id for short_id, task in self.items() if self.state_of(task) == UNSEEN)
            succeeded = (short_id for short_id, task in self.items() if task.state == SUCCESS)
            for short_id in list(islice(dict.fromkeys(chain(unseen, succeeded, self)), excess)):
                del self[short_id]


def ids_in(packed: bytes) -> list[bytes]:
    """Return the packed short ids. An incomplete id at the end is ignored."""
    size = PUBLIC_ID_BYTES
    return [packed[at : at + size] for at in range(0, len(packed) - size + 1, size)]
