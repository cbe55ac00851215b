"""Reserve: how many processors a worker has besides the one that holds the slot.

A worker without blocked tasks has no reserve. When all processors must be replaced, each ends when the tasks that it
holds have ended, and later tasks run in new processors. The permanent processor of a worker is dismissed only if it
must be replaced, because the pool starts it again without a request. A processor that holds tasks is never dismissed.
"""

from __future__ import annotations

from collections.abc import Callable

from scaler.executors.messages import RestartProcesses
from scaler.executors.processes.messages import DismissProcessor, ProcessorComing, ProcessorKept, ProcessorNotComing
from scaler.executors.processes.slot.processor_states import DISMISS, DISMISSED, IDLE, LOSE_SLOT, STAY
from scaler.executors.processes.slot.processors import Mail, ProcessorRecord, Processors, Schedule
from scaler.message import message

READY_AHEAD = 1
"""How many processors are kept idle, or being started, while tasks are blocked. Each start costs 10 ms of a core."""
SPARE_KEPT = 2
"""How many idle extra processors are kept instead of being dismissed."""
SPARE_SECONDS = 5.0
"""The time between two checks for unused processors. A processor is dismissed after at least this idle time."""


AGAIN_SECONDS = 5.0
"""The pause before a processor whose client had open tasks is dismissed again. Meanwhile the processor takes tasks."""


@message
class EndCheck:
    """Slot to itself, by timer: check whether a dismissed processor has ended."""

    number: int


@message
class SpareCheck:
    """Slot to itself, by timer: look for processors that have executed no task since the last check."""


class Reserve:
    """Requests and dismisses the extra processors of one slot; `add` asks the pool for one more processor."""

    def __init__(self, processors: Processors, add: Callable[[], None], schedule: Schedule) -> None:
        self._processors = processors
        self._add = add
        self._schedule = schedule
        self._asked = 0
        """the number of requested extra processors whose start has not been reported yet"""
        self._is_usual_due = False
        """whether the pool is about to restart the permanent processor"""
        self._pool = 0
        """the number of the pool that has received the requests"""
        self._results_then: dict[int, int] = {}
        """by extra processor that was idle at the last check: how many results it had returned"""
        self._has_check = False
        self.old: set[int] = set()
        """the numbers of processors that must be replaced and were not dismissed yet; these processors get no tasks"""
        self.mail: Mail = {
            ProcessorComing: self._started,
            ProcessorNotComing: self._not_coming,
            ProcessorKept: self._kept,
            SpareCheck: self._check,
            RestartProcesses: self._restart,
            EndCheck: self._check_end,
        }

    def leave(self, processor: ProcessorRecord) -> None:
        """Forget a processor that has ended. The pool replaces a permanent processor without a request."""
        self._results_then.pop(processor.number, None)
        self.old.discard(processor.number)
        self._is_usual_due |= not processor.is_extra

    def fill(self) -> None:
        """Keep idle processors ready, so that the next task that blocks does not wait for a fork."""
        processors = self._processors
        wanted = READY_AHEAD if processors.has_blocked else int(processors.active is None)
        for _ in range(wanted - self.count()):
            self._asked += 1
            self._add()

    def count(self) -> int:
        """Return how many processors are idle, requested or being started, or will replace dismissed ones."""
        processors = self._processors
        replaced = sum(not each.is_extra for each in processors.in_state(DISMISSED).values())
        return len(processors.in_state(IDLE)) + processors.coming() + self._asked + self._is_usual_due + replaced

    def watch(self) -> None:
        """Schedule a check if there are too many idle extra processors."""
        if not self._has_check and len(self._extra()) > SPARE_KEPT:
            self._has_check = True
            self._schedule(SPARE_SECONDS, SpareCheck())

    def _started(self, coming: ProcessorComing) -> None:
        if coming.pool != self._pool:
            self._pool, self._asked = coming.pool, 0
        if coming.is_extra:
            self._asked = max(0, self._asked - 1)
        else:
            self._is_usual_due = False
        self._processors.expect(coming.number)

    def _not_coming(self, not_coming: ProcessorNotComing) -> None:
        """Record a failed start. If the pool will retry it, count the start as requested, and request no other."""
        self._processors.give_up(not_coming.number)
        if not_coming.is_extra:
            self._asked += not_coming.is_tried_again
        else:
            self._is_usual_due |= not_coming.is_tried_again

    def _kept(self, stays: ProcessorKept) -> None:
        processor = self._processors.get(stays.number)
        if processor is not None:
            self._processors.apply(processor, STAY)
            self.watch()

    def _check(self, _due: SpareCheck) -> None:
        self._has_check = False
        then, extra = self._results_then, self._extra()
        unused = [processor for processor in extra if then.get(processor.number) == processor.results_seen]
        for processor in unused[: max(0, len(unused) - SPARE_KEPT)]:
            self._dismiss(processor)
        self._results_then = {processor.number: processor.results_seen for processor in self._extra()}
        self.watch()

    def dismiss_old(self) -> None:
        """Dismiss the processors that must be replaced and hold no tasks."""
        processors, active = self._processors, self._processors.active
        if active is not None and active.number in self.old and not active.held:
            processors.apply(active, LOSE_SLOT)
        for processor in list(processors.in_state(IDLE).values()):
            if processor.number in self.old:
                self.old.discard(processor.number)
                self._dismiss(processor)
                self._schedule(AGAIN_SECONDS, EndCheck(processor.number))

    def _restart(self, _begin: RestartProcesses) -> None:
        self.old.update(processor.number for processor in self._processors)

    def _check_end(self, check: EndCheck) -> None:
        if self._processors.get(check.number) is not None:
            self.old.add(check.number)

    def _dismiss(self, processor: ProcessorRecord) -> None:
        self._processors.apply(processor, DISMISS)
        processor.proxy.send(DismissProcessor(processor.number))

    def _extra(self) -> list[ProcessorRecord]:
        return [processor for processor in self._processors.in_state(IDLE).values() if processor.is_extra]
