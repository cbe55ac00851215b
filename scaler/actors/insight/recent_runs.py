"""RecentRuns: the workers that ran the tasks that ended last.

Worker proxies add to it, client sessions read it for the story of a task that has ended. A range of rows counts as one
task.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from scaler.ids import TaskId

RECENT_MOST = 10_000
"""The most tasks that are remembered; they take about 1 MiB."""


class RecentRuns:
    """The last tasks that ended, each with the name of its worker. The oldest are forgotten."""

    def __init__(self) -> None:
        runs: deque[tuple[TaskId, str]] = deque(maxlen=RECENT_MOST)
        self._runs = runs
        self.add: Callable[[tuple[TaskId, str]], None] = runs.append
        """remembers a run; a method of the deque itself, because each task calls it"""

    def worker_of(self, task_id: TaskId) -> str:
        """Return the worker of the last run of a task; empty if the task is not remembered. It takes a search."""
        return next((worker for known, worker in reversed(self._runs) if known == task_id), "")
