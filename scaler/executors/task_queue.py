"""TaskQueue: the waiting tasks of one worker, by priority, and in order of arrival within one priority.

All tasks of one priority are in one row (a deque; not a row of a map), and nearly always there is only one row. A task
that lacks an object steps aside, so that it does not block the tasks behind it, and later returns to the front.

While tasks of several clients wait, they run in order of arrival, whatever their depth: otherwise a client whose tasks
keep submitting tasks would overtake all others forever. The queue holds only some 50 ms of work. Tasks are counted by
account only while tasks of several accounts wait, so no cost depends on the length of the queue.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from typing import TypeAlias

from scaler.ids import TaskId
from scaler.priority_rows import PriorityRows
from scaler.wire.messages.accounts import account_in
from scaler.wire.messages.worker import RecallRequest, RunCancel, RunResult, RunTask

RunKey: TypeAlias = tuple[TaskId, int]
"""The id of a task and the number of its attempt."""


def run_of(item: RunTask | RunCancel | RecallRequest | RunResult) -> RunKey:
    """Return the key of the run that an item is about."""
    return (item.task_id, item.attempt)


_SEVERAL = -1
"""The value of `_account` while tasks of several accounts wait; no account has this number."""


class TaskQueue:
    """The waiting tasks of one worker, in the order in which they are to be executed."""

    def __init__(self) -> None:
        self._rows: PriorityRows[deque[RunTask]] = PriorityRows(deque)
        self.first_row = self._rows.first
        """returns the first row, empty if no task waits; a caller that takes tasks from it calls `removed` with them"""
        self._aside: PriorityRows[deque[RunTask]] = PriorityRows(deque)
        self._account = _SEVERAL
        """the account of all waiting tasks, or of the last task if no task waits; `_SEVERAL` for several accounts"""
        self.by_account: Counter[int] = Counter()
        """how many tasks of each account wait; empty unless tasks of several accounts wait"""

    def __iter__(self) -> Iterator[RunTask]:
        for rows in (self._aside, self._rows):
            for row in rows.in_order():
                yield from row

    @property
    def is_one_row(self) -> bool:
        """Whether all waiting tasks have the same priority and belong to one account."""
        return len(self._rows) == 1 and not self.by_account

    def add(self, tasks: Iterable[RunTask]) -> None:
        """Add tasks behind all tasks of the same priority, or behind all tasks while tasks of several accounts wait."""
        rows, account = self._rows, self._account
        for task in tasks:
            priority = task.priority
            if account != account_in(task):
                if self._count(task):
                    priority = self._last_priority(priority)
                account = self._account
            rows[priority].append(task)

    def _count(self, task: RunTask) -> bool:
        """Count a task whose account differs from `_account`. Return whether tasks of several accounts wait now."""
        waiting = self.by_account
        if not waiting:
            before = sum(len(row) for rows in (self._rows, self._aside) for row in rows.values())
            if not before:
                self._account = account_in(task)
                return False
            waiting[self._account] = before
            self._account = _SEVERAL
        waiting[account_in(task)] += 1
        return True

    def _last_priority(self, most: int) -> int:
        lowest = (next((each for each in rows.priorities if rows[each]), most) for rows in (self._rows, self._aside))
        return min(most, *lowest)

    def removed(self, tasks: Iterable[RunTask]) -> None:
        """Record that these tasks were removed from the queue."""
        waiting = self.by_account
        for task in tasks if waiting else ():
            waiting[account_in(task)] -= 1
            if not waiting[account_in(task)]:
                del waiting[account_in(task)]
        if len(waiting) == 1:
            (self._account,) = waiting
            waiting.clear()

    def put_back(self, tasks: Sequence[RunTask]) -> None:
        """Return tasks to the front of all waiting tasks of the same priority, in the order of `tasks`."""
        for task in reversed(tasks):
            if self._account != account_in(task):
                self._count(task)
            self._rows[task.priority].appendleft(task)

    def has_first(self, may_start: Callable[[RunTask], bool]) -> bool:
        """Move the first task that may start to the front. Return whether such a task waits."""
        for row in self._rows.in_order():
            for place, task in enumerate(row):
                if may_start(task):
                    del row[place]
                    self._rows[self._rows.priorities[-1]].appendleft(task)
                    return True
        return False

    def step_aside(self) -> None:
        """Move the first task aside, until `bring_back` is called."""
        task = self.first_row().popleft()
        self._aside[self._rows.priorities[-1]].append(task)

    def bring_back(self) -> None:
        """Move the tasks that stepped aside back to the front."""
        while row := self._aside.first():
            self._rows[self._aside.priorities[-1]].extendleft(reversed(row))
            row.clear()

    def take_out(self, runs: Container[RunKey]) -> list[RunTask]:
        """Remove and return the tasks of these runs."""
        taken = [task for task in self if run_of(task) in runs]
        for rows in (self._rows, self._aside) if taken else ():
            for priority, row in rows.items():
                rows[priority] = deque(task for task in row if run_of(task) not in runs)
        self.removed(taken)
        return taken
