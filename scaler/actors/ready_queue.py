"""ReadyQueue: the tasks that wait for a worker. Deepest first; within a priority those that are tried again, then the
others, first come, first served.

Only the balancer writes to it. Nearly always all tasks have the same priority; nested tasks have their depth. Every
operation takes constant time, but for a priority that is new.
"""

from __future__ import annotations

from bisect import insort
from collections import OrderedDict
from collections.abc import Iterator

from scaler.actors.kit import ActorRef
from scaler.actors.messages import TaskReady
from scaler.ids import TaskId

Row = OrderedDict[TaskId, TaskReady]


class _Level:
    """The tasks of one priority."""

    __slots__ = ("again", "new")

    def __init__(self) -> None:
        self.again: Row = OrderedDict()
        self.new: Row = OrderedDict()


class ReadyQueue:
    """Tasks in the order in which they are to be placed."""

    def __init__(self) -> None:
        self._levels = {0: _Level()}
        self._priorities = [0]
        """of the levels, ascending; levels above the first are dropped when they are found empty"""

    def __len__(self) -> int:
        return sum(len(level.again) + len(level.new) for level in self._levels.values())

    def __bool__(self) -> bool:
        return any(self.rows())

    def __iter__(self) -> Iterator[TaskReady]:
        return (ready for row in self.rows() for ready in row.values())

    def put(self, ready: TaskReady) -> None:
        """Add a task. One that waits already, and says so anew when asked, waits once."""
        spec = ready.spec
        level = self._levels.get(spec.priority)
        if level is None:
            level = self._new_level(spec.priority)
        if ready.again:
            level.again[spec.task_id] = ready
        else:
            level.new[spec.task_id] = ready
            if level.again:
                level.again.pop(spec.task_id, None)

    def withdraw(self, task: ActorRef, task_id: TaskId, priority: int) -> bool:
        """Remove a task. Returns whether it waited."""
        level = self._levels.get(priority)
        for row in (level.new, level.again) if level is not None else ():
            ready = row.get(task_id)
            if ready is not None and ready.task is task:
                del row[task_id]
                return True
        return False

    def remove(self, ready: TaskReady) -> bool:
        """Remove what a task said. Returns whether it waited, and has not said it anew since."""
        spec = ready.spec
        level = self._levels.get(spec.priority)
        for row in (level.new, level.again) if level is not None else ():
            if row.get(spec.task_id) is ready:
                del row[spec.task_id]
                return True
        return False

    def rows(self) -> Iterator[Row]:
        """Go through the rows in their order, to take tasks from the front of each."""
        levels, priorities = self._levels, self._priorities
        while len(priorities) > 1 and not (levels[priorities[-1]].again or levels[priorities[-1]].new):
            del levels[priorities.pop()]
        for priority in reversed(priorities):
            level = levels[priority]
            yield level.again
            yield level.new

    def clear(self) -> None:
        """Forget all tasks."""
        self._levels = {0: _Level()}
        self._priorities = [0]

    def _new_level(self, priority: int) -> _Level:
        insort(self._priorities, priority)
        level = self._levels[priority] = _Level()
        return level
