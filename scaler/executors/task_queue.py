"""TaskQueue: the waiting tasks of one worker: the greatest priority first, then first come, first served.

Only the slot writes to it. Nearly always all tasks have the same priority, and so there is one row; nested tasks add a
row for each depth, and each wish of users adds one. A task that lacks an object steps aside, so that it does not block
those behind it, and comes back to the front.

While tasks of several clients wait here, it is first come, first served, however deep: else a client whose tasks keep
submitting tasks would overtake the others for ever. The scheduler has put them in order, and it is some 50 ms of work.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import TypeAlias

from scaler.ids import TaskId
from scaler.priority_rows import PriorityRows
from scaler.wire.messages.worker import RecallRequest, RunCancel, RunTask

RunKey: TypeAlias = tuple[TaskId, int]
"""Which attempt of which task."""


def run_of(item: RunTask | RunCancel | RecallRequest) -> RunKey:
    """Return which run is meant."""
    return (item.task_id, item.attempt)


_NOBODY, _SEVERAL = -1, -2
"""Stands for several accounts; an account is never negative."""


class TaskQueue:
    """Tasks in the order in which they are to be executed."""

    def __init__(self) -> None:
        self._rows: PriorityRows[deque[RunTask]] = PriorityRows(deque)
        self.first_row = self._rows.first
        """returns the row that is first now, to take tasks from; an empty one if nothing waits"""
        self._aside: list[RunTask] = []
        self._account = _NOBODY
        """of all tasks that wait, or of those that did"""

    def __iter__(self) -> Iterator[RunTask]:
        yield from self._aside
        for row in self._rows.in_order():
            yield from row

    @property
    def is_one_row(self) -> bool:
        """Whether all tasks that wait are in the first row."""
        return len(self._rows) == 1

    def add(self, tasks: Iterable[RunTask]) -> None:
        """Put tasks behind all others of their priority; behind all if those are of several clients."""
        rows, account = self._rows, self._account
        is_sure = False
        for task in tasks:
            priority = task.priority
            if account != task.account:
                if not is_sure:
                    account, is_sure = self._account_of_all(), True
                if account != task.account:
                    account = task.account if account == _NOBODY else _SEVERAL
                if account == _SEVERAL:
                    priority = self._last_priority(priority)
            rows[priority].append(task)
        self._account = account

    def _account_of_all(self) -> int:
        accounts = {task.account for task in self}
        return _SEVERAL if len(accounts) > 1 else accounts.pop() if accounts else _NOBODY

    def _last_priority(self, most: int) -> int:
        return min([priority for priority, row in self._rows.items() if row], default=most)

    def put_back(self, tasks: Sequence[RunTask]) -> None:
        """Put tasks in front of all others of their priority, in their order."""
        for task in reversed(tasks):
            self._rows[task.priority].appendleft(task)

    def step_aside(self) -> None:
        """Put the first task aside."""
        self._aside.append(self.first_row().popleft())

    def bring_back(self) -> None:
        """Put the tasks that stepped aside in front again."""
        if self._aside:
            aside, self._aside = self._aside, []
            self.put_back(aside)

    def take_out(self, runs: Container[RunKey]) -> list[RunTask]:
        """Remove the tasks of these runs, wherever they wait, and return them."""
        taken = [task for task in self if run_of(task) in runs]
        if taken:
            self._aside = [task for task in self._aside if run_of(task) not in runs]
            for priority, row in self._rows.items():
                self._rows[priority] = deque(task for task in row if run_of(task) not in runs)
        return taken
