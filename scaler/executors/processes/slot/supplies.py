"""Supplies: the objects that the tasks of a worker need, first of all their functions.

Used by the slot; asks the object cache through the slot, and sends to the processors. It knows which objects each
processor has, and which are on their way from the cache.

    task needs it --NeedObject--> object cache --ObjectFound--> HandObject --> processor has it
                         ^             |                                          | no task needed it for some time,
                         +--once more--+ ObjectLost                               v or it is deleted
                                                                              DropObjects

Must never: have a processor forget an object that a task which it holds needs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from scaler.executors.messages import CollectionDue, StoredObject
from scaler.executors.processes.messages import CleanProcessor, DropObjects, HandObject
from scaler.executors.processes.slot.processors import ProcessorRecord, Processors
from scaler.executors.task_queue import RunKey, run_of
from scaler.ids import ObjectId, split_ids
from scaler.wire.messages.worker import RunTask

AWAITED_OBJECTS = 4
"""How many objects are requested ahead. Tasks behind one that lacks an object continue in the meantime, since an object
may take long to arrive; but each takes memory when it is there."""


@dataclass(slots=True)
class _Stock:
    """The objects of one processor."""

    has: set[ObjectId] = field(default_factory=set)
    used: set[ObjectId] = field(default_factory=set)
    """of these, the objects of tasks that were handed over since the last collection"""
    results_collected: int = 0
    """how many results had been seen at the last collection"""


class Supplies:
    """What the processors of one slot have and get.

    Args:
        processors: the processors of the slot.
        ask: has the object cache tell the slot of an object, and says whether a task calls it.
    """

    def __init__(self, processors: Processors, ask: Callable[[ObjectId, bool], None]) -> None:
        self._processors = processors
        self._ask = ask
        self._stocks: dict[int, _Stock] = {}
        self._awaited: set[ObjectId] = set()
        self._doubted: dict[ObjectId, set[RunKey]] = {}
        """objects that were lost once and asked for again, and the runs that waited for them then"""
        self.mail: dict[type, Callable[[Any], None]] = {CollectionDue: self._clean_all}

    def join(self, processor: ProcessorRecord) -> None:
        """Add a new processor, which has no objects: objects that were requested before are requested again."""
        self._stocks[processor.number] = _Stock()
        self._awaited.clear()

    def leave(self, processor: ProcessorRecord) -> None:
        """A processor is gone."""
        del self._stocks[processor.number]

    def used_by(self, processor: ProcessorRecord) -> set[ObjectId]:
        """Return the objects that tasks in this processor needed; it has them."""
        return self._stocks[processor.number].used

    def has_all(self, processor: ProcessorRecord, task: RunTask) -> bool:
        """Return whether the processor has all that the task needs; if not, ask for the rest."""
        stock = self._stocks[processor.number]
        needs = _needs(task)
        missing = [object_id for object_id in needs if object_id not in stock.has]
        for object_id in missing:
            if object_id not in self._awaited:
                self._ask_for(object_id, object_id == task.function_id)
        if missing:
            return False
        stock.used.update(needs)
        return True

    def holds_up(self, processor: ProcessorRecord, task: RunTask) -> bool:
        """Return whether the tasks behind one that has not all it needs wait for it, and do not overtake it.

        A function comes at once: overtaking is not worth it.
        """
        return task.function_id not in self._stocks[processor.number].has or len(self._awaited) > AWAITED_OBJECTS

    def found(self, stored: StoredObject, processor: ProcessorRecord | None) -> None:
        """An object is here. Only the processor that holds the slot can have asked for it."""
        object_id = stored.object_id
        self._awaited.discard(object_id)
        self._doubted.pop(object_id, None)
        if processor is None:
            return
        stock = self._stocks[processor.number]
        if object_id not in stock.has:
            stock.has.add(object_id)
            processor.proxy.send(HandObject(processor.number, stored))

    def lost(self, object_id: ObjectId, tasks: Iterable[RunTask]) -> set[RunKey]:
        """An object is nowhere: ask once more, then return the runs that waited for it when it was asked for again.

        The first answer is not final: another client may have stored the object after the question was asked, and then
        submitted a task that is here already. The answer to the second question counts.
        """
        self._awaited.discard(object_id)
        doubted = self._doubted.pop(object_id, None)
        if doubted is not None:
            return doubted
        waiting = [task for task in tasks if object_id in _needs(task)]
        if waiting:
            self._doubted[object_id] = set(map(run_of, waiting))
            self._ask_for(object_id, any(task.function_id == object_id for task in waiting))
        return set()

    def forget(self, object_ids: Collection[ObjectId]) -> None:
        """These objects are deleted: have all processors forget them."""
        for processor in self._processors:
            self._drop(processor, object_ids)

    def audit(self, numbers: set[int]) -> None:
        """Audit that there is a stock for each of these processors, and for no other one."""
        assert self._stocks.keys() == numbers, "stocks of other processors"
        assert all(stock.used <= stock.has for stock in self._stocks.values()), "used, and not there"

    def _drop(self, processor: ProcessorRecord, object_ids: Iterable[ObjectId]) -> None:
        """Have the processor forget objects, after the tasks that it was handed."""
        stock = self._stocks[processor.number]
        dropped = stock.has.intersection(object_ids)
        if dropped:
            stock.has -= dropped
            stock.used -= dropped
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
        stock.used = stock.has.intersection(object_id for task in processor.tasks() for object_id in _needs(task))

    def _ask_for(self, object_id: ObjectId, is_function: bool) -> None:
        self._awaited.add(object_id)
        self._ask(object_id, is_function)


def _needs(task: RunTask) -> list[ObjectId]:
    """Return the ids of all objects that the task needs, its function first."""
    return [task.function_id, *(ObjectId(object_id) for object_id in split_ids(task.object_ids))]
