"""PausedWorkers: which workers of a node begin nothing, because there is no room for what they would return.

Kept by the object cache, and outlives it. A worker whose result is more than the budget has is held. All go on when
there is room. Until then one task begins for each result that was read, so there are no more of them: the first one in
the order of the scheduler, since a reader takes one after the other, and what is next may be at any worker. If nothing
is read, each begins one piece more after a while. Beyond that there is room for one value that somebody waits for: its
task has the greatest wish.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial

from scaler.executors.messages import PauseTasks
from scaler.executors.task_queue import RunKey, run_of
from scaler.ids import NO_ID, ObjectId
from scaler.kit import ActorRef
from scaler.wire.messages.priority import MOST, wish_of
from scaler.wire.messages.worker import RunTask

STALL_SECONDS, STALL_MOST_SECONDS = 5.0, 20.0
"""When nothing has made room for so long, held workers begin one more piece of work each, and the next after twice the
time, at most so long: a reader may need what they would make, before or together with what is here."""


class PausedWorkers:
    """The held workers of a node.

    Args:
        are_used_by: returns whether a task uses values that are here: it begins all the same, since with its end some
            may go.
        is_here: returns whether a result is here, unread.

    Attributes:
        held: the workers, by number.
        workers: all of the node; set by the object cache.
    """

    def __init__(self, are_used_by: Callable[[RunTask], bool], is_here: Callable[[ObjectId], bool]) -> None:
        self.held: set[int] = set()
        self.workers: tuple[ActorRef, ...] = ()
        self._are_used_by, self._is_here = are_used_by, is_here
        self._first: dict[int, tuple[int, int]] = {}
        """the task that each held worker would begin: the lowest is the first in the order of the scheduler"""
        self._next: int | None = None
        """the worker that may begin one"""
        self._let: RunKey | None = None
        """the last one that was let begin"""
        self._wanted = ObjectId(NO_ID)
        """the result of the last one that somebody waits for"""
        self._stalls_at, self._stall_seconds = math.inf, STALL_SECONDS
        """when held workers go on if nothing has made room until then, and how long they wait the next time"""

    def hold(self, workers: Iterable[int], now: float) -> None:
        """Have workers begin nothing."""
        for worker in set(workers) - self.held:
            self.held.add(worker)
            self._ask(worker)
        self._stalls_at = min(self._stalls_at, now + self._stall_seconds)

    def let_one_begin(self, now: float) -> None:
        """A result was read, or dropped."""
        if self._stalls_at < math.inf:
            self._stalls_at = now + self._stall_seconds
        if self._first:
            self._next = min(self._first, key=self._first.__getitem__)
            self._ask(self._next)

    def let_all_go_on(self) -> bool:
        """There is room. Return whether there was none."""
        had_none, self._stalls_at, self._stall_seconds = self._stalls_at < math.inf, math.inf, STALL_SECONDS
        self._let_go_on()
        return had_none

    def look(self, now: float) -> None:
        """Have each begin something if nothing has made room for long enough."""
        if self.held and now >= self._stalls_at:
            self._stall_seconds = min(STALL_MOST_SECONDS, 2 * self._stall_seconds)
            self._stalls_at = now + self._stall_seconds
            self._let_go_on()

    def _let_go_on(self) -> None:
        for worker in sorted(self.held):
            self.workers[worker].send(PauseTasks(None))
        self.held.clear()
        self._first.clear()
        self._next = None

    def _ask(self, worker: int) -> None:
        self._first.pop(worker, None)
        self.workers[worker].send(PauseTasks(partial(self._may_begin, worker)))

    def _may_begin(self, worker: int, task: RunTask) -> bool:
        if self._are_used_by(task):
            return True
        if self._next == worker:
            self._next, self._let = None, run_of(task)
        if run_of(task) == self._let:
            return True  # also when it has waited for its objects since
        if wish_of(task.priority) == MOST and not self._is_here(self._wanted):
            self._wanted = ObjectId(task.task_id)
            return True
        if worker in self.held:
            place = -task.priority, task.attempt
            self._first[worker] = min(place, self._first.get(worker, place))
        return False
