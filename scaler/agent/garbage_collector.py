"""GarbageCollector: periodic requests to workers to drop unused objects.

A timer starts each collection. The collector notifies the workers, which know what their processors used, and trims the
memory of the agent itself. A worker does not wake an idle processor.
"""

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
    """Notifies the workers of an agent at a fixed interval, and trims the agent's memory.

    Args:
        interval_seconds: the time between two collections.
        trim_above_bytes: the memory of an agent above which unused memory is returned to the system.
    """

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
