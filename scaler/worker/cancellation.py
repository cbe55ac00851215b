"""Cancellation: how a task that a processor holds ends before it is done.

Used by the slot, with its processors; sends to these and writes to their progress pages. A task that is executed is
interrupted, one that is not yet is kept from being started. The processor goes on with the others.

    unwanted --interrupt--> its result, "stopped"
        |                      ^
        |  asked again and again, until it has
        +--grace is over--> the processor is killed

A task may not let itself be interrupted: because it is deep in C code, holds on to its `finally`, or catches
everything. Then its processor is killed after some time, and another one goes on.

Must never: interrupt another task than the one that is meant, or answer for one that may still run.
"""

from __future__ import annotations

from collections.abc import Callable

from scaler.message import message
from scaler.wire.messages.common import TaskStatus
from scaler.worker.messages import InterruptProcessor, KillProcessor
from scaler.worker.processors import End, ProcessorState
from scaler.worker.task_queue import RunKey, run_of

STOPPED = TaskStatus.CANCELED
"""What a processor answers for a task that it was told not to start, or that was interrupted; never anything else."""
GRACE_SECONDS = 1.0
"""How long a task that was interrupted has to end before its processor is killed."""
INSIST_SECONDS = 0.02
"""How often the processor is asked again to interrupt a task, until it has, and its page looked at."""


@message
class StopDue:
    """Have the unwanted runs of this processor ended?"""

    number: int


class Stopping:
    """Ends tasks in the processors of one slot.

    Args:
        now: the present, in seconds.
        schedule: has the slot get a message after some seconds.
        withhold: has a processor start nothing behind the task with this number.
    """

    def __init__(
        self,
        now: Callable[[], float],
        schedule: Callable[[float, object], object],
        withhold: Callable[[ProcessorState, int], None],
    ) -> None:
        self._now = now
        self._schedule = schedule
        self._withhold = withhold

    def stop(self, processor: ProcessorState, runs: dict[RunKey, End]) -> None:
        """Have these runs end that the processor holds."""
        processor.unwanted = runs | processor.unwanted
        if processor.is_doomed:
            return
        self._stop_unwanted(processor)
        if not processor.is_insisting:
            processor.is_insisting = True
            self._schedule(INSIST_SECONDS, StopDue(processor.number))

    def insist(self, processor: ProcessorState, due: StopDue) -> None:
        """Stop again what has not ended yet."""
        if processor.is_doomed:
            return
        if not processor.unwanted:
            processor.is_insisting = False
            return
        self._stop_unwanted(processor)
        self._schedule(INSIST_SECONDS, due)

    def kill(self, processor: ProcessorState, reason: str) -> None:
        """End the processor with all that it holds; what becomes of its tasks is decided when it is dead."""
        processor.is_doomed = True
        processor.proxy.send(KillProcessor(processor.number, reason))

    def _stop_unwanted(self, processor: ProcessorState) -> None:
        """Interrupt the unwanted task that is executed, and keep those from being started that are not yet."""
        executing = processor.progress.executing
        numbers = [
            number
            for number, entry in enumerate(processor.held, processor.results_seen + 1)
            if entry is not None and run_of(entry.task) in processor.unwanted
        ]
        if executing in numbers:
            self._interrupt(processor, executing)
        if numbers and numbers[-1] > max(executing, processor.progress.withheld_to):
            self._withhold(processor, executing)

    def _interrupt(self, processor: ProcessorState, executing: int) -> None:
        if processor.interrupted != executing:
            processor.interrupted = executing
            processor.kill_at = self._now() + GRACE_SECONDS
            processor.progress.interrupt(executing)
        elif self._now() >= processor.kill_at:
            self.kill(processor, f"a task has not ended {GRACE_SECONDS:g} s after it was interrupted")
            return
        if processor.progress.is_interrupt_due:
            processor.proxy.send(InterruptProcessor(processor.number))
