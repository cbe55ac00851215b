"""RecentRuns: the workers that ran the tasks that ended last.

Worker proxies write to it, client sessions read it for the story of a task that has ended. A range of rows counts as
one task. Both take constant time.
"""

from __future__ import annotations

from scaler.ids import TaskId

RECENT_MOST = 10_000
"""The least number of tasks that are remembered; at most twice as many are, in about 2 MiB."""


class RecentRuns:
    """The last tasks that ended, each with the name of its worker, in two generations.

    Attributes:
        latest: the younger generation. Its writer calls `limit` after some tasks.
    """

    def __init__(self) -> None:
        self.latest: dict[TaskId, str] = {}
        self._earlier: dict[TaskId, str] = {}

    def limit(self) -> None:
        """Begin a new generation if the younger one is full, and forget the older one."""
        if len(self.latest) >= RECENT_MOST:
            self._earlier, self.latest = self.latest, {}

    def worker_of(self, task_id: TaskId) -> str:
        """Return the worker of the last run of a task; empty if the task is not remembered."""
        return self.latest.get(task_id) or self._earlier.get(task_id, "")
