"""GarbageCollector: asks workers, by timer, to drop objects that were not used lately. No idle processor is woken."""

from __future__ import annotations

import logging

from scaler.executors.messages import CollectionDue
from scaler.kit import Actor, ActorRef, handles
from scaler.message import message
from scaler.process.memory import trim_memory

logger = logging.getLogger(__name__)


@message
class _IntervalOver:
    pass


class GarbageCollector(Actor):
    """Sends `CollectionDue` to workers every `interval_seconds`, and trims agent memory above `trim_above_bytes`."""

    def __init__(self, workers: tuple[ActorRef, ...], interval_seconds: float, trim_above_bytes: int) -> None:
        self._workers = workers
        self._interval_seconds = interval_seconds
        self._trim_above_bytes = trim_above_bytes

    def on_start(self) -> None:
        self.schedule(self._interval_seconds, _IntervalOver())

    @handles(_IntervalOver)
    def _interval_over(self, _over: _IntervalOver) -> None:
        self.schedule(self._interval_seconds, _IntervalOver())
        for worker in self._workers:
            worker.send(CollectionDue())
        if trim_memory(self._trim_above_bytes):
            logger.debug("the agent gave memory back to the system")
