"""RecentRuns: the workers of the most recently ended tasks. A range counts as a task; operations take constant time."""

from __future__ import annotations

from scaler.ids import TaskId

RECENT_MOST = 10_000
"""The number of the last ended tasks that are certainly kept. At most twice as many are kept, in about 2 MiB."""


class RecentRuns:
    """The most recently ended tasks, each with the name of its worker, in two generations.

    Worker proxies add ended tasks to `latest`, the younger generation, and then call `limit`.
    """

    def __init__(self) -> None:
        self.latest: dict[TaskId, str] = {}
        self._earlier: dict[TaskId, str] = {}

    def limit(self) -> None:
        """If the younger generation is full, make it the older generation, and start a new one."""
        if len(self.latest) >= RECENT_MOST:
            self._earlier, self.latest = self.latest, {}

    def worker_of(self, task_id: TaskId) -> str:
        """Return the name of the worker that ran a task last; empty if the task is unknown."""
        return self.latest.get(task_id) or self._earlier.get(task_id, "")
