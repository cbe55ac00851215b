"""AskedFuture: what users may ask the scheduler about the task of a future: why it waits, and what it has written.

The base of `ScalerFuture`; called by any thread of the user. Must never: end the future, or read its result.
"""

from __future__ import annotations

from concurrent.futures import Future
from typing import TypeVar

from scaler.client import task_log
from scaler.client.arrival import FutureLink
from scaler.client.explanation import ANSWER_SECONDS, Story, tell
from scaler.client.task_log import LOG_SECONDS, TaskLog
from scaler.ids import TaskId

T = TypeVar("T")


class AskedFuture(Future[T]):
    """The questions of a future."""

    task_id: TaskId
    name: str
    _link: FutureLink

    def explain(self) -> str:
        """Return in one sentence what the task waits for and what can be done about it, or how it ended."""
        return self.story().sentence

    def story(self) -> Story:
        """Return what is known of the task: state, worker, what it waits for, why earlier tries ended."""
        self._link.check_process()
        return tell(self._link, self.task_id, self.name, self, ANSWER_SECONDS)

    def logs(self, timeout: float | None = LOG_SECONDS) -> TaskLog:
        """Return what the task has written so far: on standard output, on standard error, and by `logging`.

        It is a sequence of lines with time, worker and task name, those of earlier tries too, and says how many lines
        were left out. The scheduler keeps the last lines of each task for a while (docs/howto/output.md).

        Args:
            timeout: how many seconds to wait for the scheduler; None: for ever.

        Raises:
            TimeoutError: if it did not answer in time.
            DisconnectedError: if the client is disconnected.
        """
        self._link.check_process()
        return task_log.ask(self._link, self.task_id, timeout)
