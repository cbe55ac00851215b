"""TimeLimit: ends tasks that run for too long, including their waits for other tasks.

Used by the slot, with its processors. It reads the start of a task in the progress page.

Must never: end a task before its time, or one that is behind it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scaler.message import message
from scaler.wire.messages.common import TaskStatus
from scaler.worker.answers import End
from scaler.worker.processor_states import KILLED
from scaler.worker.processors import ProcessorRecord, Processors
from scaler.worker.task_queue import RunKey, run_of


@message
class LimitDue:
    """A task of this processor may have run for too long."""

    number: int


class TimeLimit:
    """Watches the processors of one slot.

    Args:
        limit_seconds: how long a task may run; 0: no limit.
        name: of the worker, for errors.
        processors: the processors of the slot.
        now: the present, in seconds.
        schedule: has the slot get a message after some seconds.
        end: ends runs that a processor holds.
    """

    def __init__(
        self,
        limit_seconds: float,
        name: str,
        processors: Processors,
        *,
        now: Callable[[], float],
        schedule: Callable[[float, object], object],
        end: Callable[[ProcessorRecord, dict[RunKey, End]], None],
    ) -> None:
        self._limit_seconds = limit_seconds
        self._name = name
        self._processors = processors
        self._now = now
        self._schedule = schedule
        self._end = end
        self._watched: set[int] = set()
        """processors for which a `LimitDue` is scheduled"""
        self.mail: dict[type, Callable[[Any], None]] = {LimitDue: self._due}

    def leave(self, processor: ProcessorRecord) -> None:
        """A processor is gone."""
        self._watched.discard(processor.number)

    def watch(self, processor: ProcessorRecord) -> None:
        """Watch this processor from now on: it was handed tasks."""
        if self._limit_seconds and processor.number not in self._watched:
            self._watched.add(processor.number)
            self._schedule(self._limit_seconds, LimitDue(processor.number))

    def audit(self, numbers: set[int]) -> None:
        """Audit that nothing is kept of other processors than these."""
        assert self._watched <= numbers, "the time limit watches a processor that is gone"

    def _due(self, due: LimitDue) -> None:
        """End the task if it is overdue. Check again when it, or the one after it, could be."""
        processor = self._processors.get(due.number)
        if processor is None or not processor.held or processor.state in KILLED:
            self._watched.discard(due.number)
            return
        executing = processor.progress.executing
        ran_seconds = processor.progress.ran_seconds(executing, self._now())
        if ran_seconds < self._limit_seconds:
            self._schedule(self._limit_seconds - ran_seconds, due)
            return
        self._schedule(self._limit_seconds, due)
        task = processor.task_at(executing)
        if task is not None:
            self._end(processor, {run_of(task): self._overdue(ran_seconds)})

    def _overdue(self, ran_seconds: float) -> End:
        return End(
            TaskStatus.TIMED_OUT,
            f"it ran for {ran_seconds:.3g} s on worker {self._name}, where no task may run for longer than "
            f"{self._limit_seconds:g} s (task_timeout_seconds)",
        )
