"""Backlog: the tasks that wait at one worker. Deepest first; first come, first served within a priority.

Only its worker writes to it. While tasks of several clients wait, it is first come, first served, however deep. A task
that lacks an object steps aside, so that it does not hold up those behind it.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Container, Iterable, Iterator
from typing import TypeAlias

from scaler.ids import TaskId
from scaler.priority_rows import PriorityRows
from scaler.wire.messages.worker import RecallRequest, RunCancel, RunTask

RunKey: TypeAlias = tuple[TaskId, int]
"""Which attempt of which task."""


def run_of(item: RunTask | RunCancel | RecallRequest) -> RunKey:
    """Return which run is meant."""
    return (item.task_id, item.attempt)


class Backlog:
    """Tasks in the order in which they are to be run."""

    def __init__(self) -> None:
        self._rows: PriorityRows[deque[RunTask]] = PriorityRows(deque)
        self._aside: PriorityRows[deque[RunTask]] = PriorityRows(deque)
        self._accounts: Counter[int] = Counter()
        """how many tasks of each account wait; no zeros"""

    def __iter__(self) -> Iterator[RunTask]:
        for rows in (self._aside, self._rows):
            for row in rows.in_order():
                yield from row

    def add(self, tasks: Iterable[RunTask]) -> None:
        """Put tasks behind all others of their priority; behind all if tasks of several clients wait."""
        for task in tasks:
            self._accounts[task.account] += 1
            is_shared = len(self._accounts) > 1
            self._rows[self._last_priority(task.priority) if is_shared else task.priority].append(task)

    def _last_priority(self, most: int) -> int:
        """Return the lowest priority of all tasks that wait, and at most `most`."""
        lowest = (next((each for each in rows.priorities if rows[each]), most) for rows in (self._rows, self._aside))
        return min(most, *lowest)

    def first(self) -> RunTask | None:
        """Return the task whose turn is next, complete or not."""
        row = self._rows.first()
        return row[0] if row else None

    def take(self, is_complete: Callable[[RunTask], bool], holds_up: Callable[[RunTask], bool]) -> RunTask | None:
        """Remove and return the first task that has all it needs; put those before it aside.

        Args:
            is_complete: whether a task has all it needs.
            holds_up: whether those behind a task that has not wait for it, and do not overtake it.
        """
        while row := self._rows.first():
            task = row[0]
            if is_complete(task):
                self._left(task)
                return row.popleft()
            if holds_up(task):
                return None
            self._aside[self._rows.priorities[-1]].append(row.popleft())
        return None

    def _left(self, task: RunTask) -> None:
        self._accounts[task.account] -= 1
        if not self._accounts[task.account]:
            del self._accounts[task.account]

    def bring_back(self) -> None:
        """Look at the tasks that stepped aside again."""
        while row := self._aside.first():
            self._rows[self._aside.priorities[-1]].extendleft(reversed(row))
            row.clear()

    def take_out(self, runs: Container[RunKey]) -> list[RunTask]:
        """Remove the tasks of these runs, wherever they wait, and return them."""
        taken = [task for task in self if run_of(task) in runs]
        for rows in (self._rows, self._aside) if taken else ():
            for priority, row in rows.items():
                rows[priority] = deque(task for task in row if run_of(task) not in runs)
        for task in taken:
            self._left(task)
        return taken
