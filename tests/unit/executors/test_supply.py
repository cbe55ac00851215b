"""Supply: objects are requested once, and only tasks that need them wait."""

from __future__ import annotations

import pytest

from scaler.executors.supply import AWAITED_OBJECTS, Stock, Supply
from scaler.executors.task_queue import TaskQueue, run_of
from scaler.ids import ObjectId, TaskId
from scaler.wire.messages.worker import RunTask

FUNCTION, ONE = ObjectId(b"f" * 16), ObjectId(b"1" * 16)


class SupplyBench:
    def __init__(self) -> None:
        self.asked: list[tuple[ObjectId, bool]] = []
        self.supply, self.stock = Supply(lambda *question: self.asked.append(question)), Stock()

    def find(self, *object_ids: ObjectId) -> None:
        for object_id in object_ids:
            self.supply.found(object_id)
            self.stock.has.add(object_id)

    def has_all(self, task: RunTask) -> bool:
        return self.supply.has_all(self.stock, task)

    def holds_up(self, task: RunTask) -> bool:
        return self.supply.holds_up(self.stock, task)

    def take_all(self, queue: TaskQueue) -> list[RunTask]:
        return list(iter(lambda: self.supply.take(queue, self.stock), None))


@pytest.fixture
def bench() -> SupplyBench:
    return SupplyBench()


def task(name: str = "a", object_ids: bytes = ONE, priority: int = 0) -> RunTask:
    return RunTask(TaskId(name.encode().ljust(16)), 0, 1, FUNCTION, b"", object_ids, priority)


def test_missing_objects_of_tasks_are_requested_once(bench: SupplyBench) -> None:
    assert not bench.has_all(task("a"))
    assert not bench.has_all(task("b"))
    assert bench.asked == [(FUNCTION, True), (ONE, False)]
    bench.find(FUNCTION)
    assert not bench.has_all(task("a"))
    bench.find(ONE)
    assert bench.has_all(task("a"))
    assert len(bench.asked) == 2
    assert bench.stock.used == {FUNCTION, ONE}


def test_a_missing_function_delays_later_tasks_and_missing_objects_only_if_they_are_many(bench: SupplyBench) -> None:
    assert bench.holds_up(task())
    bench.find(FUNCTION)
    for number in range(AWAITED_OBJECTS + 1):
        one = task("b", bytes([number + 1]) * 16)
        assert not bench.has_all(one)
        assert bench.holds_up(one) is (number == AWAITED_OBJECTS)


def test_a_lost_object_is_requested_again_and_fails_only_tasks_that_waited_for_both_requests(
    bench: SupplyBench,
) -> None:
    bench.find(FUNCTION)
    early, late = task("early"), task("late")
    bench.has_all(early)
    assert bench.supply.lost(ONE, [early]) == set()
    assert bench.asked == [(ONE, False)] * 2
    assert bench.supply.lost(ONE, [early, late]) == {run_of(early)}
    bench.has_all(late)
    assert bench.asked == [(ONE, False)] * 3
    assert bench.supply.lost(ONE, []) == set()  # it was cancelled
    assert len(bench.asked) == 3


def test_a_task_without_its_object_steps_aside_and_a_task_without_its_function_delays_the_queue(
    bench: SupplyBench,
) -> None:
    queue, lacks, whole, deep = TaskQueue(), task("lacks"), task("whole", b""), task("deep", priority=1)
    queue.add([lacks, whole, deep])
    assert bench.take_all(queue) == []
    bench.find(FUNCTION)
    assert bench.take_all(queue) == [whole]
    bench.find(ONE)
    queue.bring_back()
    assert bench.take_all(queue) == [deep, lacks]


def test_forget_returns_the_objects_that_a_stock_had(bench: SupplyBench) -> None:
    bench.find(FUNCTION, ONE)
    assert bench.has_all(task())
    assert bench.stock.forget([ONE, ObjectId(b"?" * 16)]) == {ONE}
    assert bench.stock == Stock({FUNCTION}, {FUNCTION})
