"""Recall of tasks behind a long task."""

from __future__ import annotations

import pytest

from scaler.executors.messages import CachedObject, ObjectFound
from scaler.executors.processes.messages import KillProcessor
from scaler.executors.processes.slot.cancellation import STOPPED
from scaler.executors.processes.slot.processor_states import KILL
from scaler.executors.processes.slot.processors import ProcessorRecord
from scaler.executors.processes.slot.recall import SETTLE_SECONDS, STUCK_SECONDS, TOGETHER_SECONDS, Recall
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.worker import RunTask
from tests.support.room_bench import RoomBench, finish
from tests.support.slot_bench import FUNCTION, SlotBench


@pytest.fixture
def bench() -> SlotBench:
    return SlotBench().with_function()


def test_tasks_behind_a_long_task_are_taken_back(bench: SlotBench) -> None:
    tasks = bench.hold_and_execute()
    bench.wait(STUCK_SECONDS)
    assert list(bench.progress.words[1:3]) == [2, 4]
    bench.wait(SETTLE_SECONDS)
    bench.cancel(tasks[1])
    assert bench.answers() == [(tasks[1].task_id, TaskStatus.CANCELED)]
    assert bench.processor.take(KillProcessor) == []
    bench.finish(tasks[0], microseconds=20_000)
    assert bench.answers() == [(tasks[0].task_id, TaskStatus.SUCCESS)]
    # The processor's reports about tasks that it did not start are ignored. The remaining task is sent again.
    bench.finish(tasks[1], tasks[2], status=STOPPED)
    assert bench.answers() == []
    assert bench.handed() == [tasks[2]]


def test_tasks_taken_back_from_behind_a_long_task_can_be_recalled(bench: SlotBench) -> None:
    tasks = bench.hold_and_execute()
    assert bench.ask_back(*tasks) == []
    bench.wait(STUCK_SECONDS)
    bench.wait(SETTLE_SECONDS)
    assert bench.ask_back(*tasks) == [tasks[1].task_id, tasks[2].task_id]


def test_a_task_that_started_in_the_meantime_is_not_taken_back(bench: SlotBench) -> None:
    tasks = bench.hold_and_execute()
    bench.wait(STUCK_SECONDS)
    bench.progress.words[0] = 3  # it did not see the new words in time
    bench.wait(SETTLE_SECONDS)
    bench.finish(tasks[0], tasks[1])
    bench.finish(tasks[2], status=STOPPED)
    assert [task_id for task_id, _ in bench.answers()] == [tasks[0].task_id, tasks[1].task_id]
    assert bench.handed() == [tasks[2]]


def test_tasks_of_a_processor_that_progresses_are_not_taken_back(bench: SlotBench) -> None:
    tasks = bench.hold_and_execute()
    bench.finish(tasks[0])
    bench.wait(STUCK_SECONDS)
    assert list(bench.progress.words[1:3]) == [0, 0]


def test_a_task_that_takes_its_expected_time_does_not_count_as_long(bench: SlotBench) -> None:
    bench.know(microseconds=20_000)
    tasks = [bench.task() for _ in range(2)]
    bench.run(*tasks)
    assert bench.handed() == tasks
    bench.progress.words[0] = 2
    bench.wait(0.039)
    assert list(bench.progress.words[1:3]) == [0, 0]
    bench.wait(0.002)
    assert list(bench.progress.words[1:3]) == [2, 3]


def test_no_timer_is_set_for_a_single_task(bench: SlotBench) -> None:
    bench.run(bench.task())
    assert bench.dispatcher.next_deadline() is None


def test_tasks_taken_back_twice_keep_their_order(bench: SlotBench) -> None:
    tasks = bench.hold_and_execute()
    late = bench.task()
    bench.run(late)
    bench.handed()
    bench.wait(STUCK_SECONDS)
    bench.wait(SETTLE_SECONDS)
    bench.die(executing=2)
    assert bench.answers() == [(tasks[0].task_id, TaskStatus.PROCESSOR_DIED)]
    bench.processor_up()
    bench.tell(ObjectFound(CachedObject(FUNCTION, [b"x"], None)))
    assert bench.handed() == [tasks[1], tasks[2], late]


