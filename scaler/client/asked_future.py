"""AskedFuture: what users may ask the scheduler about the task of a future: why it waits, what it has written, and how
far it is.

The base of `ScalerFuture`; called by any thread of the user. Must never: end the future, or read its result.
"""

from __future__ import annotations

from concurrent.futures import Future
from typing import TypeVar

from scaler.client import task_log
from scaler.client.arrival import FutureLink
from scaler.client.explanation import ANSWER_SECONDS, Story, tell
from scaler.client.link.outputs import Taker
from scaler.client.task_log import LOG_SECONDS, TaskLog, TaskProgress
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

    def progress(self, timeout: float | None = LOG_SECONDS) -> TaskProgress | None:
        """Return how far the task has said last to be, with `scaler.current_task().report(fraction, text)`.

        None: it has said nothing yet, or the scheduler has forgotten it (docs/howto/progress.md).

        Args:
            timeout: how many seconds to wait for the scheduler; None: for ever.

        Raises:
            TimeoutError: if it did not answer in time.
            DisconnectedError: if the client is disconnected.
        """
        self._link.check_process()
        return task_log.ask_progress(self._link, self.task_id, timeout)

    def ask_report(self, taker: Taker) -> None:
        """Have `taker` get what the task has reported last, in the link's thread, and do not wait for it."""
        self._link.read_output(self.task_id, taker, report=True)
