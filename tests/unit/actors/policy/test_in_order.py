"""The queue of tasks that wait for a worker: its order, and how tasks leave it."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import Any

import pytest

from scaler.actors.policy.in_order import InOrder
from tests.support.ready import Task, of_map, task


def queue_of(*tasks: Task) -> InOrder:
    queue: InOrder = InOrder()
    queue.put(tasks)
    return queue


def names(queue: InOrder) -> list[Any]:
    return [waiting.task for waiting in queue]


def test_tasks_are_ordered_by_priority_then_repeated_tasks_then_arrival() -> None:
    deep, deeper = {"priority": 1}, {"priority": 3}
    queue = queue_of(
        task(1), task(2, **deeper), task(3, **deep), task(4, goes_first=True), task(5, goes_first=True, **deep)
    )
    assert names(queue) == [2, 5, 3, 4, 1]
    assert len(queue) == 5
    assert [each.task for each in queue.drain()] == [2, 5, 3, 4, 1]


def test_tasks_popped_one_at_a_time_have_the_same_order() -> None:
    queue = queue_of(task(1), task(2, priority=2), task(3, priority=1), task(4, goes_first=True))
    assert [each.task for each in iter(queue.pop, None)] == [2, 3, 4, 1]
    assert queue.pop() is None
    queue.put([task(5, priority=7)])
    assert queue.pop() == task(5, priority=7)


def test_tasks_that_were_not_drained_stay() -> None:
    queue = queue_of(*map(task, range(5)))
    assert [each.task for each in islice(queue.drain(), 2)] == [0, 1]
    assert names(queue) == [2, 3, 4]


def test_empty_priority_levels_are_removed() -> None:
    queue = queue_of(task(1))
    for depth in range(1, 50):
        queue.put([task(2, priority=depth)])
        assert next(queue.drain()).task == 2
    assert queue
    assert list(queue.drain()) == [task(1)]
    assert queue._levels.priorities == [0]


def test_tasks_of_negative_priority_are_drained_last() -> None:
    queue = queue_of(task(1), task(2, priority=-1))
    assert next(queue.drain()).task == 1
    assert [each.task for each in queue.drain()] == [2]
    assert list(queue.drain()) == []
    queue.put([task(3, priority=-1)])
    assert [each.task for each in queue.drain()] == [3]


def test_an_empty_queue_is_false() -> None:
    queue = queue_of()
    assert not queue
    queue.put([task(1, goes_first=True)])
    assert queue
    assert [each.task for each in queue.drain()] == [1]
    assert not queue
    assert len(queue) == 0


@pytest.mark.parametrize("priority", [0, 2])
@pytest.mark.parametrize("goes_first", [False, True])
def test_a_waiting_task_can_be_removed_once(priority: int, goes_first: bool) -> None:
    queue = queue_of(task(1, priority=priority, goes_first=goes_first))
    assert not queue.remove(1, 7)
    assert not queue.remove(2, priority)
    assert queue.remove(1, priority)
    assert not queue.remove(1, priority)
    assert not queue


def test_a_task_reported_ready_twice_waits_once_in_the_ordered_queue() -> None:
    queue = queue_of(task(1, goes_first=True), task(2), task(1, attempt=2))
    assert [(waiting.task, waiting.attempt) for waiting in queue] == [(2, 1), (1, 2)]


def test_a_range_reported_ready_again_as_the_first_waits_once() -> None:
    queue = queue_of(task(1), of_map(2, rows=3))
    queue.put([replace(of_map(2, rows=3), attempt=2, goes_first=True)])
    assert len(queue) == 4
    assert [(waiting.task, waiting.attempt) for waiting in queue.drain()] == [(2, 2), (1, 1)]
    assert len(queue) == 0


def test_the_first_task_of_the_ordered_queue_is_the_task_taken_next() -> None:
    queue = queue_of(task(1), task(2, priority=3), task(3, goes_first=True))
    assert queue.greatest() == 3
    for expected in (2, 3, 1):
        first = queue.first()
        assert first is not None
        assert first.task == next(queue.drain()).task == expected
    assert queue.first() is None
    assert queue.greatest() == float("-inf")
