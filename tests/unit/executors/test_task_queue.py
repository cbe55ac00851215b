"""The queue of one worker (deepest first, then in order of arrival), compared with a sorted list."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.executors.task_queue import TaskQueue, run_of
from scaler.ids import NO_ID, ObjectId, TaskId
from scaler.wire.messages.worker import RunTask
from tests.support.instructions import instructions


def task(number: int, priority: int = 0, account: int = 0) -> RunTask:
    return RunTask(TaskId(number.to_bytes(16, "big")), 0, 1, ObjectId(NO_ID), b"", b"", priority, account=account)


def take_one(queue: TaskQueue) -> RunTask:
    taken = queue.first_row().popleft()
    queue.removed([taken])
    return taken


def take_all(queue: TaskQueue) -> list[RunTask]:
    taken = []
    while queue.first_row():
        taken.append(take_one(queue))
    return taken


def test_first_come_first_served() -> None:
    queue, tasks = TaskQueue(), [task(n) for n in range(5)]
    queue.add(tasks[:3])
    queue.add(tasks[3:])
    assert list(queue) == tasks
    assert take_all(queue) == tasks
    assert list(queue) == []


def test_deeper_tasks_are_first() -> None:
    queue = TaskQueue()
    plain, child, grandchild, second_child = task(1), task(2, 1), task(3, 2), task(4, 1)
    queue.add([plain, child, grandchild, second_child])
    assert list(queue) == [grandchild, child, second_child, plain]
    assert take_all(queue) == [grandchild, child, second_child, plain]


def test_a_recursion_of_one_client_does_not_overtake_another_client() -> None:
    queue = TaskQueue()
    deep = [task(n, n % 4) for n in range(8)]
    other = task(100, account=1)
    later = [task(n, n % 4) for n in range(8, 16)]
    queue.add(deep)
    queue.add([other])
    queue.add(later)
    order = take_all(queue)
    assert order[:8] == sorted(deep, key=lambda each: -each.priority)
    assert order[8:] == [other, *later]


def test_the_deepest_tasks_are_first_again_when_one_client_is_left() -> None:
    queue = TaskQueue()
    queue.add([task(1), task(2, account=1), task(3, 1)])
    assert [take_one(queue).task_id[-1] for _ in range(2)] == [1, 2]
    queue.add([task(4, 0), task(5, 2)])
    assert [each.task_id[-1] for each in take_all(queue)] == [5, 3, 4]
    queue.add([task(6, account=2), task(7, 3, account=2)])
    assert [each.task_id[-1] for each in take_all(queue)] == [7, 6]


def test_tasks_put_back_are_the_first_of_their_priority() -> None:
    queue = TaskQueue()
    plain, child, back, deep_back = task(1), task(2, 1), task(3), task(4, 1)
    queue.add([plain, child])
    queue.put_back([back, deep_back])
    assert take_all(queue) == [deep_back, child, back, plain]


def test_tasks_can_be_taken_out_of_any_position() -> None:
    queue = TaskQueue()
    tasks = [task(n, n % 3) for n in range(9)]
    queue.add(tasks)
    assert queue.take_out({run_of(tasks[4]), run_of(tasks[6])}) == [tasks[4], tasks[6]]
    assert queue.take_out({(tasks[5].task_id, 7)}) == []  # another attempt
    assert len(take_all(queue)) == 7


steps = st.lists(
    st.tuples(st.sampled_from(["add", "put back", "take"]), st.lists(st.integers(0, 3), max_size=5)), max_size=40
)


@given(steps)
def test_the_queue_behaves_as_a_list_sorted_by_priority(story: list[tuple[str, list[int]]]) -> None:
    queue, model, number = TaskQueue(), [], 0
    for name, priorities in story:
        tasks = [task(number + index, priority) for index, priority in enumerate(priorities)]
        number += len(tasks)
        if name == "add":
            queue.add(tasks)
            model = sorted(model + tasks, key=lambda waiting: -waiting.priority)
        elif name == "put back":
            queue.put_back(tasks)
            model = sorted(tasks + model, key=lambda waiting: -waiting.priority)
        elif model:
            assert take_one(queue) == model.pop(0)
        assert list(queue) == model
    assert take_all(queue) == model


def test_a_task_that_steps_aside_is_overtaken_and_returns_to_the_front() -> None:
    queue, tasks = TaskQueue(), [task(n) for n in range(4)]
    deep = task(9, 1)
    queue.add([*tasks[:3], deep])
    queue.step_aside()
    queue.step_aside()
    assert queue.first_row()[0] is tasks[1]
    assert len(list(queue)) == 4
    assert queue.take_out({run_of(tasks[0])}) == [tasks[0]]
    queue.add(tasks[3:])
    queue.bring_back()
    queue.bring_back()
    assert take_all(queue) == [deep, tasks[1], tasks[2], tasks[3]]


def test_the_first_task_that_may_start_is_moved_to_the_front() -> None:
    queue, tasks, deep = TaskQueue(), [task(n) for n in range(3)], task(9, 1)
    queue.add([*tasks, deep])
    assert not queue.has_first(lambda _task: False)
    assert queue.has_first(lambda each: each in tasks[1:])
    assert take_all(queue) == [tasks[1], deep, tasks[0], tasks[2]]


def test_tasks_that_stepped_aside_count_as_queued_and_keep_their_position() -> None:
    queue, first, deep, other = TaskQueue(), task(1), task(2, 2), task(3, 1, account=1)
    queue.add([first])
    queue.step_aside()
    queue.add([other, deep])
    queue.step_aside()
    queue.bring_back()
    assert take_all(queue) == [first, other, deep]


def test_tasks_of_the_last_client_are_sorted_by_priority_again() -> None:
    queue, first, other, deep = TaskQueue(), task(1), task(2, account=1), task(3, 1)
    queue.add([first, other])
    assert queue.take_out({run_of(other)}) == [other]
    queue.add([deep])
    assert take_all(queue) == [deep, first]


def test_tasks_put_back_count_for_their_client() -> None:
    queue, back, other, deep = TaskQueue(), task(1), task(2, account=1), task(3, 1, account=1)
    queue.add([other])
    queue.put_back([back])
    queue.add([deep])
    assert take_all(queue) == [back, other, deep]


@given(
    st.lists(
        st.tuples(st.sampled_from(["add", "put back", "take", "take out", "aside"]), st.integers(0, 2)), max_size=60
    )
)
def test_the_queue_is_in_order_of_arrival_only_while_several_clients_wait(story: list[tuple[str, int]]) -> None:
    queue = TaskQueue()
    for number, (name, account) in enumerate(story):
        waiting = list(queue)
        if name == "add":
            new = task(number, number % 3, account)
            lowest = min((each.priority for each in waiting), default=0)
            queue.add([new])
            if {each.account for each in waiting} - {account} or not queue.first_row() or lowest > new.priority:
                assert list(queue)[-1] is new
        elif name == "put back":
            queue.put_back([task(number, number % 3, account)])
        elif name == "take out" and waiting:
            queue.take_out({run_of(waiting[number % len(waiting)])})
        elif name == "aside" and queue.first_row():
            queue.step_aside()
            queue.bring_back()
            assert list(queue) == waiting
        elif name == "take" and queue.first_row():
            assert take_one(queue) is waiting[0]
        accounts = {each.account for each in queue}
        assert len(queue.by_account) == (len(accounts) if len(accounts) > 1 else 0)


@pytest.mark.parametrize("accounts", [1, 3])
def test_the_cost_to_add_and_take_a_task_does_not_depend_on_the_length_of_the_queue(accounts: int) -> None:
    def cost(waiting: int) -> int:
        queue = TaskQueue()
        queue.add(task(number, number % 2, number % accounts) for number in range(waiting))

        def add_and_take() -> None:
            queue.add([task(waiting, 1, waiting % accounts)])
            queue.removed([queue.first_row().popleft()])

        return instructions(add_and_take)

    assert cost(1_000) == cost(10)
