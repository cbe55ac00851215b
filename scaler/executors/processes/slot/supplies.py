"""Supplies: the objects of each processor of a worker, and when the processor drops them.

A processor never drops an object that a task in it needs. The worker's `Supply` requests missing objects.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from scaler.executors.messages import CachedObject, CollectionDue
from scaler.executors.processes.messages import CleanProcessor, DropObjects, SendObject
from scaler.executors.processes.slot.processors import Mail, ProcessorRecord, Processors
from scaler.executors.supply import Stock, Supply, needs_of
from scaler.ids import ObjectId


@dataclass(slots=True)
class ProcessorStock(Stock):
    """Records the objects of one processor."""

    results_collected: int = 0
    """the number of results that the processor had returned at its last `CleanProcessor`"""


class Supplies:
    """Records the objects of the processors of one slot, and sends and drops objects."""

    def __init__(self, processors: Processors, supply: Supply) -> None:
        self._processors = processors
        self.supply = supply
        self._stocks: dict[int, ProcessorStock] = {}
        self.mail: Mail = {CollectionDue: self._clean_all}

    def join(self, processor: ProcessorRecord) -> None:
        """Add a new processor, which has no objects."""
        self._stocks[processor.number] = ProcessorStock()
        self.supply.forget_requests()

    def leave(self, processor: ProcessorRecord) -> None:
        """Forget a processor that has ended."""
        del self._stocks[processor.number]

    def stock(self, processor: ProcessorRecord) -> Stock:
        """Return the record of the objects of this processor."""
        return self._stocks[processor.number]

    def found(self, stored: CachedObject, processor: ProcessorRecord | None) -> None:
        """Send an object to the processor that holds the slot: no other processor can have requested the object."""
        self.supply.found(stored.object_id)
        if processor is not None and stored.object_id not in (stock := self._stocks[processor.number]).has:
            stock.add(stored)
            processor.proxy.send(SendObject(processor.number, stored))

    def forget(self, object_ids: Collection[ObjectId]) -> None:
        """Drop deleted objects in all processors."""
        for processor in self._processors:
            self._drop(processor, object_ids)

    def _drop(self, processor: ProcessorRecord, object_ids: Iterable[ObjectId]) -> None:
        """Make the processor drop objects, after the tasks that it has already received."""
        dropped = self._stocks[processor.number].forget(object_ids)
        if dropped:
            processor.proxy.send(DropObjects(processor.number, tuple(dropped)))

    def _clean_all(self, _due: CollectionDue) -> None:
        for processor in self._processors:
            self._clean(processor)

    def _clean(self, processor: ProcessorRecord) -> None:
        """Drop objects that were not needed by any task since the last collection. An idle processor without such
        objects is left alone.
        """
        stock = self._stocks[processor.number]
        unused = stock.has - stock.used
        if not unused and processor.results_seen == stock.results_collected:
            return
        self._drop(processor, unused)
        processor.proxy.send(CleanProcessor(processor.number))
        stock.results_collected = processor.results_seen
        # An object of a held task may have been deleted: the next task does not find it here.
        stock.used = stock.has.intersection(object_id for task in processor.tasks() for object_id in needs_of(task))
