"""Backlog: the tasks that wait at one worker. Deepest first; first come, first served within a priority.

Only its worker writes to it. While tasks of several clients wait, it is first come, first served, however deep. A task
that lacks an object steps aside, so that it does not hold up those behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from heapq import heapify, heappop, heappush
from itertools import count
from typing import TypeAlias

from scaler.ids import TaskId
from scaler.wire.messages.worker import RecallRequest, RunCancel, RunTask

RunKey: TypeAlias = tuple[TaskId, int]
"""Which attempt of which task."""
_FIRST = -(2**31)
"""Before all: a priority is a signed number of 32 bits."""


def run_of(item: RunTask | RunCancel | RecallRequest) -> RunKey:
    """Return which run is meant."""
    return (item.task_id, item.attempt)


class Backlog:
    """Tasks in the order in which they are to be run."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, RunTask]] = []
        self._aside: list[tuple[int, int, RunTask]] = []
        self._next = count().__next__

    def __iter__(self) -> Iterator[RunTask]:
        yield from (task for _, _, task in (*self._aside, *self._heap))

    def add(self, tasks: Iterable[RunTask]) -> None:
        """Put tasks behind all others of their priority; behind all if tasks of several clients wait."""
        tasks = list(tasks)
        is_shared = len({task.account for task in (*self, *tasks)}) > 1
        last = max((rank for rank, _, _ in (*self._aside, *self._heap)), default=_FIRST)
        for task in tasks:
            rank = -task.priority
            if is_shared:
                rank = last = max(last, rank)
            heappush(self._heap, (rank, self._next(), task))

    def first(self) -> RunTask | None:
        """Return the task whose turn is next, complete or not."""
        return self._heap[0][2] if self._heap else None

    def take(self, is_complete: Callable[[RunTask], bool], holds_up: Callable[[RunTask], bool]) -> RunTask | None:
        """Remove and return the first task that has all it needs; put those before it aside.

        Args:
            is_complete: whether a task has all it needs.
            holds_up: whether those behind a task that has not wait for it, and do not overtake it.
        """
        while self._heap:
            task = self._heap[0][2]
            if is_complete(task):
                heappop(self._heap)
                return task
            if holds_up(task):
                return None
            self._aside.append(heappop(self._heap))
        return None

    def bring_back(self) -> None:
        """Look at the tasks that stepped aside again."""
        self._heap += self._aside
        self._aside.clear()
        heapify(self._heap)

    def take_out(self, runs: Container[RunKey]) -> list[RunTask]:
        """Remove the tasks of these runs, wherever they wait, and return them."""
        taken = [task for task in self if run_of(task) in runs]
        if taken:
            self._heap = [entry for entry in self._heap if run_of(entry[2]) not in runs]
            self._aside = [entry for entry in self._aside if run_of(entry[2]) not in runs]
            heapify(self._heap)
        return taken