def test_a_task_sent_after_earlier_tasks_were_withheld_is_not_taken_back(bench: SlotBench) -> None:
    """The processor starts the task, because it was not withheld."""
    tasks = bench.hold_and_execute()
    bench.wait(STUCK_SECONDS)
    late = bench.task()
    bench.run(late)
    assert bench.handed() == [late]
    bench.wait(SETTLE_SECONDS)
    bench.finish(tasks[0])
    bench.finish(tasks[1], tasks[2], status=STOPPED)
    bench.finish(late)
    assert bench.answers() == [(tasks[0].task_id, TaskStatus.SUCCESS), (late.task_id, TaskStatus.SUCCESS)]
    assert bench.handed() == tasks[1:]


def test_a_task_sent_while_earlier_tasks_are_taken_back_is_taken_back_later(bench: SlotBench) -> None:
    tasks = bench.hold_and_execute()
    bench.wait(STUCK_SECONDS)
    late = bench.task()
    bench.run(late)
    assert bench.handed() == [late]
    bench.wait(SETTLE_SECONDS)
    assert bench.ask_back(*tasks, late) == [task.task_id for task in tasks[1:]]
    bench.wait(STUCK_SECONDS)
    bench.wait(SETTLE_SECONDS)
    assert bench.ask_back(late) == [late.task_id]
    assert bench.dispatcher.next_deadline() is None  # no task is left to take back


def test_a_task_that_was_taken_back_cannot_have_a_result(bench: SlotBench) -> None:
    first, second, third = bench.hold_and_execute()
    bench.wait(STUCK_SECONDS)
    bench.wait(SETTLE_SECONDS)
    bench.finish(first)
    bench.answers()
    bench.finish(second)
    assert len(bench.processor.take(KillProcessor)) == 1
    bench.die(executing=0)
    assert bench.answers() == []
    bench.processor_up()
    bench.tell(ObjectFound(CachedObject(FUNCTION, [b"x"], None)))
    assert bench.handed() == [second, third]


# Recall without a slot


class RecallBench(RoomBench):
    def __init__(self) -> None:
        super().__init__()
        self.taken: list[RunTask] = []
        self.recall = Recall(self.processors, self.schedule, self.take_back)

    def take_back(self, _processor: ProcessorRecord, tasks: list[RunTask]) -> None:
        self.taken += tasks

    def pass_seconds(self, seconds: float) -> None:
        self.wait(self.recall, seconds)


def test_a_stuck_processor_loses_its_queued_tasks_and_gets_no_further_ones() -> None:
    bench = RecallBench()
    processor = bench.running(tasks=3, executing=1)
    tasks = processor.tasks()
    bench.recall.watch(processor)
    bench.recall.watch(processor)
    assert len(bench.timers) == 1
    bench.pass_seconds(STUCK_SECONDS + SETTLE_SECONDS)
    assert (bench.taken, processor.tasks()) == (tasks[1:], tasks[:1])
    assert processor.held_us == float("inf")
    assert list(processor.progress.words[1:3]) == [1, 3]


def test_a_processor_that_finishes_tasks_is_watched_until_it_has_a_single_one() -> None:
    bench = RecallBench()
    processor = bench.running(tasks=3, executing=1)
    bench.recall.watch(processor)
    for number in (2, 3):
        finish(processor)
        bench.execute(processor, number)
        bench.pass_seconds(STUCK_SECONDS)
    assert (bench.taken, bench.timers) == ([], [])


def test_a_processor_that_delays_results_is_not_stuck_while_its_progress_page_advances() -> None:
    bench = RecallBench()
    processor = bench.running(tasks=4, executing=1)
    bench.recall.watch(processor)
    for number in (2, 3):
        bench.execute(processor, number)
        bench.pass_seconds(STUCK_SECONDS)
    assert (bench.taken, list(processor.progress.words[1:3])) == ([], [0, 0])
    behind = processor.tasks()[3:]
    bench.pass_seconds(STUCK_SECONDS + SETTLE_SECONDS)
    assert bench.taken == behind


def test_tasks_needed_together_have_extra_time_before_a_recall(bench: SlotBench) -> None:
    bench.know()
    tasks = [bench.task(rows=1) for _ in range(3)]
    bench.run(*tasks)
    bench.execute(2)
    bench.wait(STUCK_SECONDS + TOGETHER_SECONDS - 0.001)
    assert list(bench.progress.words[1:3]) == [0, 0]
    bench.wait(0.002)
    assert list(bench.progress.words[1:3]) == [2, 4]


def test_a_check_that_is_not_needed_does_not_wake_the_agent() -> None:
    bench = RecallBench()
    processor = bench.running(tasks=5, executing=1)
    bench.recall.watch(processor)
    bench.pass_seconds(STUCK_SECONDS / 2)
    finish(processor)
    bench.execute(processor, 2)
    bench.recall.watch(processor)
    assert [due for due, _ in bench.timers] == [bench.now() + STUCK_SECONDS]


