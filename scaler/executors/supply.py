"""Supply: requests the objects that the tasks of one worker need, functions first, from the object cache.

Used by the workers of all executors. A `Stock` records the objects of one process, or of all threads, of a worker.
The path of an object:

    task needs it --NeedObject--> object cache --ObjectFound--> in stock
                         ^             |                          | no task needed it for some time,
                         +--once more--+ ObjectUnavailable        v or it is deleted
                                                               forgotten
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from scaler.executors.messages import CachedObject
from scaler.executors.task_queue import RunKey, TaskQueue, run_of
from scaler.ids import ObjectId, split_ids
from scaler.shared_memory import SharedBlock
from scaler.wire.messages.worker import RunTask

AWAITED_OBJECTS = 4
"""If more objects than this are awaited, no task overtakes a task that lacks objects, because objects take memory."""


def needs_of(task: RunTask) -> list[ObjectId]:
    """Return the ids of all objects that the task needs, its function first."""
    return [task.function_id, *map(ObjectId, split_ids(task.object_ids))]


@dataclass(slots=True)
class Stock:
    """Records the objects of one process, or of all threads, of a worker."""

    has: set[ObjectId] = field(default_factory=set)
    used: set[ObjectId] = field(default_factory=set)
    """the ids of the objects of tasks that started since the last collection"""
    blocks: dict[ObjectId, SharedBlock] = field(default_factory=dict, compare=False)
    """the blocks of objects in shared memory; the agent's store keeps referenced blocks in memory"""

    def add(self, stored: CachedObject) -> None:
        """Record that an object is in stock."""
        self.has.add(stored.object_id)
        if stored.block is not None:
            self.blocks[stored.object_id] = stored.block

    def forget(self, object_ids: Iterable[ObjectId]) -> set[ObjectId]:
        """Remove these objects from the stock. Return the ids of those that were in stock."""
        dropped = self.has.intersection(object_ids)
        for object_id in self.blocks.keys() & dropped:
            del self.blocks[object_id]
        self.has -= dropped
        self.used -= dropped
        return dropped


class Supply:
    """Requests the objects that the tasks of one worker need.

    Args:
        ask: requests an object by id; the second argument is whether the object is the function of a task.
    """

    def __init__(self, ask: Callable[[ObjectId, bool], None]) -> None:
        self._ask = ask
        self._awaited: set[ObjectId] = set()
        self._retried: dict[ObjectId, set[RunKey]] = {}
        """object that was unavailable once and is requested again -> the runs that waited for it at that time"""

    def has_all(self, stock: Stock, task: RunTask) -> bool:
        """Return whether all objects that the task needs are in stock. If not, request the missing objects."""
        needs = needs_of(task)
        missing = [object_id for object_id in needs if object_id not in stock.has]
        for object_id in missing:
            if object_id not in self._awaited:
                self._request_object(object_id, object_id == task.function_id)
        if missing:
            return False
        stock.used.update(needs)
        return True

    def holds_up(self, stock: Stock, task: RunTask) -> bool:
        """Return whether the tasks behind a task with missing objects must wait, instead of overtaking this task.

        The tasks wait if the function is missing, because it arrives soon, or if too many objects are awaited.
        """
        return task.function_id not in stock.has or len(self._awaited) > AWAITED_OBJECTS

    def take(self, queue: TaskQueue, stock: Stock) -> RunTask | None:
        """Remove and return the first queued task that has all its objects, or None. Overtaken tasks step aside."""
        while row := queue.first_row():
            task = row[0]
            if self.has_all(stock, task):
                queue.removed((row.popleft(),))
                return task
            if self.holds_up(stock, task):
                return None
            queue.step_aside()
        return None

    def forget_requests(self) -> None:
        """Forget all requests, so that objects are requested again for a new stock."""
        self._awaited.clear()

    def found(self, object_id: ObjectId) -> None:
        """Record that an object has arrived."""
        self._awaited.discard(object_id)
        self._retried.pop(object_id, None)

    def lost(self, object_id: ObjectId, tasks: Iterable[RunTask]) -> set[RunKey]:
        """Request an unavailable object once more. After a second failure, return the runs that waited for the object.

        The first answer is not final: a client may have stored the object since the first request.
        """
        self._awaited.discard(object_id)
        retried = self._retried.pop(object_id, None)
        if retried is not None:
            return retried
        waiting = [task for task in tasks if object_id in needs_of(task)]
        if waiting:
            self._retried[object_id] = set(map(run_of, waiting))
            self._request_object(object_id, any(task.function_id == object_id for task in waiting))
        return set()

    def _request_object(self, object_id: ObjectId, is_function: bool) -> None:
        self._awaited.add(object_id)
        self._ask(object_id, is_function)
