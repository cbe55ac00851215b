"""GarbageCollector: periodic requests to workers to drop unused objects.

It has only a timer. It notifies the workers, which know what their processors used, and trims the memory of the agent
itself. A worker does not wake an idle processor.
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
    """The one collector of an agent.

    Args:
        interval_seconds: the time between two collections.
        trim_above_bytes: an agent with more memory than this returns unused memory to the system.
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
