"""Suspension: stops the process of a blocked task, and continues it. Used only with `hard_processor_suspend`.

    client in the task --ClientResting--> scheduler --ProcessorNews--> slot --SuspendProcessor--> processor, fork server

A stopped process receives no messages. So the scheduler decides when a process may be stopped: when all items of its
client have arrived and no item is on its way to this client. The scheduler also reports when an item is on its way.
Both reports arrive on one connection, in order.

Messages may be lost. So every few seconds a stopped process is continued: it sends its heartbeat, and renews a lost
connection. It is stopped again only after its client has reported again that the client only waits. No process stays
stopped when its task must end or its wait is over.
"""

from __future__ import annotations

from typing import NamedTuple

from scaler.executors.processes.messages import SuspendProcessor
from scaler.executors.processes.slot.processors import Mail, Now, ProcessorRecord, Processors, Schedule
from scaler.message import message
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.worker import ProcessorNews

STOP_MOST_SECONDS = 5.0
"""The longest time for which a process is stopped; ZeroMQ closes a connection after 20 s of silence."""


@message
class SuspensionDue:
    """Slot to itself, by timer: continue this process, which was stopped for long enough."""

    number: int
    stop: int


class _Wait(NamedTuple):
    number: int
    ends_at: float


class Suspension:
    """Stops and continues the processors of one slot."""

    def __init__(self, processors: Processors, now: Now, schedule: Schedule) -> None:
        self._processors = processors
        self._now = now
        self._schedule = schedule
        self._waits: dict[int, _Wait] = {}
        self._stopped: dict[int, int] = {}
        """number of a stopped processor -> the number of this stop; one count numbers the stops of all processors"""
        self._stops = 0
        self.mail: Mail = {Batch[ProcessorNews]: self._processors_news, SuspensionDue: self._stop_over}

    def leave(self, processor: ProcessorRecord) -> None:
        """Forget a processor that has ended."""
        self._waits.pop(processor.number, None)
        self._stopped.pop(processor.number, None)

    def begin(self, processor: ProcessorRecord, wait: int, timeout_seconds: float) -> None:
        """Record that the processor's task waits. The process may be stopped during this wait unless `wait` is 0."""
        self.end(processor)
        if wait:
            self._waits[processor.number] = _Wait(wait, self._now() + timeout_seconds)

    def end(self, processor: ProcessorRecord) -> None:
        """Continue the process of this processor, because its task no longer waits or must end."""
        self._waits.pop(processor.number, None)
        self._continue(processor)

    def _processors_news(self, batch: Batch[ProcessorNews]) -> None:
        for news in batch:
            wait = self._waits.get(news.processor)
            processor = self._processors.get(news.processor)
            if wait is None or processor is None or wait.number != news.wait:
                continue  # news of another wait
            if news.has_news:
                self._continue(processor)
            elif processor.number not in self._stopped and self._now() < wait.ends_at:
                self._stop(processor, wait)

    def _stop(self, processor: ProcessorRecord, wait: _Wait) -> None:
        self._stops += 1
        self._stopped[processor.number] = self._stops
        processor.proxy.send(SuspendProcessor(processor.number, True))
        seconds = min(STOP_MOST_SECONDS, wait.ends_at - self._now())
        self._schedule(seconds, SuspensionDue(processor.number, self._stops))

    def _stop_over(self, due: SuspensionDue) -> None:
        processor = self._processors.get(due.number)
        if processor is not None and self._stopped.get(due.number) == due.stop:
            self._continue(processor)

    def _continue(self, processor: ProcessorRecord) -> None:
        if self._stopped.pop(processor.number, None) is not None:
            processor.proxy.send(SuspendProcessor(processor.number, False))
