"""Reserve: the number of processors."""

from __future__ import annotations

import pytest

from scaler.executors.messages import RestartProcesses
from scaler.executors.processes.messages import (
    AddProcessor,
    DismissProcessor,
    ProcessorComing,
    ProcessorDown,
    ProcessorKept,
    ProcessorNotComing,
)
from scaler.executors.processes.slot.processor_states import DISMISSED, IDLE
from scaler.executors.processes.slot.reserve import AGAIN_SECONDS, READY_AHEAD, SPARE_KEPT, SPARE_SECONDS, Reserve
from scaler.wire.messages.common import TaskStatus
from tests.support.room_bench import RoomBench
from tests.support.slot_bench import WaitingBench


@pytest.fixture
def bench() -> WaitingBench:
    return WaitingBench()


def test_no_extra_processor_starts_before_a_task_is_blocked(bench: WaitingBench) -> None:
    bench.run(*(bench.task() for _ in range(5)))
    assert bench.pool.messages == []


@pytest.mark.parametrize(
    "news", [ProcessorNotComing(50, is_extra=True, is_tried_again=False), ProcessorDown(50, 0, "died")]
)
def test_a_processor_that_fails_to_start_is_requested_again(bench: WaitingBench, news: object) -> None:
    bench.run(bench.task())
    bench.wait_for_others(1)
    assert bench.pool.take(AddProcessor) == [AddProcessor(3)] * READY_AHEAD
    bench.tell(ProcessorComing(50, True))
    bench.tell(news)
    bench.run(bench.task())
    assert bench.pool.take(AddProcessor) == [AddProcessor(3)]


def test_processors_that_are_idle_for_some_time_end(bench: WaitingBench) -> None:
    parent = bench.task()
    bench.run(parent)
    bench.wait_for_others(1)
    for _ in range(SPARE_KEPT + 3):
        bench.up()
    bench.ask(1)
    bench.end(1, parent)
    for _ in range(2):
        bench.wait(SPARE_SECONDS)
    ended = dismissed(bench)
    assert len(ended) == 3
    assert 1 not in ended
    bench.tell(ProcessorKept(ended[0]))
    bench.tell(ProcessorDown(ended[1], 0, "ended"))
    assert bench.answers() == [(parent.task_id, TaskStatus.SUCCESS)]


def test_processors_that_lost_the_slot_to_a_resumed_task_end_when_idle(bench: WaitingBench) -> None:
    depth = SPARE_KEPT + 3
    chain = [bench.task(priority=priority) for priority in range(depth)]
    for task in chain:
        bench.run(task)
        if task is not chain[-1]:
            bench.wait_for_others(bench.number)
            bench.up()
    bench.end(depth, chain[-1])
    for number in range(depth - 1, 0, -1):
        bench.ask(number)
        bench.end(number, chain[number - 1])
    for _ in range(2):
        bench.wait(SPARE_SECONDS)
    extra = depth - 1
    assert len(bench.processor.take(DismissProcessor)) == extra - SPARE_KEPT


# Reserve without a slot


class ReserveBench(RoomBench):
    def __init__(self) -> None:
        super().__init__()
        self.asked = 0
        self.reserve = Reserve(self.processors, self.add, self.schedule)

    def add(self) -> None:
        self.asked += 1

    def receive(self, message: object) -> None:
        self.reserve.mail[type(message)](message)
        self.audit(self.reserve)


def test_one_processor_is_requested_without_an_active_one_and_several_for_a_blocked_task() -> None:
    bench = ReserveBench()
    bench.reserve.fill()
    bench.reserve.fill()
    assert bench.asked == 1
    bench.receive(ProcessorComing(50, True))
    bench.reserve.fill()
    assert (bench.asked, bench.reserve.count()) == (1, 1)
    bench.receive(ProcessorNotComing(50, is_extra=True, is_tried_again=False))
    bench.blocked()
    bench.reserve.fill()
    assert (bench.asked, bench.reserve.count()) == (1 + READY_AHEAD, READY_AHEAD)


def test_a_new_pool_forgets_requested_processors() -> None:
    bench = ReserveBench()
    bench.blocked()
    bench.reserve.fill()
    bench.receive(ProcessorComing(50, False))
    assert bench.reserve.count() == READY_AHEAD + 1
    bench.receive(ProcessorComing(51, False, pool=2))
    assert bench.reserve.count() == 2
    for number in (50, 51):
        bench.receive(ProcessorNotComing(number, is_extra=False, is_tried_again=False))
    assert bench.reserve.count() == 0


