"""Supplies: the objects that the tasks of a worker need, first of all their functions.

Used by the slot; asks the object cache through it, and sends to the processors. It knows which objects each processor
has, and which are on their way from the cache.

    task needs it --NeedObject--> object cache --ObjectFound--> HandObject --> processor has it
                         ^             |                                          | no task needed it for some time,
                         +--once more--+ ObjectLost                               v or it is deleted
                                                                              DropObjects

Must never: have a processor forget an object that a task which it holds needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from scaler.agent.messages import StoredObject
from scaler.ids import ObjectId, split_ids
from scaler.wire.messages.worker import RunTask
from scaler.worker.messages import CleanProcessor, DropObjects, HandObject
from scaler.worker.processors import ProcessorState
from scaler.worker.task_queue import RunKey, run_of

AWAITED_OBJECTS = 4
"""How many objects are asked for before the tasks that need them are waited for. Those behind go on meanwhile, since an
object may be long on its way; but each takes memory when it is there."""


class Supplies:
    """What the processors of one slot have and get.

    Args:
        ask: has the object cache tell the slot of an object.
    """

    def __init__(self, ask: Callable[[ObjectId], None]) -> None:
        self._ask = ask
        self._awaited: set[ObjectId] = set()
        self._doubted: dict[ObjectId, set[RunKey]] = {}
        """objects that were lost once and asked for again, and the runs that waited for them then"""

    def has_all(self, processor: ProcessorState, task: RunTask) -> bool:
        """Return whether the processor has all that the task needs; if not, ask for the rest."""
        needs = _needs(task)
        missing = [object_id for object_id in needs if object_id not in processor.has]
        for object_id in missing:
            if object_id not in self._awaited:
                self._ask_for(object_id)
        if missing:
            return False
        processor.used.update(needs)
        return True

    def holds_up(self, processor: ProcessorState, task: RunTask) -> bool:
        """Return whether those behind a task that has not all it needs wait for it, and do not overtake it."""
        # A function comes at once, and nobody need be overtaken for that.
        return task.function_id not in processor.has or len(self._awaited) > AWAITED_OBJECTS

    def found(self, stored: StoredObject, processor: ProcessorState | None) -> None:
        """An object is here: for this processor, unless it has it. Nobody has asked for any other one's sake."""
        object_id = stored.object_id
        self._awaited.discard(object_id)
        self._doubted.pop(object_id, None)
        if processor is not None and object_id not in processor.has:
            processor.has.add(object_id)
            processor.proxy.send(HandObject(processor.number, stored))

    def lost(self, object_id: ObjectId, tasks: Iterable[RunTask]) -> set[RunKey]:
        """An object is nowhere: ask once more, then return the runs that waited for it when it was asked for again.

        Not at once: the last client that had it may have left just before another one sent it, with a task that came
        here between the question and its answer. When it is asked for again, that is known.
        """
        self._awaited.discard(object_id)
        doubted = self._doubted.pop(object_id, None)
        if doubted is not None:
            return doubted
        waiting = {run_of(task) for task in tasks if object_id in _needs(task)}
        if waiting:
            self._doubted[object_id] = waiting
            self._ask_for(object_id)
        return set()

    def start_again(self) -> None:
        """There is a new processor, which has nothing: ask also for what was asked for already."""
        self._awaited.clear()

    def drop(self, processor: ProcessorState, object_ids: Iterable[ObjectId]) -> None:
        """Have the processor forget objects, after the tasks that it was handed."""
        dropped = processor.has.intersection(object_ids)
        if dropped:
            processor.has -= dropped
            processor.used -= dropped
            processor.proxy.send(DropObjects(processor.number, tuple(dropped)))

    def clean(self, processor: ProcessorState) -> None:
        """Drop what no task needed since the last time. A processor that did nothing since then is left alone."""
        unused = processor.has - processor.used
        if not unused and processor.results_seen == processor.results_collected:
            return
        self.drop(processor, unused)
        processor.proxy.send(CleanProcessor(processor.number))
        processor.results_collected = processor.results_seen
        held = (entry.task for entry in processor.held if entry is not None)
        # Of a task that is held something may have been deleted: that is not there for the next one.
        processor.used = processor.has.intersection(object_id for task in held for object_id in _needs(task))

    def _ask_for(self, object_id: ObjectId) -> None:
        self._awaited.add(object_id)
        self._ask(object_id)


def _needs(task: RunTask) -> list[ObjectId]:
    """Return the ids of all objects that the task needs, its function first."""
    return [task.function_id, *(ObjectId(object_id) for object_id in split_ids(task.object_ids))]
