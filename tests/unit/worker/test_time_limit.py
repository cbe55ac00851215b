"""TimeLimit: a task that runs for too long ends, and no other one."""

from __future__ import annotations

from scaler.wire.messages.columns import Batch
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.worker import RunResult, RunTask
from scaler.worker.cancellation import GRACE_SECONDS, INSIST_SECONDS, STOPPED
from scaler.worker.messages import InterruptProcessor, KillProcessor, TasksFinished
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


def test_each_task_of_a_chunk_has_the_whole_limit() -> None:
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


def test_a_timed_out_task_that_does_not_end_is_killed_and_gets_no_mark() -> None:
    bench, (first, *_) = timed_bench(5)
    bench.execute(2)
    bench.wait(5)
    for _ in range(round(GRACE_SECONDS / INSIST_SECONDS) + 1):
        bench.wait(INSIST_SECONDS)
    assert len(bench.processor.take(KillProcessor)) == 1
    bench.die(executing=2)
    assert bench.answers() == [(first.task_id, TaskStatus.TIMED_OUT)]


def test_a_canceled_task_is_not_timed_out_as_well() -> None:
    bench, (first, *_) = timed_bench(0.5)
    bench.execute(2)
    bench.cancel(first)
    bench.wait(0.6)
    bench.finish(first, status=STOPPED)
    assert bench.answers() == [(first.task_id, TaskStatus.CANCELED)]


def test_no_timer_runs_while_nothing_is_held() -> None:
    bench, tasks = timed_bench(5)
    bench.finish(*tasks)
    bench.wait(5)
    assert bench.dispatcher.next_deadline() is None
    bench.run(bench.task())
    assert bench.dispatcher.next_deadline() is not None
