"""Cancellation: ends a task in a processor before the task is done.

Used by the slot. A running task is interrupted; a waiting task is kept from being started.

    stop --interrupt--> its result, "stopped"
      |                    ^
      |  repeated until the task has ended
      +--grace is over--> the processor is killed

A task may resist: it is deep in C code, stays in its `finally`, or catches everything. Then its processor is killed and
replaced. Cancellation never interrupts another task, and never answers for a task that may still run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from scaler.executors.answers import End
from scaler.executors.processes.messages import InterruptProcessor, KillProcessor
from scaler.executors.processes.slot.processor_states import DISTRUST, KILL, KILLED_STATES
from scaler.executors.processes.slot.processors import Mail, Now, ProcessorRecord, Processors, Schedule
from scaler.executors.task_queue import RunKey
from scaler.message import message
from scaler.wire.messages.common import TaskStatus

STOPPED = TaskStatus.CANCELED
"""The status in a processor's answer for a task that was withheld or interrupted."""
GRACE_SECONDS = 1.0
"""How long an interrupted task may take to end before its processor is killed."""
INSIST_SECONDS = 0.02
"""How often the progress page is read and the interrupt repeated, until the task has ended."""


@message
class StopDue:
    """Slot to itself, by timer: check whether the runs that must end in this processor have ended."""

    number: int


@dataclass(slots=True)
class _Stop:
    """The runs that must end in a processor. Removed at the first `StopDue` after these runs have ended."""

    ends: dict[RunKey, End]
    interrupted: int = 0
    """the number that the last interrupted task has in this processor; 0: no task was interrupted"""
    kill_at: float = 0.0


class Cancellation:
    """Ends tasks in the processors of one slot; `withhold` keeps a processor from starting later tasks."""

    def __init__(
        self, processors: Processors, now: Now, schedule: Schedule, withhold: Callable[[ProcessorRecord, int], None]
    ) -> None:
        self._processors = processors
        self._now = now
        self._schedule = schedule
        self._withhold = withhold
        self.stops: dict[int, _Stop] = {}
        """by processor number: the runs that must end in this processor"""
        self._reasons: dict[int, str] = {}
        self.mail: Mail = {StopDue: self._insist}

    def leave(self, processor: ProcessorRecord) -> None:
        """Forget a processor that has ended."""
        self.stops.pop(processor.number, None)
        self._reasons.pop(processor.number, None)

    def ends(self, processor: ProcessorRecord) -> dict[RunKey, End] | None:
        """Return the runs of this processor that must end, or None. Whoever reports the end of a run removes it."""
        stop = self.stops.get(processor.number)
        return stop.ends if stop is not None and stop.ends else None

    def why_killed(self, processor: ProcessorRecord) -> str:
        """Return why this processor was killed, as a part of a sentence."""
        return self._reasons[processor.number]

    def stop(self, processor: ProcessorRecord, ends: dict[RunKey, End]) -> None:
        """End these runs in the processor. If a run has to end already, the earlier reason stays."""
        stop = self.stops.get(processor.number)
        if stop is not None:
            stop.ends = ends | stop.ends
        else:
            stop = self.stops[processor.number] = _Stop(ends)
            self._schedule(INSIST_SECONDS, StopDue(processor.number))
        if processor.state not in KILLED_STATES:
            self._stop_all(processor, stop)

    def kill(self, processor: ProcessorRecord, reason: str) -> None:
        """Kill the processor. The outcome of its tasks is decided when it is dead."""
        self._processors.apply(processor, KILL)
        self._send_kill(processor, reason)

    def distrust(self, processor: ProcessorRecord, reason: str) -> None:
        """Kill the processor, and ignore its messages from now on."""
        self._processors.apply(processor, DISTRUST)
        self._send_kill(processor, reason)

    def _send_kill(self, processor: ProcessorRecord, reason: str) -> None:
        self._reasons[processor.number] = reason
        processor.proxy.send(KillProcessor(processor.number, reason))

    def _insist(self, due: StopDue) -> None:
        processor, stop = self._processors.get(due.number), self.stops.get(due.number)
        if processor is None or stop is None or processor.state in KILLED_STATES:
            return
        if not stop.ends:
            del self.stops[due.number]
            return
        self._stop_all(processor, stop)
        self._schedule(INSIST_SECONDS, due)

    def _stop_all(self, processor: ProcessorRecord, stop: _Stop) -> None:
        executing = processor.progress.executing
        numbers = processor.numbers_of(stop.ends)
        if executing in numbers:
            self._interrupt(processor, stop, executing)
        if numbers and numbers[-1] > max(executing, processor.progress.withheld_to):
            self._withhold(processor, executing)

    def _interrupt(self, processor: ProcessorRecord, stop: _Stop, executing: int) -> None:
        if stop.interrupted != executing:
            stop.interrupted = executing
            stop.kill_at = self._now() + GRACE_SECONDS
            processor.progress.interrupt(executing)
        elif self._now() >= stop.kill_at:
            self.kill(processor, f"a task has not ended {GRACE_SECONDS:g} s after it was interrupted")
            return
        if processor.progress.is_interrupt_due:
            processor.proxy.send(InterruptProcessor(processor.number))
