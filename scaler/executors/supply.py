"""Supply: asks the object cache for what the tasks of one worker need, first of all their functions.

Used by the workers of all executors. Each `Stock` is what one process, or all threads, of a worker have.

    task needs it --NeedObject--> object cache --ObjectFound--> in stock
                         ^             |                          | no task needed it for some time,
                         +--once more--+ ObjectLost               v or it is deleted
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
"""How many objects are requested ahead. Tasks behind one that lacks an object continue in the meantime, since an object
may take long to arrive; but each takes memory when it is there."""


def needs_of(task: RunTask) -> list[ObjectId]:
    """Return the ids of all objects that the task needs, its function first."""
    return [task.function_id, *map(ObjectId, split_ids(task.object_ids))]


@dataclass(slots=True)
class Stock:
    """The objects that are in one place where tasks run."""

    has: set[ObjectId] = field(default_factory=set)
    used: set[ObjectId] = field(default_factory=set)
    """of these, the objects of tasks that began since the last collection"""
    blocks: dict[ObjectId, SharedBlock] = field(default_factory=dict, compare=False)
    """of these, those in shared memory, which the store of the agent keeps there as long as somebody has them"""

    def add(self, stored: CachedObject) -> None:
        """An object is here."""
        self.has.add(stored.object_id)
        if stored.block is not None:
            self.blocks[stored.object_id] = stored.block

    def forget(self, object_ids: Iterable[ObjectId]) -> set[ObjectId]:
        """Return those of these objects that were here."""
        dropped = self.has.intersection(object_ids)
        for object_id in self.blocks.keys() & dropped:
            del self.blocks[object_id]
        self.has -= dropped
        self.used -= dropped
        return dropped


class Supply:
    """What one worker has asked for.

    Args:
        ask: has the object cache tell the worker of an object, and says whether a task calls it.
    """

    def __init__(self, ask: Callable[[ObjectId, bool], None]) -> None:
        self._ask = ask
        self._awaited: set[ObjectId] = set()
        self._doubted: dict[ObjectId, set[RunKey]] = {}
        """objects that were lost once and asked for again, and the runs that waited for them then"""

    def has_all(self, stock: Stock, task: RunTask) -> bool:
        """Return whether all is in stock that the task needs; if not, ask for the rest."""
        needs = needs_of(task)
        missing = [object_id for object_id in needs if object_id not in stock.has]
        for object_id in missing:
            if object_id not in self._awaited:
                self._ask_for(object_id, object_id == task.function_id)
        if missing:
            return False
        stock.used.update(needs)
        return True

    def holds_up(self, stock: Stock, task: RunTask) -> bool:
        """Return whether the tasks behind one that has not all it needs wait for it, and do not overtake it.

        A function comes at once: overtaking is not worth it.
        """
        return task.function_id not in stock.has or len(self._awaited) > AWAITED_OBJECTS

    def take(self, queue: TaskQueue, stock: Stock) -> RunTask | None:
        """Take the first task from the queue that has all it needs; put those before it aside."""
        while row := queue.first_row():
            task = row[0]
            if self.has_all(stock, task):
                queue.left((row.popleft(),))
                return task
            if self.holds_up(stock, task):
                return None
            queue.step_aside()
        return None

    def ask_anew(self) -> None:
        """There is a new stock: what was asked for before is asked for again."""
        self._awaited.clear()

    def found(self, object_id: ObjectId) -> None:
        """An object is here."""
        self._awaited.discard(object_id)
        self._doubted.pop(object_id, None)

    def lost(self, object_id: ObjectId, tasks: Iterable[RunTask]) -> set[RunKey]:
        """An object is nowhere: ask once more, then return the runs that waited for it when it was asked for again.

        The first answer is not final: another client may have stored the object after the question was asked, and then
        submitted a task that is here already. The answer to the second question counts.
        """
        self._awaited.discard(object_id)
        doubted = self._doubted.pop(object_id, None)
        if doubted is not None:
            return doubted
        waiting = [task for task in tasks if object_id in needs_of(task)]
        if waiting:
            self._doubted[object_id] = set(map(run_of, waiting))
            self._ask_for(object_id, any(task.function_id == object_id for task in waiting))
        return set()

    def _ask_for(self, object_id: ObjectId, is_function: bool) -> None:
        self._awaited.add(object_id)
        self._ask(object_id, is_function)
