"""InputValues: values exist while tasks need them, as bytes or as objects."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from scaler.actors.dependencies.input_values import WORTH_A_PLACE_BYTES, InputValues
from scaler.actors.dependencies.waiting_task import SHARED_BYTES, CallTerms, WaitingTask
from scaler.actors.messages.objects import CountArguments, ReleaseObjects, StoreObject, UseObjects
from scaler.actors.messages.tasks import KeepResult, TaskDone
from scaler.actors.tasks.client_context import ClientContext
from scaler.actors.vocabulary.owners import Owner
from scaler.ids import NO_ID, ClientId, ObjectId, TaskId, random_id
from scaler.pickling.serialization import result_argument
from scaler.wire.messages.client import Task, TaskResult
from scaler.wire.messages.columns import ROWS_BYTES_MOST
from scaler.wire.messages.common import TaskStatus
from tests.support.bench import Bench

CLIENT = ClientId(b"c" * 16)


class Scene:
    """Two tasks that have ended, with small results, and one that needs both."""

    def __init__(self) -> None:
        bench = Bench()
        self.store, store = bench.recorder()
        self.worker, self.worker_ref = bench.recorder()
        _, session = bench.recorder()
        self.makers: dict[ObjectId, ClientId] = {}
        services = cast("Any", SimpleNamespace(object_store=store, maker_of=self.makers.get))
        self.owner = Owner("alice")
        context = cast("ClientContext", SimpleNamespace(owner=self.owner))
        self._terms = CallTerms(context, priority=0, name="", named_by_key=0, options=b"", since=0.0)
        self.values = InputValues(session, CLIENT, services)
        self.first, self.second = self.task(), self.task()
        self.last = self.task(result_argument(0) + result_argument(1))
        for each in (self.first, self.second):
            each.n_users += 1
            each.add_dependent(self.last)
            each.status, each.payload = TaskStatus.SUCCESS, b"one"
        self.last.needs = self.first, self.second
        self._run = bench.run

    def task(self, block: bytes = b"", object_ids: bytes = b"", frames: tuple[bytes, ...] = ()) -> WaitingTask:
        task = WaitingTask(TaskId(random_id()))
        task.take_call(Task(task.task_id, ObjectId(NO_ID), block, object_ids, frames=frames, unwanted=1), self._terms)
        return task

    def received(self) -> list[type]:
        """Return the types of messages that the object store has received since the last call."""
        self._run()
        return [type(message) for message in self.store.take()]

    def done(self, task: WaitingTask, size: int) -> TaskDone:
        task.size = size
        result = TaskResult(task.task_id, TaskStatus.SUCCESS, b"", size)
        return TaskDone(result, (bytes(8),), self.worker_ref)


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_a_result_with_the_id_of_an_object_of_another_client_is_refused(scene: Scene) -> None:
    scene.makers[ObjectId(scene.first.task_id)] = CLIENT
    scene.values.keep(scene.first, scene.done(scene.first, 70_000), is_stored=False)
    assert scene.received() == [StoreObject, UseObjects]
    scene.makers[ObjectId(scene.second.task_id)] = ClientId(b"d" * 16)
    with pytest.raises(ValueError, match="another client has an object with the id"):
        scene.values.keep(scene.second, scene.done(scene.second, 70_000), is_stored=False)
    assert scene.received() == []


@pytest.mark.parametrize("size", [WORTH_A_PLACE_BYTES - 1, WORTH_A_PLACE_BYTES])
def test_the_host_of_a_large_result_keeps_it_and_is_preferred_for_a_very_large_one(scene: Scene, size: int) -> None:
    scene.values.keep(scene.first, scene.done(scene.first, size), is_stored=False)
    near = scene.worker_ref if size == WORTH_A_PLACE_BYTES else None
    assert scene.values.arguments(scene.last)[1:] == (scene.first.task_id, near)
    scene.received()
    assert scene.worker.take() == [KeepResult(ObjectId(scene.first.task_id))]


def test_a_result_that_many_tasks_need_is_an_object_until_the_last_has_used_it(scene: Scene) -> None:
    first = scene.first
    first.payload, first.n_users = bytes(SHARED_BYTES), 2
    scene.values.has_large = True
    assert scene.values.arguments(scene.last)[1] == first.task_id
    assert scene.received() == [StoreObject, UseObjects]
    scene.values.release(first)
    assert scene.received() == [ReleaseObjects]
    assert scene.values._stored == {}


def test_an_argument_that_is_no_result_which_the_task_needs_is_refused(scene: Scene) -> None:
    scene.last.block = result_argument(2)
    with pytest.raises(ValueError, match="they name result 2, and the task needs 2"):
        scene.values.arguments(scene.last)


def test_too_many_objects_among_the_arguments_are_refused(scene: Scene) -> None:
    scene.values.hold_stored(scene.first)
    scene.last.object_ids = bytes(ROWS_BYTES_MOST)
    with pytest.raises(ValueError, match="too many objects"):
        scene.values.arguments(scene.last)


def test_all_arguments_and_results_are_released_once_with_the_session(scene: Scene) -> None:
    holding = scene.task(object_ids=random_id(), frames=(bytes(10),))
    scene.values.hold_arguments(holding)
    scene.values.hold_stored(scene.first)
    assert scene.received() == [UseObjects, CountArguments, UseObjects]
    for receiver, message in scene.values.take_all([scene.first, holding, holding]):
        receiver.send(message)
    scene._run()
    released = scene.store.take()
    assert [type(each) for each in released] == [ReleaseObjects, CountArguments, ReleaseObjects]
    assert released[1] == CountArguments(-10, scene.owner)
    assert released[2].object_ids == scene.first.task_id
