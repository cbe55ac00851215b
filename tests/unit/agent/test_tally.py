"""The counts of an agent while it is watched."""

from __future__ import annotations

from scaler.agent.tally import BUCKETS, NO_RUNS, Tally
from scaler.ids import ObjectId, TaskId
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.worker import RunResult, RunTask

ONE, OTHER = ObjectId(b"1" * 16), ObjectId(b"2" * 16)


def add(tally: Tally, worker: int, function: ObjectId, status: TaskStatus, duration_us: int) -> None:
    task = RunTask(TaskId(b"t" * 16), worker, 7, function, b"", b"")
    tally.add(task, RunResult(task.task_id, worker, 7, status, b"", duration_us, ()))


def test_runs_are_counted_by_worker_and_by_function() -> None:
    tally = Tally()
    add(tally, 0, ONE, TaskStatus.SUCCESS, 100)
    add(tally, 0, OTHER, TaskStatus.FAILED, 5000)
    add(tally, 1, ONE, TaskStatus.SUCCESS, 1)
    add(tally, 1, ONE, TaskStatus.CANCELED, 0)
    add(tally, 1, ONE, TaskStatus.PROCESSOR_DIED, 0)
    bins, functions = tally.take()
    assert bins[0] == (5100, (1, 1, 0, 0), OTHER)
    assert bins[1] == (1, (1, 0, 1, 1), ONE)
    assert functions[ONE][:3] == [101, 1, 100]
    assert functions[OTHER][:3] == [5000, 5000, 5000]
    assert tally.ended == {0: 2, 1: 3}
    assert tally.take() == ({}, {})


def test_the_shortest_and_the_longest_run_are_known_of_all_workers_together() -> None:
    tally = Tally()
    for worker, duration_us in ((0, 300), (0, 100), (1, 50), (1, 200)):
        add(tally, worker, ONE, TaskStatus.SUCCESS, duration_us)
    _, functions = tally.take()
    assert functions[ONE][:3] == [650, 50, 300]


def test_each_row_of_a_range_counts_with_the_mean_of_its_range() -> None:
    tally = Tally()
    task = RunTask(TaskId(b"t" * 16), 0, 7, ONE, b"", b"", rows=4)
    tally.add(task, RunResult(task.task_id, 0, 7, TaskStatus.SUCCESS, b"", 400, (), rows=4))
    _, functions = tally.take()
    assert functions[ONE][:3] == [400, 100, 100]
    assert functions[ONE][3 + 7] == 4


def test_a_duration_is_counted_in_the_first_longer_bucket() -> None:
    tally = Tally()
    for duration_us, bucket in ((0, 0), (1, 1), (2, 2), (3, 2), (4, 3), (1023, 10), (1024, 11), (2**32 - 1, 31)):
        add(tally, 0, ONE, TaskStatus.SUCCESS, duration_us)
        _, functions = tally.take()
        buckets = functions[ONE][3:]
        assert len(buckets) == BUCKETS
        assert [number for number, count in enumerate(buckets) if count] == [bucket]


def test_a_run_without_a_measured_duration_is_in_no_bucket() -> None:
    tally = Tally()
    add(tally, 0, ONE, TaskStatus.TIMED_OUT, 77)
    _, functions = tally.take()
    assert functions[ONE] == [*NO_RUNS]
