"""Renewal: replaces the processors of a worker by fresh ones, each after the tasks that it holds.

Used by the slot; tells processors to end. One that has the usual place comes back by itself, started by the pool. Tasks
that come after the order run in processors that were not there when it came.

Must never: end a processor that holds tasks, or hand tasks to one that is to end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scaler.executors.messages import BeginAnew
from scaler.executors.processes.messages import DismissProcessor
from scaler.executors.processes.slot.processor_states import DISMISS, IDLE, LOSE_SLOT
from scaler.executors.processes.slot.processors import ProcessorRecord, Processors
from scaler.message import message

AGAIN_SECONDS = 5.0
"""One that could not end, because a client in it has open tasks, takes tasks again, and is told once more then."""


@message
class StayCheck:
    """A processor was told to end some time ago: see whether it has."""

    number: int


class Renewal:
    """Replaces the processors of one slot.

    Args:
        processors: the processors of the slot.
        schedule: has the slot get a message after some seconds.
    """

    def __init__(self, processors: Processors, schedule: Callable[[float, object], object]) -> None:
        self._processors = processors
        self._schedule = schedule
        self.old: set[int] = set()
        """the numbers of those that are to end and were not told so yet: they get no tasks"""
        self.mail: dict[type, Callable[[Any], None]] = {BeginAnew: self._begin, StayCheck: self._check}

    def leave(self, processor: ProcessorRecord) -> None:
        """A processor is gone."""
        self.old.discard(processor.number)

    def dismiss(self) -> None:
        """Tell those to end that hold nothing."""
        processors, active = self._processors, self._processors.active
        if active is not None and active.number in self.old and not active.held:
            processors.apply(active, LOSE_SLOT)
        for processor in list(processors.in_state(IDLE).values()):
            if processor.number in self.old:
                self.old.discard(processor.number)
                processors.apply(processor, DISMISS)
                processor.proxy.send(DismissProcessor(processor.number))
                self._schedule(AGAIN_SECONDS, StayCheck(processor.number))

    def audit(self, numbers: set[int]) -> None:
        """Audit that nothing is kept of other processors than these."""
        assert self.old <= numbers, "a processor is to end that is gone"

    def _begin(self, _begin: BeginAnew) -> None:
        self.old.update(processor.number for processor in self._processors)

    def _check(self, check: StayCheck) -> None:
        if self._processors.get(check.number) is not None:
            self.old.add(check.number)
