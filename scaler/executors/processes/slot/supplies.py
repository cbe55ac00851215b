"""Supplies: which objects each processor of a worker has, and when it drops them.

Used by the slot; sends to the processors. What is missing is asked for by the `Supply` of the worker. Must never: have
a processor forget an object that a task which it holds needs.
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
    """The objects of one processor."""

    results_collected: int = 0
    """how many results had been seen at the last collection"""


class Supplies:
    """What the processors of one slot have and get.

    Args:
        processors: the processors of the slot.
        supply: asks for what none of them has.
    """

    def __init__(self, processors: Processors, supply: Supply) -> None:
        self._processors = processors
        self.supply = supply
        self._stocks: dict[int, ProcessorStock] = {}
        self.mail: Mail = {CollectionDue: self._clean_all}

    def join(self, processor: ProcessorRecord) -> None:
        """Add a new processor, which has no objects."""
        self._stocks[processor.number] = ProcessorStock()
        self.supply.ask_anew()

    def leave(self, processor: ProcessorRecord) -> None:
        """A processor is gone."""
        del self._stocks[processor.number]

    def stock(self, processor: ProcessorRecord) -> Stock:
        """Return what this processor has."""
        return self._stocks[processor.number]

    def found(self, stored: CachedObject, processor: ProcessorRecord | None) -> None:
        """An object is here. Only the processor that holds the slot can have asked for it."""
        self.supply.found(stored.object_id)
        if processor is not None and stored.object_id not in (stock := self._stocks[processor.number]).has:
            stock.add(stored)
            processor.proxy.send(SendObject(processor.number, stored))

    def forget(self, object_ids: Collection[ObjectId]) -> None:
        """These objects are deleted: have all processors forget them."""
        for processor in self._processors:
            self._drop(processor, object_ids)

    def _drop(self, processor: ProcessorRecord, object_ids: Iterable[ObjectId]) -> None:
        """Have the processor forget objects, after the tasks that it was handed."""
        dropped = self._stocks[processor.number].forget(object_ids)
        if dropped:
            processor.proxy.send(DropObjects(processor.number, tuple(dropped)))

    def _clean_all(self, _due: CollectionDue) -> None:
        for processor in self._processors:
            self._clean(processor)

    def _clean(self, processor: ProcessorRecord) -> None:
        """Drop the objects that no task has needed since the last time. An idle processor is left alone."""
        stock = self._stocks[processor.number]
        unused = stock.has - stock.used
        if not unused and processor.results_seen == stock.results_collected:
            return
        self._drop(processor, unused)
        processor.proxy.send(CleanProcessor(processor.number))
        stock.results_collected = processor.results_seen
        # Of a task that is held something may have been deleted: the next task does not find it here.
        stock.used = stock.has.intersection(object_id for task in processor.tasks() for object_id in needs_of(task))
