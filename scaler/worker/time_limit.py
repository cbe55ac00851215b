"""TimeLimit: for how long a task may run, its waits for other tasks included.

Used by the slot, with its processors. It reads when a task began from the progress page, and says what has run for too
long; that the task ends is the slot's business.
"""

from __future__ import annotations

from collections.abc import Callable

from scaler.message import message
from scaler.wire.messages.common import TaskStatus
from scaler.worker.processors import End, ProcessorState
from scaler.worker.task_queue import RunKey, run_of


@message
class LimitDue:
    """A task of this processor may have run for too long."""

    number: int


class TimeLimit:
    """Looks after the processors of one slot.

    Args:
        limit_seconds: how long a task may run; 0: as long as it likes.
        name: of the worker, as errors tell it.
        now: the present, in seconds.
        schedule: has the slot get a message after some seconds.
    """

    def __init__(
        self,
        limit_seconds: float,
        name: str,
        now: Callable[[], float],
        schedule: Callable[[float, object], object],
    ) -> None:
        self._limit_seconds = limit_seconds
        self._name = name
        self._now = now
        self._schedule = schedule

    def watch(self, processor: ProcessorState) -> None:
        """It was handed tasks: look at it from now on."""
        if self._limit_seconds and not processor.is_timing:
            processor.is_timing = True
            self._schedule(self._limit_seconds, LimitDue(processor.number))

    def check(self, processor: ProcessorState, due: LimitDue) -> dict[RunKey, End]:
        """Return what shall end; look again when the task will have run for too long, or the next one could."""
        if processor.is_doomed:
            return {}
        if not processor.held:
            processor.is_timing = False
            return {}
        overdue: dict[RunKey, End] = {}
        executing = processor.progress.executing
        ran_seconds = processor.progress.ran_seconds(executing, self._now())
        if ran_seconds >= self._limit_seconds:
            task = processor.task_at(executing)
            if task is not None and run_of(task) not in processor.unwanted:
                overdue[run_of(task)] = self._end_after(ran_seconds)
            ran_seconds = 0.0
        self._schedule(self._limit_seconds - ran_seconds, due)
        return overdue

    def _end_after(self, ran_seconds: float) -> End:
        return End(
            TaskStatus.TIMED_OUT,
            f"it ran for {ran_seconds:.3g} s on worker {self._name}, where no task may run for longer than "
            f"{self._limit_seconds:g} s (task_timeout_seconds)",
        )