def test_a_start_that_the_pool_retries_is_not_requested_again() -> None:
    bench = ReserveBench()
    bench.blocked()
    bench.reserve.fill()
    assert (bench.asked, bench.reserve.count()) == (1, READY_AHEAD)
    bench.receive(ProcessorComing(50, False))
    bench.receive(ProcessorComing(51, True))
    for number in range(50, 70, 2):  # both fail repeatedly
        bench.receive(ProcessorNotComing(number, is_extra=False, is_tried_again=True))
        bench.receive(ProcessorNotComing(number + 1, is_extra=True, is_tried_again=True))
        bench.reserve.fill()
        assert (bench.asked, bench.reserve.count()) == (1, READY_AHEAD + 1)
        bench.receive(ProcessorComing(number + 2, False))
        bench.receive(ProcessorComing(number + 3, True))


def test_the_successor_of_the_usual_processor_is_expected_without_a_request() -> None:
    bench = ReserveBench()
    for is_extra, count in ((True, 0), (False, 1)):
        processor = bench.idle(is_extra)
        bench.processors.leave(processor)
        bench.reserve.leave(processor)
        assert bench.reserve.count() == count


def test_extra_processors_without_results_between_two_checks_are_dismissed_except_some() -> None:
    bench = ReserveBench()
    usual = bench.idle(is_extra=False)
    extra = [bench.idle() for _ in range(SPARE_KEPT + 2)]
    bench.reserve.watch()
    bench.reserve.watch()
    assert len(bench.timers) == 1
    bench.wait(bench.reserve, SPARE_SECONDS)
    assert bench.take(DismissProcessor) == []  # the time before is unknown
    extra[0].results_seen += 1  # it has run a task since, and is idle again
    bench.wait(bench.reserve, SPARE_SECONDS)
    assert bench.take(DismissProcessor) == [DismissProcessor(extra[1].number)]
    bench.wait(bench.reserve, SPARE_SECONDS)
    assert bench.take(DismissProcessor) == [DismissProcessor(extra[0].number)]
    assert (usual.state, extra[0].state) == (IDLE, DISMISSED)
    bench.wait(bench.reserve, 10 * SPARE_SECONDS)
    assert (bench.take(DismissProcessor), bench.timers) == ([], [])
    bench.receive(ProcessorKept(extra[0].number))
    assert extra[0].state == IDLE


# Restarts: new processors replace all, each after its current tasks.


def dismissed(bench: WaitingBench) -> list[int]:
    return [dismiss.number for dismiss in bench.processor.take(DismissProcessor)]


def test_a_restart_ends_an_idle_processor_at_once_and_new_tasks_run_in_the_next(bench: WaitingBench) -> None:
    bench.tell(RestartProcesses())
    assert dismissed(bench) == [1]
    task = bench.task()
    bench.run(task)
    assert bench.handed_to() == []
    assert bench.pool.take(AddProcessor) == []  # the pool starts the next one without a request
    bench.tell(ProcessorDown(1, 0, "ended"))
    bench.up(is_extra=False)
    assert bench.handed_to() == [(2, [task])]
    assert dismissed(bench) == []


def test_a_restart_lets_a_busy_processor_finish_its_tasks_and_gives_it_no_more(bench: WaitingBench) -> None:
    first, second = bench.task(), bench.task()
    bench.run(first)
    bench.tell(RestartProcesses())
    bench.run(second)
    assert bench.handed_to() == [(1, [first])]
    assert dismissed(bench) == []
    bench.end(1, first)
    assert dismissed(bench) == [1]
    bench.tell(ProcessorDown(1, 0, "ended"))
    bench.up(is_extra=False)
    assert bench.handed_to() == [(2, [second])]


def test_a_restart_ends_a_blocked_processor_after_its_task(bench: WaitingBench) -> None:
    parent, child = bench.task(), bench.task(priority=1)
    bench.run(parent)
    bench.wait_for_others(1)
    bench.up()
    bench.tell(RestartProcesses())
    assert dismissed(bench) == [2]
    bench.run(child)
    asked = len(bench.pool.take(AddProcessor))
    assert asked > 0  # no processor is idle, and the usual one is not replaced before its task has ended
    bench.up()
    bench.handed_to()
    bench.end(3, child)
    bench.ask(1)
    assert bench.permitted() == [1]
    bench.end(1, parent)
    assert dismissed(bench) == [1]


def test_a_processor_that_cannot_be_restarted_yet_takes_tasks_until_then(bench: WaitingBench) -> None:
    bench.tell(RestartProcesses())
    assert dismissed(bench) == [1]
    bench.tell(ProcessorKept(1))
    task = bench.task()
    bench.run(task)
    assert bench.handed_to() == [(1, [task])]
    bench.end(1, task)
    assert dismissed(bench) == []
    bench.wait(AGAIN_SECONDS)
    assert dismissed(bench) == [1]


def test_a_processor_that_dies_during_a_restart_is_forgotten(bench: WaitingBench) -> None:
    task = bench.task()
    bench.run(task)
    bench.tell(RestartProcesses())
    bench.tell(ProcessorDown(1, 1, "died"))  # the bench audits the records of dead processors
    bench.tell(ProcessorComing(9, False))
    assert dismissed(bench) == []
