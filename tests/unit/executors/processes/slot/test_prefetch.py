"""Prefetch: the order and number of the tasks that a processor gets."""

from __future__ import annotations

import pytest

from scaler.executors.messages import CachedObject, ObjectFound
from scaler.executors.processes.messages import ProcessorBlocked
from scaler.executors.processes.slot.prefetch import (
    FUNCTIONS_REMEMBERED,
    HELD_TASKS,
    NEXT_US,
    OVERHEAD_US,
    PORTION_BYTES,
    UNKNOWN_US,
    Prefetch,
)
from scaler.executors.processes.slot.supplies import Supplies
from scaler.executors.supply import Supply
from scaler.executors.task_queue import TaskQueue
from scaler.ids import ObjectId, TaskId
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.worker import RunTask
from tests.support.room_bench import RoomBench
from tests.support.slot_bench import FUNCTION, OTHER, SlotBench


@pytest.fixture
def bench() -> SlotBench:
    return SlotBench().with_function()


def test_the_first_task_of_a_function_is_sent_alone(bench: SlotBench) -> None:
    tasks = [bench.task() for _ in range(3)]
    bench.run(*tasks)
    assert bench.handed() == tasks[:1]


def test_short_tasks_are_sent_together_in_order(bench: SlotBench) -> None:
    bench.know()
    tasks = [bench.task() for _ in range(2000)]
    bench.run(*tasks)
    handed = bench.handed()
    assert handed == tasks[: len(handed)]
    assert len(handed) == HELD_TASKS


def test_deeper_tasks_are_sent_first(bench: SlotBench) -> None:
    bench.know(microseconds=50_000)
    plain, child, grandchild = bench.task(), bench.task(priority=1), bench.task(priority=2)
    first = bench.task()
    bench.run(first)
    bench.run(plain, child)
    bench.run(grandchild)
    order = []
    for _ in range(4):
        (task,) = bench.handed()
        order.append(task)
        bench.finish(task, microseconds=50_000)
    assert order == [first, grandchild, child, plain]


def test_one_chunk_may_have_tasks_of_several_priorities(bench: SlotBench) -> None:
    bench.know()
    child, plain = bench.task(priority=1), bench.task()
    bench.run(plain, child)
    assert bench.handed() == [child, plain]


