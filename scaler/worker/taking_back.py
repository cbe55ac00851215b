"""Taking back: the tasks in a processor that are behind one that takes long, or waits, or shall end.

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
from scaler.worker.crew import Work

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
class TakeBackDue:
    """This processor has noticed that it must not start more."""

    number: int
    executing: int
    results_seen: int


class TakingBack:
    """Takes tasks back from the processors of one slot.

    Args:
        schedule: has the slot get a message after some seconds.
    """

    def __init__(self, schedule: Callable[[float, object], object]) -> None:
        self._schedule = schedule

    def watch(self, work: Work) -> None:
        """It was handed tasks: look at it from now on, as long as it has more than one."""
        if len(work.held) > 1 and not work.is_watched:
            work.is_watched = True
            self._schedule(STUCK_SECONDS, StuckCheck(work.number, work.results_seen))

    def check(self, work: Work, check: StuckCheck) -> None:
        """Withhold the others if the processor has been at one task all the time."""
        work.is_watched = False
        if work.waiting is not None:
            return
        executing = work.progress.executing
        is_stuck = work.results_seen == check.results_seen and work.results_seen < executing
        if is_stuck and len(work.held) > 1 and executing > work.progress.withheld_to:
            self.withhold(work, executing)
        else:
            self.watch(work)

    def withhold(self, work: Work, executing: int) -> None:
        """Have the processor start none of the tasks behind the executing one.

        Between two messages it executes none, and which it has behind it is known only when it answers for them.
        """
        results_seen = work.results_seen
        work.progress.withhold(after=max(executing, results_seen), to=results_seen + len(work.held))
        if executing:
            self._schedule(SETTLE_SECONDS, TakeBackDue(work.number, executing, results_seen))

    def take_back(self, work: Work, due: TakeBackDue) -> list[RunTask]:
        """Return the tasks behind the executing one, which the processor does not hold any more.

        If that one just ended, it still holds them, and answers for each.
        """
        if work.is_doomed or work.results_seen != due.results_seen or work.progress.executing != due.executing:
            return []
        taken = []
        for index in range(due.executing - work.results_seen, len(work.held)):
            entry = work.held[index]
            if entry is not None:
                taken.append(entry.task)
                work.held[index] = None
        work.held_us = inf
        return taken
