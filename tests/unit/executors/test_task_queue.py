"""The queue of one worker: deepest first, first come, first served; against a sorted list."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scaler.executors.task_queue import TaskQueue, run_of
from scaler.ids import NO_ID, ObjectId, TaskId
from scaler.wire.messages.worker import RunTask


def task(number: int, priority: int = 0, account: int = 0) -> RunTask:
    return RunTask(TaskId(number.to_bytes(16, "big")), 0, 1, ObjectId(NO_ID), b"", b"", priority, account=account)


def take_all(queue: TaskQueue) -> list[RunTask]:
    taken = []
    while row := queue.first_row():
        taken.append(row.popleft())
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


def test_a_recursion_of_one_client_does_not_overtake_another_one() -> None:
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


def test_when_tasks_of_one_client_are_left_the_deepest_are_first_again() -> None:
    queue = TaskQueue()
    queue.add([task(1), task(2, account=1), task(3, 1)])
    assert [queue.first_row().popleft().task_id[-1] for _ in range(2)] == [1, 2]
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


def test_tasks_are_taken_out_wherever_they_wait() -> None:
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
def test_it_is_a_list_sorted_by_priority(story: list[tuple[str, list[int]]]) -> None:
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
            assert queue.first_row().popleft() == model.pop(0)
        assert list(queue) == model
    assert take_all(queue) == model


def test_a_task_that_steps_aside_lets_others_go_first_and_comes_back_to_the_front() -> None:
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
