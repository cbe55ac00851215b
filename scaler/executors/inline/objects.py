"""Objects: what the tasks of one worker need, and what of it is here.

Used by the worker, and asks the object cache through it. The threads of the worker read from `values` while this goes
on, so that what is deleted is left out of the next `Values`, and those that a task has never change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from scaler.executors.inline.backlog import RunKey, run_of
from scaler.executors.messages import StoredObject
from scaler.ids import ObjectId, split_ids
from scaler.pickling.serialization import Named, serves_nothing
from scaler.processor.values import Values
from scaler.wire.messages.worker import RunTask

AWAITED_OBJECTS = 4
"""How many objects are asked for before tasks that lack some are waited for."""


class Objects:
    """What one worker has.

    Args:
        ask: has the object cache tell the worker of an object, and says whether a task calls it.
        named: finds functions that are called by name.
    """

    def __init__(self, ask: Callable[[ObjectId, bool], None], named: Named = serves_nothing) -> None:
        self._ask = ask
        self.values = Values(named)
        self._has: set[ObjectId] = set()
        self._used: set[ObjectId] = set()
        """since the last collection"""
        self._awaited: set[ObjectId] = set()
        self._doubted: dict[ObjectId, set[RunKey]] = {}
        """objects that were lost once and asked for again, and the runs that waited for them then"""

    def has_all(self, task: RunTask) -> bool:
        """Return whether the task can begin; if not, ask for what it lacks."""
        needs = _needs(task)
        missing = [object_id for object_id in needs if object_id not in self._has]
        for object_id in missing:
            if object_id not in self._awaited:
                self._ask_for(object_id, object_id == task.function_id)
        if not missing:
            self._used.update(needs)
        return not missing

    def holds_up(self, task: RunTask) -> bool:
        """Return whether those behind a task that cannot begin wait for it: a function comes at once, and objects that
        are long on their way take memory when they are here.
        """
        return task.function_id not in self._has or len(self._awaited) > AWAITED_OBJECTS

    def found(self, stored: StoredObject) -> None:
        """An object is here."""
        object_id = stored.object_id
        self._awaited.discard(object_id)
        self._doubted.pop(object_id, None)
        self._has.add(object_id)
        self.values.store(object_id, stored.frames if stored.block is None else stored.block.map())

    def lost(self, object_id: ObjectId, waiting: Iterable[RunTask]) -> set[RunKey]:
        """An object is nowhere: ask once more, then return the runs that waited for it when it was asked for again.

        The answer may be older than the object: then it is found the second time.
        """
        self._awaited.discard(object_id)
        doubted = self._doubted.pop(object_id, None)
        if doubted is not None:
            return doubted
        tasks = [task for task in waiting if object_id in _needs(task)]
        if tasks:
            self._doubted[object_id] = set(map(run_of, tasks))
            self._ask_for(object_id, any(task.function_id == object_id for task in tasks))
        return set()

    def forget(self, object_ids: Iterable[ObjectId]) -> set[ObjectId]:
        """Drop objects; tasks that have begun keep them. Return those that were here."""
        dropped = self._has.intersection(object_ids)
        if dropped:
            self._has -= dropped
            self._used -= dropped
            self.values = self.values.without(dropped)
        return dropped

    def collect(self) -> set[ObjectId]:
        """Drop what no task needed since the last time, and return it."""
        dropped = self.forget(self._has - self._used)
        self._used.clear()
        return dropped

    def _ask_for(self, object_id: ObjectId, is_function: bool) -> None:
        self._awaited.add(object_id)
        self._ask(object_id, is_function)


def _needs(task: RunTask) -> list[ObjectId]:
    """Return the ids of all objects that the task needs, its function first."""
    return [task.function_id, *(ObjectId(object_id) for object_id in split_ids(task.object_ids))]
