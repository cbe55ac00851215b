"""The tasks that wait for a worker: in which order they are, and how they leave."""

from __future__ import annotations

import pytest

from scaler.actors.kit import ActorRef
from scaler.actors.messages import TaskReady
from scaler.actors.ready_queue import ReadyQueue
from scaler.ids import NO_ID, ObjectId, TaskId
from scaler.wire.messages.client import Task
from tests.support.bench import Bench


def task_id(number: int) -> TaskId:
    return TaskId(bytes([number]) * 16)


@pytest.fixture
def ref(bench: Bench) -> ActorRef:
    return bench.recorder()[1]


def ready(ref: ActorRef, number: int, priority: int = 0, attempt: int = 1, again: bool = False) -> TaskReady:
    return TaskReady(ref, Task(task_id(number), ObjectId(NO_ID), b"", b"", priority), attempt, again)


def numbers(queue: ReadyQueue) -> list[int]:
    return [waiting.spec.task_id[0] for waiting in queue]


def test_deepest_first_then_those_tried_again_then_first_come(ref: ActorRef) -> None:
    queue = ReadyQueue()
    for number, priority, again in ((1, 0, False), (2, 3, False), (3, 1, False), (4, 0, True), (5, 1, True)):
        queue.put(ready(ref, number, priority, again=again))
    assert numbers(queue) == [2, 5, 3, 4, 1]
    assert len(queue) == 5


def test_rows_that_were_emptied_are_gone(ref: ActorRef) -> None:
    queue = ReadyQueue()
    queue.put(ready(ref, 1))
    for depth in range(1, 50):
        queue.put(ready(ref, 2, depth))
        next(row for row in queue.rows() if row).popitem(last=False)
    assert queue
    assert len(list(queue.rows())) == 2
    assert numbers(queue) == [1]


def test_an_empty_one_is_false(ref: ActorRef) -> None:
    queue = ReadyQueue()
    assert not queue
    queue.put(ready(ref, 1, again=True))
    assert queue
    queue.clear()
    assert not queue
    assert len(queue) == 0


@pytest.mark.parametrize("priority", [0, 2])
@pytest.mark.parametrize("again", [False, True])
def test_a_task_that_waits_can_be_withdrawn_once(ref: ActorRef, priority: int, again: bool) -> None:
    queue = ReadyQueue()
    queue.put(ready(ref, 1, priority, again=again))
    assert not queue.withdraw(ref, task_id(1), 7)
    assert queue.withdraw(ref, task_id(1), priority)
    assert not queue.withdraw(ref, task_id(1), priority)
    assert not queue


def test_what_was_said_can_be_removed_unless_it_was_said_anew(ref: ActorRef) -> None:
    queue, first, second = ReadyQueue(), ready(ref, 1), ready(ref, 1, attempt=2)
    queue.put(first)
    queue.put(second)
    assert not queue.remove(first)
    assert not queue.remove(ready(ref, 1, priority=3))
    assert queue.remove(second)
    assert not queue


def test_a_task_that_says_ready_anew_waits_once(ref: ActorRef) -> None:
    queue = ReadyQueue()
    queue.put(ready(ref, 1, again=True))
    queue.put(ready(ref, 1, attempt=2))
    assert [waiting.attempt for waiting in queue] == [2]
