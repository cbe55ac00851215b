"""InputValues: the values that waiting tasks need, for as long as they need them.

Owned by `WaitingTasks`; sends to the object store. A small result becomes a part of the arguments of its consumers, as
bytes. A large result, or an object among the arguments, is kept at the object store while a task needs it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from scaler.actors.dependencies.waiting_task import WAITING, WaitingTask, preferred_worker, worth_storing
from scaler.actors.messages.objects import CountArguments, ReleaseObjects, StoreObject, UseObjects
from scaler.actors.messages.tasks import KeepResult, TaskDone
from scaler.actors.objects.located import LocatedFrames
from scaler.actors.vocabulary.services import Services
from scaler.ids import ClientId, ObjectId, TaskId
from scaler.kit import ActorRef
from scaler.pickling.serialization import OBJECT, VALUE, Frames, put_results, size_of
from scaler.wire.messages.columns import ROWS_BYTES_MOST

WORTH_A_PLACE_BYTES = 1024 * 1024
"""Size of results from which the consumers run where the result was made, if that worker has capacity."""

TAKEN = "another client has an object with the id of this task"
"""Why a result is not kept for the tasks that need it: they would get that object."""


class InputValues:
    """The values that the waiting tasks of one client need."""

    def __init__(self, session: ActorRef, client_id: ClientId, services: Services) -> None:
        self._session, self._client_id = session, client_id
        self._object_store, self._maker_of = services.object_store, services.maker_of
        self._stored: dict[TaskId, list[WaitingTask]] = {}
        """the tasks whose results are objects that are kept for other tasks; usually one with each id"""
        self.has_large = False
        """whether any result was large enough to become an object because of who needs it"""

    def hold_arguments(self, task: WaitingTask, kept: bytes = b"") -> None:
        """Keep the arguments of a task until it has ended or has become an actor.

        Args:
            kept: the objects that were kept for an earlier call of the task.
        """
        if task.object_ids:
            self._object_store.send(UseObjects(task.object_ids))
        if kept:
            self._object_store.send(ReleaseObjects(kept))
        self.count_frames(task, 1)

    def count_frames(self, task: WaitingTask, factor: int) -> None:
        """Count the frames of a task's arguments (`factor` 1), or no longer (-1), since the actor of the task does."""
        if task.frames:
            assert task.terms is not None
            self._object_store.send(CountArguments(factor * size_of(task.frames), task.terms.context.owner))

    def release_arguments(self, task: WaitingTask) -> None:
        """Release the objects among the arguments of a task that has ended."""
        if task.object_ids:
            self._object_store.send(ReleaseObjects(task.object_ids))
            task.object_ids = b""

    def stored(self, task_id: TaskId) -> WaitingTask | None:
        """Return the task with this id if its result is an object that is kept for other tasks, else None."""
        tasks = self._stored.get(task_id)
        return tasks[0] if tasks else None

    def hold_stored(self, task: WaitingTask) -> None:
        """Keep the result of a task, which is stored, while tasks need it."""
        task.is_stored = True
        self._stored.setdefault(task.task_id, []).append(task)
        self._object_store.send(UseObjects(ObjectId(task.task_id), self._session))

    def keep(self, task: WaitingTask, done: TaskDone, *, is_stored: bool) -> None:
        """Keep a large result for its consumers. Raises `ValueError` if another client has an object with its id.

        Args:
            is_stored: whether it is stored for the client already.
        """
        worker = done.worker
        if is_stored:
            self.hold_stored(task)
        else:
            self._store(task, done.frames, done.function_id)
        if worker is not None:
            if type(done.frames) is not LocatedFrames:
                worker.send(KeepResult(ObjectId(task.task_id)))
            if task.size >= WORTH_A_PLACE_BYTES:
                task.made_by = worker

    def arguments(self, task: WaitingTask) -> tuple[bytes, bytes, ActorRef | None]:
        """Return the block of a task with the results that it needs, the ids of those that are objects, and the worker
        where it should run.

        Raises:
            ValueError: if the arguments are invalid, or need a result whose id is that of another client's object.
        """
        if self.has_large:
            for value in worth_storing(task):
                self._store(value, (value.payload,), value.function_id)
        needs = task.needs

        def result(index: int) -> tuple[int, bytes]:
            if index >= len(needs):
                raise ValueError(f"they name result {index}, and the task needs {len(needs)}")
            need = needs[index]
            return (OBJECT, need.task_id) if need.is_stored else (VALUE, need.payload)

        block, more_ids = put_results(task.block, result)
        if len(task.object_ids) + len(more_ids) > ROWS_BYTES_MOST:
            raise ValueError("they name too many objects")
        near_worker = preferred_worker(task) if more_ids else None
        return block, more_ids, near_worker

    def _store(self, task: WaitingTask, frames: Frames, function_id: ObjectId) -> None:
        """Keep a result as an object for its consumers. It belongs to no client and is deleted with their end."""
        if self._maker_of(ObjectId(task.task_id)) not in (None, self._client_id):
            raise ValueError(TAKEN)
        payer = None if task.terms is None else task.terms.context.owner
        what = ObjectId(task.task_id), None, "", frames, False
        self._object_store.send(StoreObject(*what, payer=payer, function_id=function_id, task_client=self._client_id))
        self.hold_stored(task)

    def release(self, task: WaitingTask) -> None:
        """Release the stored result of a task."""
        task.is_stored, task.made_by, task.dependents = False, None, None
        tasks = self._stored[task.task_id]
        tasks.remove(task)
        if not tasks:
            del self._stored[task.task_id]
        self._object_store.send(ReleaseObjects(ObjectId(task.task_id), None if tasks else self._session))

    def take_all(self, tasks: Iterable[WaitingTask]) -> list[tuple[ActorRef, Any]]:
        """Return the messages that release all arguments of these tasks, and all stored results, by receiver."""
        messages: list[Any] = []
        for task in tasks:
            if task.object_ids:
                messages.append(ReleaseObjects(task.object_ids))
                task.object_ids = b""  # some tasks occur twice
            if task.frames and task.status == WAITING and task.terms is not None:
                messages.append(CountArguments(-size_of(task.frames), task.terms.context.owner))
                task.frames = ()
        stored = [(ObjectId(task_id), self._session) for task_id, tasks in self._stored.items() for _ in tasks]
        messages += [ReleaseObjects(*each) for each in stored]
        self._stored = {}
        return [(self._object_store, each) for each in messages]
