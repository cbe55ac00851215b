"""Objects: what is asked for, once, and what is dropped; a task that has begun loses nothing."""

from __future__ import annotations

import pytest

from scaler.executors.inline.backlog import run_of
from scaler.executors.inline.objects import Objects
from scaler.executors.messages import StoredObject
from scaler.ids import ObjectId, TaskId
from scaler.pickling.serialization import DefaultSerializer, to_frames
from scaler.shared_memory import SharedBlock
from scaler.wire.messages.worker import RunTask

FUNCTION, ONE = ObjectId(b"f" * 16), ObjectId(b"1" * 16)
DEFAULT = DefaultSerializer()


@pytest.fixture
def asked() -> list[ObjectId]:
    return []


@pytest.fixture
def objects(asked: list[ObjectId]) -> Objects:
    return Objects(lambda object_id, is_function: asked.append(object_id))


def task(name: str = "a") -> RunTask:
    return RunTask(TaskId(name.encode().ljust(16)), 0, 1, FUNCTION, b"", ONE)


def stored(object_id: ObjectId, value: object = 7) -> StoredObject:
    return StoredObject(object_id, [bytes(frame) for frame in to_frames(DEFAULT, value)], None)


def test_what_a_task_lacks_is_asked_for_once(objects: Objects, asked: list[ObjectId]) -> None:
    assert not objects.has_all(task("a"))
    assert not objects.has_all(task("b"))
    assert asked == [FUNCTION, ONE]
    objects.found(stored(FUNCTION))
    assert not objects.has_all(task("a"))
    objects.found(stored(ONE))
    assert objects.has_all(task("a"))
    assert len(asked) == 2


def test_a_task_is_waited_for_if_it_lacks_its_function_or_much_is_on_its_way(objects: Objects) -> None:
    assert not objects.has_all(task())
    assert objects.holds_up(task())
    objects.found(stored(FUNCTION))
    assert not objects.holds_up(task())
    for number in range(4):
        assert not objects.has_all(RunTask(TaskId(b"b" * 16), 0, 1, FUNCTION, b"", bytes([number]) * 16))
    assert objects.holds_up(task())


def test_an_object_in_shared_memory_is_read_from_there(objects: Objects) -> None:
    value = [b"x" * 100_000]
    objects.found(StoredObject(ONE, (), SharedBlock.of(to_frames(DEFAULT, value))))
    assert objects.values.stored(DEFAULT, ONE) == value


def test_a_lost_object_is_asked_for_again_and_fails_only_those_that_waited_then(
    objects: Objects, asked: list[ObjectId]
) -> None:
    objects.found(stored(FUNCTION))
    early, late = task("early"), task("late")
    objects.has_all(early)
    assert objects.lost(ONE, [early]) == set()
    assert asked == [ONE, ONE]
    assert objects.lost(ONE, [early, late]) == {run_of(early)}
    objects.has_all(late)
    assert asked == [ONE, ONE, ONE]
    assert objects.lost(ONE, []) == set()  # it was cancelled
    assert len(asked) == 3


def test_what_is_forgotten_stays_with_those_that_have_begun(objects: Objects, asked: list[ObjectId]) -> None:
    for object_id in (FUNCTION, ONE):
        objects.found(stored(object_id))
    begun = objects.values
    objects.forget([ONE, ObjectId(b"?" * 16)])
    assert begun.stored(DEFAULT, ONE) == 7
    assert not objects.has_all(task())
    assert asked == [ONE]
    objects.found(stored(ONE, 8))
    assert (begun.stored(DEFAULT, ONE), objects.values.stored(DEFAULT, ONE)) == (7, 8)


def test_a_collection_drops_what_no_task_needed_since_the_last_one(objects: Objects) -> None:
    for object_id in (FUNCTION, ONE):
        objects.found(stored(object_id))
    objects.has_all(task())
    objects.collect()
    assert objects.has_all(task())
    objects.collect()
    objects.collect()
    assert not objects.has_all(task())