def test_an_outdated_check_starts_no_second_timer() -> None:
    bench = RecallBench()
    processor = bench.running(tasks=5, executing=1)
    bench.recall.watch(processor)
    [(_, late)] = bench.timers
    finish(processor)
    bench.recall.watch(processor)
    bench.recall.mail[type(late)](late)
    assert len(bench.timers) == 1


@pytest.mark.parametrize("news", ["next task", "result", "killed", "gone"])
def test_no_task_is_taken_back_if_the_processor_has_changed_since(news: str) -> None:
    bench = RecallBench()
    processor = bench.running(tasks=3, executing=1)
    bench.recall.withhold(processor, 1)
    if news == "next task":
        bench.execute(processor, 2)
    elif news == "result":
        finish(processor)
    elif news == "killed":
        bench.processors.apply(processor, KILL)
    else:
        bench.processors.leave(processor)
        bench.recall.leave(processor)
    bench.pass_seconds(SETTLE_SECONDS)
    assert bench.taken == []


def test_late_results_do_not_keep_tasks_behind_a_long_task() -> None:
    """The agent reads the results after it withheld the tasks, because the machine is busy."""
    bench = RecallBench()
    processor = bench.running(tasks=5, executing=3)
    long, *behind = processor.tasks()[2:]
    bench.recall.watch(processor)
    bench.pass_seconds(STUCK_SECONDS)
    finish(processor, 2)
    bench.pass_seconds(SETTLE_SECONDS)
    assert (bench.taken, processor.tasks()) == (behind, [long])


@pytest.mark.parametrize("is_answered", [False, True], ids=["no result yet", "result"])
def test_a_task_that_started_before_it_was_withheld_may_be_long(is_answered: bool) -> None:
    bench = RecallBench()
    processor = bench.running(tasks=4, executing=1)
    behind = processor.tasks()[2:]
    bench.recall.watch(processor)
    bench.pass_seconds(STUCK_SECONDS)
    bench.execute(processor, 2)
    if is_answered:
        finish(processor)
    bench.pass_seconds(SETTLE_SECONDS)
    assert bench.taken == []
    bench.pass_seconds(STUCK_SECONDS + SETTLE_SECONDS)
    assert bench.taken == behind
    assert list(processor.progress.words[1:3]) == [1, 4]  # the processor may not have read the page yet


def test_a_processor_without_queued_tasks_is_no_longer_watched() -> None:
    bench = RecallBench()
    processor = bench.running(tasks=3, executing=1)
    bench.recall.watch(processor)
    bench.pass_seconds(STUCK_SECONDS + SETTLE_SECONDS)
    bench.recall.watch(processor)
    bench.pass_seconds(STUCK_SECONDS)
    assert bench.timers == []


def test_a_task_sent_later_is_taken_back_after_it_was_withheld() -> None:
    bench = RecallBench()
    processor = bench.running(tasks=2, executing=1)
    first, second = processor.tasks()
    bench.recall.withhold(processor, 1)
    bench.pass_seconds(SETTLE_SECONDS / 2)
    late = bench.task()
    processor.held.append((late, 1.0))
    bench.recall.withhold(processor, 1)
    bench.pass_seconds(SETTLE_SECONDS / 2)
    assert (bench.taken, processor.tasks()) == ([second], [first, late])
    bench.pass_seconds(SETTLE_SECONDS / 2)
    assert (bench.taken, processor.tasks()) == ([second, late], [first])


def test_no_task_is_taken_back_while_no_task_is_executed() -> None:
    bench = RecallBench()
    processor = bench.running(tasks=3)
    bench.recall.withhold(processor, 0)
    assert list(processor.progress.words[1:3]) == [0, 3]
    assert bench.timers == []


def test_tasks_behind_a_stuck_task_are_taken_back_at_once() -> None:
    bench = RecallBench()
    processor = bench.running(tasks=2, executing=1)
    behind = processor.tasks()[1]
    bench.recall.withhold_stuck(processor, 1)
    assert (bench.taken, bench.timers) == ([behind], [])


def test_a_blocked_task_does_not_count_as_long() -> None:
    bench = RecallBench()
    processor = bench.blocked()
    bench.recall.watch(processor)
    bench.pass_seconds(STUCK_SECONDS)
    assert bench.timers == []
