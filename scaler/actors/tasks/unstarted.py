"""Unstarted: which tasks with `at_most_once` this scheduler has cancelled before anybody was ordered to run them.

Tasks and graphs that are cancelled write to it, and tasks that are said again read it: when a client comes back after
its session has ended, these run as new ones. It outlives all sessions. Must never: have a task that may have been
started.
"""

from __future__ import annotations

from collections import OrderedDict

from scaler.ids import TaskId

KNOWN_MOST = 200_000
"""The most tasks that are remembered. One that is not is not started again."""


class Unstarted:
    """The last ones."""

    def __init__(self) -> None:
        self._task_ids: OrderedDict[TaskId, None] = OrderedDict()

    def add(self, task_id: TaskId) -> None:
        """Remember a task that certainly was not started."""
        self._task_ids[task_id] = None
        if len(self._task_ids) > KNOWN_MOST:
            self._task_ids.popitem(last=False)

    def take(self, task_id: TaskId) -> bool:
        """Return whether a task certainly was not started, and forget it: it may be started now."""
        return self._task_ids.pop(task_id, 0) is None
