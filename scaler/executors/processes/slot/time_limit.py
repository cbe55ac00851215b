"""TimeLimit: ends tasks that run for too long, including their waits for other tasks.

The start time of a task is read from the progress page. Only the overdue task is ended, and never before its limit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TypeAlias

from scaler.executors.answers import End
from scaler.executors.processes.slot.processor_states import KILLED_STATES
from scaler.executors.processes.slot.processors import Mail, Now, ProcessorRecord, Processors, Schedule
from scaler.executors.task_queue import RunKey, run_of
from scaler.message import message
from scaler.wire.codec.structs import RunOptions
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.worker import RunTask

EndRuns: TypeAlias = Callable[[ProcessorRecord, dict[RunKey, End]], None]
LOOK_LEAST_SECONDS = 0.01
"""The shortest time between two checks of one processor."""


@message
class LimitDue:
    """Slot to itself, by timer: check whether a task of this processor has run for too long."""

    number: int


class TimeLimit:
    """Watches the run times of tasks in the processors of one slot.

    Args:
        limit_seconds: how long a task may run, unless the options of the task set a shorter limit; 0: unlimited.
    """

    def __init__(
        self, limit_seconds: float, name: str, processors: Processors, now: Now, schedule: Schedule, end: EndRuns
    ) -> None:
        self._limit_seconds = limit_seconds
        self._name = name
        self._processors = processors
        self._now = now
        self._schedule = schedule
        self._end = end
        self._due_at: dict[int, float] = {}
        self.mail: Mail = {LimitDue: self._due}

    def leave(self, processor: ProcessorRecord) -> None:
        """Forget a processor that has ended."""
        self._due_at.pop(processor.number, None)

    def watch(self, processor: ProcessorRecord, tasks: Iterable[RunTask]) -> None:
        """Schedule a check of this processor, which has received these tasks, if a task has a time limit."""
        seconds = self._shortest(tasks)
        if seconds < math.inf and self._now() + seconds < self._due_at.get(processor.number, math.inf):
            self._look_in(processor.number, seconds)

    def _look_in(self, number: int, seconds: float) -> None:
        seconds = max(seconds, LOOK_LEAST_SECONDS)
        self._due_at[number] = self._now() + seconds
        self._schedule(seconds, LimitDue(number))

    def _shortest(self, tasks: Iterable[RunTask]) -> float:
        """Return the shortest time limit of these tasks; infinite if no task has a limit."""
        shortest = self._limit_seconds or math.inf
        for task in tasks:
            if task.options:
                shortest = min(shortest, _own_limit(task))
        return shortest

    def _due(self, due: LimitDue) -> None:
        """End the executing task if it is overdue. Schedule the next check for the earliest possible overdue time."""
        if self._now() < self._due_at.get(due.number, math.inf):
            return  # it was checked, or a later check is scheduled
        del self._due_at[due.number]
        processor = self._processors.get(due.number)
        if processor is None or not processor.held or processor.state in KILLED_STATES:
            return
        executing = processor.progress.executing
        ran_seconds = processor.progress.ran_seconds(executing, self._now())
        task = processor.task_at(executing)
        left_seconds = math.inf if task is None else self._shortest([task]) - ran_seconds
        next_seconds = self._shortest(each for each in processor.tasks() if each is not task)
        if left_seconds > 0:
            next_seconds = min(next_seconds, left_seconds)
        if next_seconds < math.inf:
            self._look_in(due.number, next_seconds)
        if task is not None and left_seconds <= 0:
            self._end(processor, {run_of(task): self._overdue(task, ran_seconds)})

    def _overdue(self, task: RunTask, ran_seconds: float) -> End:
        own = _own_limit(task)
        ran = f"it ran for {ran_seconds:.3g} s on worker {self._name}"
        if own < (self._limit_seconds or math.inf):
            return End(TaskStatus.TIMED_OUT, f"{ran}, longer than its limit of {own:g} s (its option timeout)")
        limit = f"where no task may run for longer than {self._limit_seconds:g} s (task_timeout_seconds)"
        return End(TaskStatus.TIMED_OUT, f"{ran}, {limit}")


def _own_limit(task: RunTask) -> float:
    return RunOptions.decode(task.options).timeout_ms / 1000 or math.inf
