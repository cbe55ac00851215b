"""Recall: taking back the tasks in a processor that are behind one that takes long, or waits, or shall end.

Used by the slot, with its processors; writes to their progress pages. What a processor holds cannot be stolen and is
late behind a long task, so it comes back to the queue. But nobody can see which task a processor is about to start:

    withhold (the page) --some milliseconds--> has the same task been executed all the time?
                                                 yes: it has seen the page; those behind are taken back
                                                 no:  it answers for each that it did not start

Must never: take back a task that may have been started.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from scaler.message import message
from scaler.wire.messages.worker import RunTask
from scaler.worker.processors import ProcessorState

STUCK_SECONDS = 0.01
"""When a processor with several tasks finished none for so long, the others are taken back."""
SETTLE_SECONDS = 0.003
"""How long the processor has to notice that tasks are withheld; a few memory writes, so this is very long."""


@message
class StuckCheck:
    """Has this processor finished anything?"""

    number: int
    results_seen: int


@message
class RecallDue:
    """This processor has noticed that it must not start more."""

    number: int
    executing: int
    results_seen: int


class Recall:
    """Takes tasks back from the processors of one slot.

    Args:
        schedule: has the slot get a message after some seconds.
    """

    def __init__(self, schedule: Callable[[float, object], object]) -> None:
        self._schedule = schedule

    def watch(self, processor: ProcessorState) -> None:
        """It was handed tasks: look at it from now on, as long as it has more than one."""
        if len(processor.held) > 1 and not processor.is_watched:
            processor.is_watched = True
            self._schedule(STUCK_SECONDS, StuckCheck(processor.number, processor.results_seen))

    def check(self, processor: ProcessorState, check: StuckCheck) -> None:
        """Withhold the others if the processor has been at one task all the time."""
        processor.is_watched = False
        if processor.waiting is not None:
            return
        executing = processor.progress.executing
        is_stuck = processor.results_seen == check.results_seen and processor.results_seen < executing
        if is_stuck and len(processor.held) > 1 and executing > processor.progress.withheld_to:
            self.withhold(processor, executing)
        else:
            self.watch(processor)

    def withhold(self, processor: ProcessorState, executing: int) -> None:
        """Have the processor start none of the tasks behind the executing one.

        Between two messages it executes none, and which it has behind it is known only when it answers for them.
        """
        results_seen = processor.results_seen
        processor.progress.withhold(after=max(executing, results_seen), to=results_seen + len(processor.held))
        if executing:
            self._schedule(SETTLE_SECONDS, RecallDue(processor.number, executing, results_seen))

    def recall(self, processor: ProcessorState, due: RecallDue) -> list[RunTask]:
        """Return the tasks behind the executing one, which the processor does not hold any more.

        If that one just ended, it still holds them, and answers for each.
        """
        if (
            processor.is_doomed
            or processor.results_seen != due.results_seen
            or processor.progress.executing != due.executing
        ):
            return []
        taken = []
        for index in range(due.executing - processor.results_seen, len(processor.held)):
            entry = processor.held[index]
            if entry is not None:
                taken.append(entry.task)
                processor.held[index] = None
        processor.held_us = inf
        return taken
