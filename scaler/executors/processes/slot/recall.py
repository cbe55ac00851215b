"""Recall: takes back the tasks in a processor behind a task that takes long, waits, or must end.

Such tasks would be late, and cannot move to other workers, so they return to the queue. The rows behind a long row of
the same range stay: the processor ends the range itself (see `uplink.py`). But the slot cannot see which task a
processor is about to start. So it withholds the tasks on the progress page, and looks again some milliseconds
later:

    still the same task executes   -->  the processor has seen the page; the tasks behind are taken back
    another task executes          -->  the processor keeps the tasks, and answers for each that it does not start

A processor is watched while it holds several tasks. A task that may have been started is never taken back.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from scaler.executors.processes.slot.processor_states import BLOCKED, KILLED_STATES, RESUMABLE
from scaler.executors.processes.slot.processors import Mail, ProcessorRecord, Processors, Schedule
from scaler.kit import Timer
from scaler.message import message
from scaler.wire.messages.worker import RunTask

STUCK_SECONDS = 0.01
"""How long a processor may return no result before the tasks behind its first task are taken back; at least twice the
expected duration of the first task.
"""
TOGETHER_SECONDS = 0.035
"""The time added to `STUCK_SECONDS` for ranges: a processor keeps results of a range, to return them together (see
`uplink.py`).
"""
SETTLE_SECONDS = 0.003
"""How long the processor has to notice that tasks are withheld. The processor needs only a few memory accesses."""

_NOT_WATCHED = (BLOCKED, RESUMABLE, *KILLED_STATES)


@message
class StuckCheck:
    """Slot to itself, by timer: check whether this processor has finished a task."""

    number: int
    results_seen: int
    executing: int
    """the number of the task that the processor executed, or would execute next, when the check was scheduled"""


@message
class RecallDue:
    """Slot to itself, by timer: the processor has had time to notice which tasks it must not start."""

    number: int
    after: int
    """the number of the last task or row that may still start"""
    withheld_to: int
    """the number of the last withheld task; further tasks may have been sent to the processor since"""


class Recall:
    """Takes unstarted tasks back from the processors of one slot, and passes them to `take_back`."""

    def __init__(
        self, processors: Processors, schedule: Schedule, take_back: Callable[[ProcessorRecord, list[RunTask]], None]
    ) -> None:
        self._processors = processors
        self._schedule = schedule
        self._take_back = take_back
        self._watched: dict[int, tuple[int, Timer]] = {}
        """number of a processor with a scheduled `StuckCheck` -> its results when this was scheduled, and the timer"""
        self.mail: Mail = {StuckCheck: self._check, RecallDue: self._recall}

    def leave(self, processor: ProcessorRecord) -> None:
        """Forget a processor that has ended."""
        self._watched.pop(processor.number, None)

    def watch(self, processor: ProcessorRecord) -> None:
        """Watch this processor, which has received tasks, while it has more than one task."""
        held = processor.held
        if len(held) < 2:
            return
        number, results_seen = processor.number, processor.results_seen
        watched = self._watched.get(number)
        if watched is not None and watched[0] == results_seen:
            return
        if watched is not None:
            watched[1].cancel()  # an outdated check need not wake the agent
        first = held[0]
        seconds = STUCK_SECONDS
        if first is not None:
            seconds = max(seconds, 2e-6 * first[1]) + (TOGETHER_SECONDS if first[0].rows else 0)
        executing = max(processor.progress.executing, results_seen + 1)
        self._watched[number] = results_seen, self._schedule(seconds, StuckCheck(number, results_seen, executing))

    def withhold(self, processor: ProcessorRecord, executing: int) -> None:
        """Withhold all tasks and rows behind the executing one, and take the tasks back after `SETTLE_SECONDS`.

        If no task executes (`executing` is 0), none is taken back: the processor answers for those that it does not
        start.
        """
        due = self._withhold(processor, executing)
        if executing:
            self._schedule(SETTLE_SECONDS, due)

    def withhold_stuck(self, processor: ProcessorRecord, executing: int) -> None:
        """Take back at once the tasks behind a task that resumes only with permission. They have not started."""
        self._recall(self._withhold(processor, executing))

    def _withhold(self, processor: ProcessorRecord, after: int) -> RecallDue:
        results_seen = processor.results_seen
        last = results_seen + len(processor.held)
        processor.progress.withhold(after=max(after, results_seen), to=last)
        return RecallDue(processor.number, after, last)

    def _check(self, check: StuckCheck) -> None:
        """Withhold the tasks behind the executing task, if no task was finished since the check was scheduled."""
        watched = self._watched.get(check.number)
        if watched is None or watched[0] != check.results_seen:
            return  # another check is scheduled
        del self._watched[check.number]
        processor = self._processors.get(check.number)
        if processor is None or processor.state in _NOT_WATCHED:
            return
        executing = processor.progress.executing
        has_finished = processor.results_seen != check.results_seen or executing > check.executing
        if has_finished or executing <= processor.results_seen:
            self.watch(processor)
        elif processor.has_behind(executing):
            self._schedule(SETTLE_SECONDS, self._withhold(processor, processor.last_number(executing)))

    def _recall(self, due: RecallDue) -> None:
        """Take back the withheld tasks.

        If the last task before them has just ended, the first of them may have started. Then the processor keeps them,
        and answers for each.
        """
        processor = self._processors.get(due.number)
        if processor is None or processor.state in KILLED_STATES:
            return
        results_seen = processor.results_seen
        if not results_seen < processor.progress.executing <= due.after:
            self.watch(processor)
            return
        after = processor.last_number(due.after)  # the processor answers for the other rows of the range that it runs
        taken = processor.take_back(range(after - results_seen, due.withheld_to - results_seen))
        if processor.held:
            processor.held_us = inf
        if taken:
            self._take_back(processor, taken)
