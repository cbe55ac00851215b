"""Reserve: how many processors a worker has more than it needs at the moment.

Used by the slot; has the pool start processors, and sends those away that had nothing to do. A worker whose tasks wait
for no others has one processor and no reserve.
"""

from __future__ import annotations

from collections.abc import Callable

from scaler.message import message
from scaler.worker.messages import DismissProcessor
from scaler.worker.processors import Processors

SPARE_KEPT = 2
"""How many processors more than the usual one stay, once tasks have waited for others."""
SPARE_SECONDS = 5.0
"""A processor more than that ends when it had nothing to do for so long."""


@message
class SpareCheck:
    """Is somebody still needed who had nothing to do for some time?"""


class Reserve:
    """The reserve of one slot.

    Args:
        processors: the processors.
        add: asks the pool for one more.
        schedule: has the slot get a message after some seconds.
    """

    def __init__(
        self, processors: Processors, add: Callable[[], None], schedule: Callable[[float, object], object]
    ) -> None:
        self._processors = processors
        self._add = add
        self._schedule = schedule
        self._is_watched = False

    def fill(self) -> None:
        """Have some more processors than are needed: the next task to wait shall not wait for a fork as well."""
        processors = self._processors
        wanted = SPARE_KEPT if processors.has_waiting() else int(processors.active is None)
        for _ in range(wanted - processors.reserve()):
            processors.asked += 1
            self._add()

    def watch(self) -> None:
        """One more has nothing to do: if there are too many of them, see after a while whether they are needed."""
        if not self._is_watched and self._processors.has_surplus(SPARE_KEPT):
            self._is_watched = True
            self._schedule(SPARE_SECONDS, SpareCheck())

    def check(self) -> None:
        """End those that had nothing to do since the last time, but for some."""
        self._is_watched = False
        for processor in self._processors.take_surplus(SPARE_KEPT):
            processor.proxy.send(DismissProcessor(processor.number))
        self.watch()
