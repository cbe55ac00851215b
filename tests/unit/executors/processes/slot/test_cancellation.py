"""Cancellation of tasks in the processor."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scaler.executors.answers import End
from scaler.executors.messages import CachedObject, ObjectFound
from scaler.executors.processes.messages import InterruptProcessor, KillProcessor
from scaler.executors.processes.slot.cancellation import GRACE_SECONDS, INSIST_SECONDS, STOPPED, Cancellation
from scaler.executors.processes.slot.processor_states import DISTRUSTED, KILLED
from scaler.executors.processes.slot.processors import ProcessorRecord
from scaler.executors.processes.slot.recall import SETTLE_SECONDS
from scaler.executors.task_queue import run_of
from scaler.wire.codec.structs import RunOptions
from scaler.wire.messages.common import TaskStatus
from tests.support.room_bench import RoomBench, finish
from tests.support.slot_bench import FUNCTION, SlotBench


@pytest.fixture
def bench() -> SlotBench:
    return SlotBench().with_function()


def test_a_cancel_of_the_executing_task_interrupts_only_that_task(bench: SlotBench) -> None:
    first, second, third = bench.hold_and_execute()
    bench.cancel(first)
    assert bench.processor.take(InterruptProcessor) == [InterruptProcessor(1)]
    assert list(bench.progress.words[1:4]) == [0, 0, 2]
    assert bench.answers() == []  # it keeps its place until it has ended
    bench.progress.words[3] = 0  # by the processor
    bench.finish(first, status=STOPPED)
    bench.finish(second, third)
    assert bench.answers() == [
        (first.task_id, TaskStatus.CANCELED),
        (second.task_id, TaskStatus.SUCCESS),
        (third.task_id, TaskStatus.SUCCESS),
    ]
    bench.wait(2 * GRACE_SECONDS)
    assert bench.processor.messages == []
    assert bench.dispatcher.next_deadline() is None


def test_the_interrupt_is_repeated_until_the_processor_has_interrupted_the_task(bench: SlotBench) -> None:
    first, *_ = bench.hold_and_execute()
    bench.cancel(first)
    bench.wait(INSIST_SECONDS)
    assert len(bench.processor.take(InterruptProcessor)) == 2
    bench.progress.words[3] = 0
    for _ in range(5):
        bench.wait(INSIST_SECONDS)
    assert bench.processor.take(InterruptProcessor) == []


def test_a_running_at_most_once_task_ends_when_its_processor_is_killed_for_another_task(bench: SlotBench) -> None:
    bench.know()
    first, once = bench.task(), replace(bench.task(), options=RunOptions(at_most_once=True).encode())
    bench.run(first, once)
    bench.progress.words[0] = 2
    bench.cancel(first)
    bench.wait(GRACE_SECONDS + 2 * INSIST_SECONDS)
    bench.wait(INSIST_SECONDS)
    assert len(bench.processor.take(KillProcessor)) == 1
    bench.die(executing=3)
    assert bench.answers() == [(first.task_id, TaskStatus.CANCELED), (once.task_id, TaskStatus.PROCESSOR_DIED)]


def test_a_task_that_resists_is_killed_after_the_grace_period_and_queued_tasks_run_again(bench: SlotBench) -> None:
    first, second, third = bench.hold_and_execute()
    late = bench.task()
    bench.run(late)
    bench.handed()
    bench.cancel(first)
    bench.progress.words[3] = 0
    for _ in range(round(GRACE_SECONDS / INSIST_SECONDS) - 1):
        bench.wait(INSIST_SECONDS)
        assert bench.processor.take(KillProcessor) == []
    bench.wait(2 * INSIST_SECONDS)
    assert len(bench.processor.take(KillProcessor)) == 1
    bench.die(executing=2)
    assert bench.answers() == [(first.task_id, TaskStatus.CANCELED)]
    bench.processor_up()
    bench.tell(ObjectFound(CachedObject(FUNCTION, [b"x"], None)))
    assert bench.handed() == [second, third, late]


def test_a_death_in_the_grace_period_ends_only_the_cancelled_task(bench: SlotBench) -> None:
    first, second, third = bench.hold_and_execute()
    bench.cancel(first)
    bench.die(executing=2)
    assert bench.answers() == [(first.task_id, TaskStatus.CANCELED)]
    bench.processor_up()
    bench.tell(ObjectFound(CachedObject(FUNCTION, [b"x"], None)))
    assert bench.handed() == [second, third]


def test_a_cancelled_task_in_the_processors_queue_is_not_started(bench: SlotBench) -> None:
    first, second, third = bench.hold_and_execute()
    bench.cancel(second)
    assert list(bench.progress.words[1:4]) == [2, 4, 0]
    assert bench.processor.take(InterruptProcessor) == []
    bench.finish(first)
    bench.finish(second, third, status=STOPPED)
    assert bench.answers() == [(first.task_id, TaskStatus.SUCCESS), (second.task_id, TaskStatus.CANCELED)]
    assert bench.handed() == [third]


def test_a_cancel_of_a_task_behind_a_long_one_is_answered_at_once(bench: SlotBench) -> None:
    first, second, third = bench.hold_and_execute()
    bench.cancel(second)
    bench.wait(SETTLE_SECONDS)
    assert bench.answers() == [(second.task_id, TaskStatus.CANCELED)]
    bench.finish(first)
    bench.finish(second, third, status=STOPPED)
    assert bench.answers() == [(first.task_id, TaskStatus.SUCCESS)]
    assert bench.handed() == [third]


def test_a_task_that_started_in_spite_of_its_cancel_is_interrupted(bench: SlotBench) -> None:
    first, second, third = bench.hold_and_execute()
    bench.cancel(second)
    bench.progress.words[0] = 3  # it did not see the new words in time
    bench.finish(first)
    bench.wait(INSIST_SECONDS)
    assert len(bench.processor.take(InterruptProcessor)) == 1
    bench.finish(second, status=STOPPED)
    bench.finish(third, status=STOPPED)  # withheld
    assert bench.answers() == [(first.task_id, TaskStatus.SUCCESS), (second.task_id, TaskStatus.CANCELED)]
    assert bench.handed() == [third]


def test_a_cancel_between_two_tasks_waits_for_the_report_of_the_processor(bench: SlotBench) -> None:
    first, second, third = bench.hold_and_execute()
    bench.progress.words[0] = 0
    bench.cancel(second)
    assert list(bench.progress.words[1:3]) == [1, 4]
    bench.wait(SETTLE_SECONDS)
    assert bench.answers() == []
    bench.finish(first)  # had ended before
    bench.finish(second, third, status=STOPPED)
    assert bench.answers() == [(first.task_id, TaskStatus.SUCCESS), (second.task_id, TaskStatus.CANCELED)]
    assert bench.handed() == [third]


def test_a_cancel_of_all_tasks_of_a_processor_answers_each_once(bench: SlotBench) -> None:
    tasks = bench.hold_and_execute()
    bench.cancel(*tasks)
    assert len(bench.processor.take(InterruptProcessor)) == 1
    bench.wait(SETTLE_SECONDS)
    bench.finish(*tasks, status=STOPPED)
    assert sorted(bench.answers()) == sorted((task.task_id, TaskStatus.CANCELED) for task in tasks)
    following = bench.task()
    bench.run(following)
    assert bench.handed() == [following]


def test_a_repeated_cancel_is_answered_once(bench: SlotBench) -> None:
    first, *_ = bench.hold_and_execute()
    bench.cancel(first)
    bench.cancel(first)
    bench.finish(first, status=STOPPED)
    bench.cancel(first)
    assert bench.answers() == [(first.task_id, TaskStatus.CANCELED)]


def test_a_result_that_was_read_overrules_a_cancel(bench: SlotBench) -> None:
    task = bench.task()
    bench.run(task)
    bench.cancel(task)
    bench.finish(task)
    bench.die(executing=0)
    assert bench.answers() == [(task.task_id, TaskStatus.SUCCESS)]


def test_no_task_is_sent_behind_a_cancelled_task(bench: SlotBench) -> None:
    first, following = bench.task(), bench.task()
    bench.run(first)
    bench.handed()
    bench.cancel(first)
    bench.run(following)
    assert bench.handed() == []
    bench.finish(first, status=STOPPED)
    assert bench.handed() == [following]


# Cancellation without a slot


CANCELED, TIMED_OUT = End(TaskStatus.CANCELED), End(TaskStatus.TIMED_OUT, "too long")


class CancellationBench(RoomBench):
    def __init__(self) -> None:
        super().__init__()
        self.withheld: list[int] = []
        self.cancellation = Cancellation(self.processors, self.now, self.schedule, self.withhold)

    def withhold(self, processor: ProcessorRecord, executing: int) -> None:
        self.withheld.append(executing)
        processor.progress.withhold(after=executing, to=processor.results_seen + len(processor.held))

    def stop(self, processor: ProcessorRecord, *indexes: int, end: End = CANCELED) -> None:
        tasks = processor.tasks()
        self.cancellation.stop(processor, {run_of(tasks[index]): end for index in indexes})
        self.audit(self.cancellation)

    def end_first(self, processor: ProcessorRecord) -> End | None:
        """Have the processor answer for its first task. Return how the task ends."""
        ends = self.cancellation.ends(processor)
        end = ends.pop(run_of(processor.tasks()[0]), None) if ends else None
        finish(processor)
        return end

    def pass_seconds(self, seconds: float) -> None:
        self.wait(self.cancellation, seconds)


def test_the_executing_task_is_interrupted_and_the_task_behind_it_withheld() -> None:
    bench = CancellationBench()
    processor = bench.running(tasks=3, executing=1)
    bench.stop(processor, 1)
    assert (bench.withheld, bench.take(InterruptProcessor)) == ([1], [])
    bench.stop(processor, 0)
    assert bench.take(InterruptProcessor) == [InterruptProcessor(1)]
    assert processor.progress.words[3] == 1
    assert bench.withheld == [1]  # unchanged


def test_repeated_interrupts_stop_with_the_task_and_start_again_for_the_next() -> None:
    bench = CancellationBench()
    processor = bench.running(tasks=3, executing=1)
    bench.stop(processor, 0)
    bench.pass_seconds(3 * INSIST_SECONDS)
    assert len(bench.take(InterruptProcessor)) == 4
    assert bench.end_first(processor) == CANCELED
    assert bench.cancellation.ends(processor) is None
    bench.execute(processor, 2)
    bench.stop(processor, 0)
    assert len(bench.timers) == 1  # the existing one
    assert bench.end_first(processor) == CANCELED
    bench.pass_seconds(2 * INSIST_SECONDS)
    assert bench.timers == []
    bench.execute(processor, 3)
    bench.stop(processor, 0)
    assert len(bench.timers) == 1


def test_the_first_reason_to_stop_a_task_determines_its_status() -> None:
    bench = CancellationBench()
    processor = bench.running(tasks=1, executing=1)
    bench.stop(processor, 0)
    bench.stop(processor, 0, end=TIMED_OUT)
    assert bench.end_first(processor) == CANCELED


def test_each_task_that_resists_has_its_own_grace_period() -> None:
    bench = CancellationBench()
    processor = bench.running(tasks=2, executing=1)
    bench.stop(processor, 0, 1)
    bench.pass_seconds(GRACE_SECONDS / 2)
    bench.end_first(processor)
    bench.execute(processor, 2)
    bench.pass_seconds(GRACE_SECONDS * 0.9)
    assert bench.take(KillProcessor) == []
    bench.pass_seconds(GRACE_SECONDS * 0.2)
    (kill,) = bench.take(KillProcessor)
    assert (processor.state, bench.cancellation.why_killed(processor)) == (KILLED, kill.reason)
    assert bench.cancellation.ends(processor) == {run_of(processor.tasks()[0]): CANCELED}
    bench.pass_seconds(2 * INSIST_SECONDS)
    assert bench.timers == []


def test_the_reason_of_a_killed_processor_is_kept_until_it_has_ended() -> None:
    bench = CancellationBench()
    processor = bench.running(tasks=2, executing=1)
    bench.cancellation.distrust(processor, "a wrong result")
    bench.stop(processor, 0)
    assert bench.take(InterruptProcessor) == []
    assert (processor.state, bench.cancellation.why_killed(processor)) == (DISTRUSTED, "a wrong result")
    assert bench.cancellation.ends(processor) is not None
    bench.processors.leave(processor)
    bench.cancellation.leave(processor)
    bench.pass_seconds(INSIST_SECONDS)
    assert bench.timers == []