def test_a_processor_is_refilled_when_half_of_its_tasks_are_done(bench: SlotBench) -> None:
    bench.know()
    tasks = [bench.task() for _ in range(2000)]
    bench.run(*tasks)
    first = bench.handed()
    bench.finish(*first[: HELD_TASKS // 2 - 1])
    assert bench.handed() == []
    bench.finish(first[HELD_TASKS // 2 - 1])
    assert bench.handed() == tasks[HELD_TASKS : HELD_TASKS + HELD_TASKS // 2]


def test_long_tasks_are_sent_one_by_one(bench: SlotBench) -> None:
    bench.know(microseconds=50_000)
    tasks = [bench.task() for _ in range(3)]
    bench.run(*tasks)
    assert bench.handed() == tasks[:1]
    bench.finish(tasks[0], microseconds=50_000)
    assert bench.handed() == tasks[1:2]


def test_one_task_is_queued_in_the_processor_behind_a_task_of_some_milliseconds(bench: SlotBench) -> None:
    bench.know(microseconds=9_000)
    tasks = [bench.task() for _ in range(4)]
    bench.run(*tasks)
    assert bench.handed() == tasks[:2]
    bench.finish(tasks[0], microseconds=9_000)
    assert bench.handed() == tasks[2:3]
    bench.finish(tasks[1], microseconds=9_000)
    assert bench.handed() == tasks[3:]


def test_no_task_is_queued_behind_a_long_task_and_no_long_task_behind_another(bench: SlotBench) -> None:
    bench = SlotBench().with_function(FUNCTION, OTHER)
    bench.know(microseconds=int(NEXT_US))
    bench.know(microseconds=9_000, function=OTHER)
    long, middling, unlike = bench.task(), bench.task(OTHER), bench.task()
    bench.run(long, middling, unlike)
    assert bench.handed() == [long]
    bench.finish(long, microseconds=int(NEXT_US))
    assert bench.handed() == [middling]
    bench.finish(middling, microseconds=9_000)
    assert bench.handed() == [unlike]


def test_a_processor_holds_more_tasks_whose_results_are_needed_together(bench: SlotBench) -> None:
    bench.know(microseconds=10_000)
    tasks = [bench.task(rows=1) for _ in range(8)]
    bench.run(*tasks)
    assert bench.handed() == tasks[:4]
    bench.finish(tasks[0], microseconds=10_000)
    assert bench.handed() == []
    bench.finish(tasks[1], microseconds=10_000)
    assert bench.handed() == tasks[4:6]


def test_a_processor_holds_the_usual_number_of_tasks_while_a_task_of_its_worker_is_blocked(bench: SlotBench) -> None:
    """A task that requests to resume waits for all tasks that another processor holds."""
    bench.know(microseconds=2_000)
    blocked = bench.task()
    bench.run(blocked)
    assert bench.handed() == [blocked]
    bench.tell(ProcessorBlocked(bench.number, 2, True))
    bench.processor_up(is_extra=True)
    bench.tell(ObjectFound(CachedObject(FUNCTION, [b"x"], None)))
    tasks = [bench.task(rows=1) for _ in range(8)]
    bench.run(*tasks)
    assert bench.handed() == tasks[:2]


def test_no_other_task_is_queued_behind_several_tasks_needed_together(bench: SlotBench) -> None:
    bench.know(microseconds=10_000)
    tasks, alone = [bench.task(rows=1) for _ in range(3)], bench.task()
    bench.run(*tasks, alone)
    assert bench.handed() == tasks
    bench.finish(*tasks[:2], microseconds=10_000)
    assert bench.handed() == [alone]


def test_no_task_is_queued_behind_a_long_task_even_if_all_are_needed_together() -> None:
    bench = SlotBench().with_function(FUNCTION, OTHER)
    bench.know(microseconds=int(NEXT_US) + 1)
    bench.know(microseconds=10_000, function=OTHER)
    long, short = bench.task(rows=1), [bench.task(OTHER, rows=1) for _ in range(2)]
    bench.run(long, *short)
    assert bench.handed() == [long]
    bench.finish(long, microseconds=int(NEXT_US) + 1)
    bench.run(bench.task(rows=1))
    assert bench.handed() == short, "a long task is not queued"


def test_a_short_task_is_not_queued_behind_a_long_task_in_the_processor() -> None:
    bench = SlotBench().with_function(FUNCTION, OTHER)
    bench.know(microseconds=50_000)
    bench.know(microseconds=1, function=OTHER)
    long, short = bench.task(), bench.task(OTHER)
    bench.run(long, short)
    assert bench.handed() == [long]


class Stock:
    """A queue, and a processor that has every object."""

    def __init__(self) -> None:
        self.queue = TaskQueue()
        bench = RoomBench()
        supplies = Supplies(bench.processors, Supply(lambda _object_id, _is_function: None))
        self.portions = Prefetch(self.queue, supplies)
        self.processor = bench.running()
        supplies.join(self.processor)
        supplies.found(CachedObject(FUNCTION, [b"x"], None), self.processor)

    def take(self, *payloads: bytes) -> int:
        """Return how many tasks with these payloads are taken at once."""
        self.queue.add(RunTask(TaskId(bytes(16)), 0, 1, FUNCTION, payload, b"", 0) for payload in payloads)
        return len(self.portions.take(self.processor))

    def expected_us(self) -> float:
        """Return the expected time of a task."""
        self.processor.held.clear()
        self.take(b"")
        self.portions.weigh()
        return next(entry[1] for entry in self.processor.held if entry is not None)


def test_a_single_task_is_taken_before_its_time_is_estimated() -> None:
    stock = Stock()
    assert stock.take(b"") == 1
    stock.processor.held.clear()
    stock.processor.held_us = 0.0
    stock.portions.took_us[FUNCTION].append(70)
    assert stock.take(b"") == 1
    assert (stock.processor.held_us, stock.portions.took_us[FUNCTION]) == (0.0, [70])
    stock.portions.weigh()
    assert stock.processor.held_us == 70 + OVERHEAD_US
    assert [entry[1] for entry in stock.processor.held if entry] == [70 + OVERHEAD_US]
    assert stock.portions.took_us[FUNCTION] == []


def test_the_task_after_a_single_task_is_taken_by_the_time_of_the_first() -> None:
    stock = Stock()
    assert stock.take(b"") == 1
    stock.processor.held.clear()
    stock.processor.held_us = 0.0
    stock.portions.took_us[FUNCTION].append(int(NEXT_US) + 1)
    assert stock.take(b"") == 1
    assert stock.take(b"") == 0, "the first task was long"


def test_a_single_task_may_end_before_its_time_is_estimated() -> None:
    stock = Stock()
    assert stock.take(b"") == 1
    for following in (None, (RunTask(TaskId(bytes(16)), 0, 2, FUNCTION, b"", b""), 3.0)):
        stock.processor.held.clear()
        stock.processor.held_us = 0.0
        assert stock.take(b"") == 1
        stock.processor.held.clear()
        if following is not None:
            stock.processor.held.append(following)
        stock.portions.weigh()
        assert list(stock.processor.held) == ([following] if following else [])
        assert stock.processor.held_us == 0.0


def test_a_single_task_is_sent_before_its_time_is_estimated(bench: SlotBench) -> None:
    bench.know()
    prefetch, is_estimated = bench.actor._prefetch, []

    class Mail(list[object]):
        def append(self, message: object) -> None:
            is_estimated.append(prefetch.unweighed is None)

    bench.processor.messages = Mail()
    bench.run(bench.task())
    assert is_estimated == [False]
    assert prefetch.unweighed is None


def test_a_single_task_is_not_sent_without_its_objects(bench: SlotBench) -> None:
    bench.know()
    bench.run(bench.task(object_ids=b"o" * 16))
    assert bench.handed() == []
    bench.run(bench.task(OTHER))
    assert bench.handed() == []


def test_two_successive_tasks_are_sent_according_to_their_times(bench: SlotBench) -> None:
    bench.know(microseconds=int(NEXT_US) + 1)
    first, second = bench.task(), bench.task()
    bench.slot.send(Batch[RunTask]([first]))
    bench.slot.send(Batch[RunTask]([second]))
    bench.wait(0)
    assert bench.handed() == [first]


def test_the_bytes_of_a_portion_are_bounded_unless_one_task_has_more() -> None:
    half = bytes(PORTION_BYTES // 2)
    stock = Stock()
    stock.portions.took_us[FUNCTION].append(0)
    assert stock.take(half, half, b"1") == 2
    stock = Stock()
    stock.portions.took_us[FUNCTION].append(0)
    assert stock.take(half + half + b"1", b"") == 1


def test_the_expected_time_of_a_function_rises_faster_than_it_falls() -> None:
    stock = Stock()
    assert stock.expected_us() == UNKNOWN_US
    for took_us, expected_us in ((100, 100), (200, 150), (50, 140)):
        stock.portions.took_us[FUNCTION].append(took_us - OVERHEAD_US)
        assert stock.expected_us() == expected_us


def test_the_times_of_deleted_and_of_too_many_functions_are_forgotten() -> None:
    stock = Stock()
    stock.portions.took_us[FUNCTION].append(0)
    stock.portions.forget([OTHER, FUNCTION])
    assert stock.expected_us() == UNKNOWN_US
    stock.portions.took_us[FUNCTION].append(0)
    for number in range(FUNCTIONS_REMEMBERED):
        stock.portions.took_us[ObjectId(number.to_bytes(16, "big"))].append(0)
    assert stock.expected_us() == UNKNOWN_US
