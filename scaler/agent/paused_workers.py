"""PausedWorkers: the workers of a node that are paused for lack of memory for their results.

Used by the object cache, and owned by `NodeValues`. A worker is paused when its result exceeds the budget. All paused
workers resume when memory is free. Until then, a paused worker starts a task only in these cases:

- A result was read or dropped. Then one task starts, the first in the scheduler's order, in which readers need results.
- The task uses stored values. Its end may free memory.
- A client waits for the result of the task. Such a task has the greatest priority that a user can set. While one such
  result is stored and unread, no other such task starts.
- No memory was freed for a while. Then each paused worker starts one task.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial

from scaler.executors.messages import PauseTasks
from scaler.executors.task_queue import RunKey, run_of
from scaler.ids import NO_ID, ObjectId
from scaler.kit import ActorRef
from scaler.wire.messages.priority import MOST, user_priority_of
from scaler.wire.messages.worker import RunTask

STALL_SECONDS, STALL_MOST_SECONDS = 5.0, 20.0
"""If no memory is freed for `STALL_SECONDS`, each paused worker starts one more task. The time then doubles, up to
`STALL_MOST_SECONDS`. A reader may need the results of these tasks before the stored results, or together with them.
"""


class PausedWorkers:
    """Decides which tasks paused workers start.

    Args:
        are_used_by: returns whether a task uses stored values. Such a task starts anyway: its end may free memory.
        is_here: returns whether a result is stored and unread.

    Attributes:
        held: the numbers of the paused workers.
        workers: all workers of the node; set by the object cache.
    """

    def __init__(self, are_used_by: Callable[[RunTask], bool], is_here: Callable[[ObjectId], bool]) -> None:
        self.held: set[int] = set()
        self.workers: tuple[ActorRef, ...] = ()
        self._are_used_by, self._is_here = are_used_by, is_here
        self._first: dict[int, tuple[int, int]] = {}
        """by paused worker: the negative priority and the attempt of its next task; the lowest pair starts first"""
        self._next: int | None = None
        """the paused worker that may start one task; None: no paused worker may start a task"""
        self._let: RunKey | None = None
        """the last run that was allowed to start"""
        self._wanted = ObjectId(NO_ID)
        """the last result that was admitted because a client waits for it"""
        self._stalls_at, self._stall_seconds = math.inf, STALL_SECONDS
        """in this order: when each paused worker starts one more task if no memory is freed; the length of that wait"""

    def pause(self, workers: Iterable[int], now: float) -> None:
        """Pause these workers: from now on they start only tasks that this object permits."""
        for worker in set(workers) - self.held:
            self.held.add(worker)
            self._ask(worker)
        self._stalls_at = min(self._stalls_at, now + self._stall_seconds)

    def let_one_start(self, now: float) -> None:
        """Let one paused worker start one task, because a result was read or dropped."""
        if self._stalls_at < math.inf:
            self._stalls_at = now + self._stall_seconds
        if self._first:
            self._next = min(self._first, key=self._first.__getitem__)
            self._ask(self._next)

    def resume_all(self) -> bool:
        """Resume all workers, because memory is free. Return whether memory was full before."""
        had_none, self._stalls_at, self._stall_seconds = self._stalls_at < math.inf, math.inf, STALL_SECONDS
        self._resume()
        return had_none

    def look(self, now: float) -> None:
        """Let each paused worker start one task if no memory was freed for long enough."""
        if self.held and now >= self._stalls_at:
            self._stall_seconds = min(STALL_MOST_SECONDS, 2 * self._stall_seconds)
            self._stalls_at = now + self._stall_seconds
            self._resume()

    def _resume(self) -> None:
        for worker in sorted(self.held):
            self.workers[worker].send(PauseTasks(None))
        self.held.clear()
        self._first.clear()
        self._next = None

    def _ask(self, worker: int) -> None:
        self._first.pop(worker, None)
        self.workers[worker].send(PauseTasks(partial(self._may_start, worker)))

    def _may_start(self, worker: int, task: RunTask) -> bool:
        if self._are_used_by(task):
            return True
        if self._next == worker:
            self._next, self._let = None, run_of(task)
        if run_of(task) == self._let:
            return True  # also if it has waited for its objects since
        if user_priority_of(task.priority) == MOST and not self._is_here(self._wanted):
            self._wanted = ObjectId(task.task_id)
            return True
        if worker in self.held:
            place = -task.priority, task.attempt
            self._first[worker] = min(place, self._first.get(worker, place))
        return False
