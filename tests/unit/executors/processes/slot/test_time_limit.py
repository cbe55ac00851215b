"""TimeLimit: a task that runs for too long ends, and no other task."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scaler.executors.answers import End
from scaler.executors.processes.messages import InterruptProcessor, KillProcessor, TasksFinished
from scaler.executors.processes.slot.cancellation import GRACE_SECONDS, INSIST_SECONDS, STOPPED
from scaler.executors.processes.slot.processors import ProcessorRecord
from scaler.executors.processes.slot.time_limit import TimeLimit
from scaler.executors.task_queue import RunKey, run_of
from scaler.wire.codec.structs import RunOptions
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.worker import RunResult, RunTask
from tests.support.room_bench import RoomBench, finish
from tests.support.slot_bench import SlotBench


def timed_bench(limit_seconds: float) -> tuple[SlotBench, list[RunTask]]:
    bench = SlotBench(limit_seconds).with_function()
    return bench, bench.hold()


def test_a_task_that_runs_for_longer_than_the_limit_is_interrupted() -> None:
    bench, (first, *_) = timed_bench(5)
    bench.execute(2)
    bench.wait(4.9)
    assert bench.processor.take(InterruptProcessor) == []
    bench.wait(0.1)
    assert len(bench.processor.take(InterruptProcessor)) == 1
    bench.progress.words[3] = 0
    where = RunResult(first.task_id, 0, 1, STOPPED, b"  in f\n", 5_000_000, ())
    bench.tell(TasksFinished(bench.number, Batch[RunResult]([where])))
    assert bench.texts() == [
        "it ran for 5 s on worker w, where no task may run for longer than 5 s (task_timeout_seconds)\n  in f\n"
    ]


def test_each_task_of_a_chunk_has_the_whole_time_limit() -> None:
    bench, (first, second, third) = timed_bench(5)
    bench.execute(2)
    bench.wait(4)
    bench.execute(3)
    bench.finish(first)
    bench.wait(4.9)
    assert bench.processor.take(InterruptProcessor) == []
    bench.wait(0.2)
    assert len(bench.processor.take(InterruptProcessor)) == 1
    bench.finish(second, status=STOPPED)
    bench.finish(third, status=STOPPED)  # taken back
    assert bench.answers() == [(first.task_id, TaskStatus.SUCCESS), (second.task_id, TaskStatus.TIMED_OUT)]
    assert bench.handed() == [third]


def test_a_timed_out_task_that_resists_is_killed_and_still_timed_out() -> None:
    bench, (first, *_) = timed_bench(5)
    bench.execute(2)
    bench.wait(5)
    for _ in range(round(GRACE_SECONDS / INSIST_SECONDS) + 1):
        bench.wait(INSIST_SECONDS)
    assert len(bench.processor.take(KillProcessor)) == 1
    bench.die(executing=2)
    assert bench.answers() == [(first.task_id, TaskStatus.TIMED_OUT)]


def test_a_cancelled_task_does_not_time_out() -> None:
    bench, (first, *_) = timed_bench(0.5)
    bench.execute(2)
    bench.cancel(first)
    bench.wait(0.6)
    bench.finish(first, status=STOPPED)
    assert bench.answers() == [(first.task_id, TaskStatus.CANCELED)]


def test_no_timer_runs_while_the_processor_has_no_tasks() -> None:
    bench, tasks = timed_bench(5)
    bench.finish(*tasks)
    bench.wait(5)
    assert bench.dispatcher.next_deadline() is None
    bench.run(bench.task())
    assert bench.dispatcher.next_deadline() is not None


def with_own_limit(seconds: float, task: RunTask) -> RunTask:
    return replace(task, options=RunOptions(timeout_ms=round(seconds * 1000)).encode())


@pytest.mark.parametrize("limit_seconds", [0, 60])
def test_the_timeout_option_of_a_task_ends_only_that_task(limit_seconds: float) -> None:
    bench = SlotBench(limit_seconds).with_function()
    bench.know()
    tasks = [bench.task(), with_own_limit(2, bench.task()), bench.task()]
    bench.run(*tasks)
    assert bench.handed() == tasks
    bench.execute(2)
    bench.wait(10)
    assert bench.processor.take(InterruptProcessor) == []
    bench.execute(3)
    bench.finish(tasks[0])
    bench.wait(1.9)
    assert bench.processor.take(InterruptProcessor) == []
    bench.wait(2)
    assert len(bench.processor.take(InterruptProcessor)) == 1
    bench.finish(tasks[1], status=STOPPED)
    assert bench.answers() == [(tasks[0].task_id, TaskStatus.SUCCESS), (tasks[1].task_id, TaskStatus.TIMED_OUT)]


# TimeLimit without a slot


class LimitBench(RoomBench):
    def __init__(self, limit_seconds: float) -> None:
        super().__init__()
        self.ended: list[tuple[RunKey, str]] = []
        self.texts: list[str] = []
        self.limit = TimeLimit(limit_seconds, "w", self.processors, now=self.now, schedule=self.schedule, end=self.end)

    def end(self, _processor: ProcessorRecord, ends: dict[RunKey, End]) -> None:
        self.texts += [end.text for end in ends.values()]
        self.ended += [(run, end.text.partition(" on")[0]) for run, end in ends.items()]


def test_without_a_limit_no_timer_runs() -> None:
    bench = LimitBench(0)
    processor = bench.running(tasks=1, executing=1)
    bench.limit.watch(processor, processor.tasks())
    assert bench.timers == []


def test_an_overdue_task_is_reported_with_its_run_time() -> None:
    bench = LimitBench(5)
    processor = bench.running(tasks=2, executing=1)
    first, _second = processor.tasks()
    bench.limit.watch(processor, processor.tasks())
    bench.limit.watch(processor, processor.tasks())
    bench.wait(bench.limit, 4.9)
    assert (bench.ended, len(bench.timers)) == ([], 1)
    bench.wait(bench.limit, 0.1)
    assert bench.ended == [(run_of(first), "it ran for 5 s")]


def test_the_time_limit_counts_from_the_start_of_each_task() -> None:
    bench = LimitBench(5)
    processor = bench.running(tasks=2, executing=1)
    _first, second = processor.tasks()
    bench.limit.watch(processor, processor.tasks())
    bench.wait(bench.limit, 3)
    finish(processor)
    bench.execute(processor, 2)
    bench.wait(bench.limit, 4.9)
    assert bench.ended == []
    bench.wait(bench.limit, 0.1)
    assert [run for run, _text in bench.ended] == [run_of(second)]


def test_an_idle_or_lost_processor_is_not_watched() -> None:
    bench = LimitBench(5)
    idle, gone = bench.running(tasks=1, executing=1), bench.running(tasks=1, executing=1)
    for processor in (idle, gone):
        bench.limit.watch(processor, processor.tasks())
    finish(idle)
    bench.processors.leave(gone)
    bench.limit.leave(gone)
    bench.wait(bench.limit, 5)
    assert (bench.ended, bench.timers) == ([], [])


def test_the_shorter_of_both_limits_counts_and_is_named() -> None:
    for own, seconds, sentence in ((2, 2, "its option timeout"), (9, 5, "task_timeout_seconds")):
        bench = LimitBench(5)
        processor = bench.running(tasks=1, executing=1)
        (task,) = processor.tasks()
        processor.held[0] = (with_own_limit(own, task), 0.0)
        bench.limit.watch(processor, processor.tasks())
        bench.wait(bench.limit, seconds - 0.1)
        assert bench.ended == []
        bench.wait(bench.limit, 0.1)
        assert [text for _, text in bench.ended] == [f"it ran for {seconds} s"]
        assert sentence in bench.texts[0]


def test_a_shorter_limit_of_a_later_task_is_checked_in_time() -> None:
    bench = LimitBench(60)
    processor = bench.running(tasks=2, executing=1)
    first, second = processor.tasks()
    bench.limit.watch(processor, [first])
    processor.held[1] = (with_own_limit(1, second), 0.0)
    bench.limit.watch(processor, processor.tasks()[1:])
    finish(processor)
    bench.execute(processor, 2)
    bench.wait(bench.limit, 1)
    bench.wait(bench.limit, 0.02)
    assert [run for run, _ in bench.ended] == [run_of(second)]
