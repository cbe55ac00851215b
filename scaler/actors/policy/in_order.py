"""InOrder: the waiting tasks of one client, or of all clients (`fifo`), in the order in which they are assigned.

Tasks with a greater priority go first. The priority is the depth of a task, then the number that its user set. Within a
priority, retries go first, then the tasks that arrived first. Each operation takes constant time, except for a new
priority, which is rare.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Iterator
from math import inf
from typing import TYPE_CHECKING, TypeAlias

from scaler.priority_rows import PriorityRows

if TYPE_CHECKING:
    from scaler.actors.messages.tasks import TaskReady

Row: TypeAlias = "OrderedDict[Hashable, TaskReady]"


class _Level:
    __slots__ = ("ahead", "new")

    def __init__(self) -> None:
        self.ahead: Row = OrderedDict()
        self.new: Row = OrderedDict()

    def __len__(self) -> int:
        return len(self.ahead) + len(self.new)

    def __bool__(self) -> bool:
        return bool(self.new or self.ahead)


class InOrder:
    """The waiting tasks in the order of assignment. Each row of a range counts as a task."""

    def __init__(self) -> None:
        self._levels: PriorityRows[_Level] = PriorityRows(_Level)
        self.further_rows = 0
        """the number of rows of all waiting ranges, without the first row of each range"""

    def __len__(self) -> int:
        return sum(map(len, self._levels.values())) + self.further_rows

    def __bool__(self) -> bool:
        return bool(self._first_row())

    def __iter__(self) -> Iterator[TaskReady]:
        return (ready for row in self._rows() for ready in row.values())

    def put(self, tasks: Iterable[TaskReady]) -> None:
        """Add tasks. A task that is waiting already is replaced."""
        levels = self._levels
        for ready in tasks:
            spec = ready.spec
            level = levels[spec.priority]
            if spec.rows and ready.task not in level.new and ready.task not in level.ahead:
                self.further_rows += spec.rows - 1
            if ready.goes_first:
                level.ahead[ready.task] = ready
                if level.new:
                    level.new.pop(ready.task, None)
            else:
                level.new[ready.task] = ready
                if level.ahead:
                    level.ahead.pop(ready.task, None)

    def put_back(self, ready: TaskReady) -> None:
        """Make the task that was yielded last the next task again."""
        self.put((ready,))
        level = self._levels[ready.spec.priority]
        (level.ahead if ready.goes_first else level.new).move_to_end(ready.task, last=False)

    def remove(self, task: Hashable, priority: int) -> TaskReady | None:
        """Remove a task and return it; None if the task was not in the queue."""
        level = self._levels.get(priority)
        if level is None:
            return None
        found = level.new.pop(task, None)
        found = level.ahead.pop(task, None) if found is None else found
        return found if found is None else self._left(found)

    def _left(self, ready: TaskReady) -> TaskReady:
        """Return the removed task. If it is a range, first subtract its further rows from `further_rows`."""
        if self.further_rows and ready.spec.rows:
            self.further_rows -= ready.spec.rows - 1
        return ready

    def pop(self) -> TaskReady | None:
        """Remove the first task and return it; None if no task waits."""
        row = self._first_row()
        return self._left(row.popitem(last=False)[1]) if row else None

    def drain(self) -> Iterator[TaskReady]:
        """Remove and yield tasks in the order of assignment, until the caller stops."""
        level = self._levels[self._levels.priorities[-1]]
        for row in self._rows() if len(self._levels) > 1 else (level.ahead, level.new):
            while row:
                ready = row.popitem(last=False)[1]
                yield self._left(ready) if self.further_rows else ready

    def first(self) -> TaskReady | None:
        """Return the task that `drain` yields next; None if no task waits."""
        row = self._first_row()
        return next(iter(row.values())) if row else None

    def greatest(self) -> float:
        """Return the priority of the first task; -inf if no task waits."""
        first = self.first()
        return -inf if first is None else first.spec.priority

    def _first_row(self) -> Row:
        """Return the part of the queue that has the first task; an empty part if no task waits."""
        level = self._levels.first()
        return level.ahead or level.new

    def _rows(self) -> Iterator[Row]:
        self._levels.first()
        for level in self._levels.in_order():
            yield level.ahead
            yield level.new
