"""RecentRuns: the workers of the most recently ended tasks.

Worker proxies write to it. Client sessions read it to explain a task that has ended. A range of rows counts as one
task. Both operations take constant time.
"""

from __future__ import annotations

from scaler.ids import TaskId

RECENT_MOST = 10_000
"""Number of remembered tasks: at least this many, and at most twice as many, in about 2 MiB."""


class RecentRuns:
    """The most recently ended tasks, each with the name of its worker, in two generations.

    Attributes:
        latest: the younger generation. Its writer calls `limit` after some tasks.
    """

    def __init__(self) -> None:
        self.latest: dict[TaskId, str] = {}
        self._earlier: dict[TaskId, str] = {}

    def limit(self) -> None:
        """Start a new generation if the younger one is full, and drop the older one."""
        if len(self.latest) >= RECENT_MOST:
            self._earlier, self.latest = self.latest, {}

    def worker_of(self, task_id: TaskId) -> str:
        """Return the worker of the last run of a task; empty if the task is not remembered."""
        return self.latest.get(task_id) or self._earlier.get(task_id, "")
