"""A slot with ranges: a range is sent and answered as one task, and ends early if a row needs separate handling."""

from __future__ import annotations

import pytest

from scaler.executors.processes.messages import KillProcessor, ProcessorBlocked, TasksFinished, TasksPrinted
from scaler.executors.processes.slot.recall import SETTLE_SECONDS, RecallDue
from scaler.ids import TaskId
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.common import OutputStream, TaskStatus
from scaler.wire.messages.processor import TaskOutput
from scaler.wire.messages.rows import pack, row_ids
from scaler.wire.messages.worker import RecallResponse, RunCancel, RunOutput, RunResult, RunTask
from tests.support.slot_bench import FUNCTION, SlotBench

SUCCESS, CANCELED = TaskStatus.SUCCESS, TaskStatus.CANCELED


class Ranges(SlotBench):
    """A processor that has the function; the function is known to be short. A task has ended before the ranges."""

    def ready(self) -> Ranges:
        self.with_function()
        self.know()
        return self

    def range(self, rows: int = 4) -> RunTask:
        first = TaskId(self.new_id()[:8] + (5).to_bytes(8, "big"))
        payload = pack([b"%d" % row for row in range(rows)])
        return RunTask(first, 0, 1, FUNCTION, payload, b"", rows=rows)

    def run_range(self, executing: int = 0) -> tuple[RunTask, list[TaskId]]:
        """Let the processor have a range, and execute one of its rows. Return the range and the ids of its rows."""
        task = self.range()
        self.run(task)
        assert self.handed() == [task]
        self.execute(executing and 1 + executing)
        return task, row_ids(task.task_id, task.rows)

    def ended(self, task: RunTask, count: int, running: int = 0) -> None:
        """Have the processor send the results of the first rows."""
        payload = pack([b"r"] * count)
        self.answered(RunResult(task.task_id, 0, 1, SUCCESS, payload, 10, (), rows=count, running=running))

    def answered(self, *results: RunResult) -> None:
        self.tell(TasksFinished(self.number, Batch[RunResult](results)))

    def results(self) -> list[tuple[bytes, TaskStatus, int, int]]:
        """Return id, status, number of rows, and running row of the results that the slot has sent."""
        return [
            (result.task_id, TaskStatus(result.status), result.rows, result.running)
            for results in self.link.take(Batch[RunResult])
            for result in results
        ]

    def queued(self) -> list[tuple[bytes, int]]:
        return [(task.task_id, task.rows) for task in self.actor._queue]


def single(task_id: TaskId, status: TaskStatus = SUCCESS, rows: int = 0) -> RunResult:
    return RunResult(task_id, 0, 1, status, b"", 10, (), rows=rows)


@pytest.fixture
def bench() -> Ranges:
    return Ranges().ready()


def test_a_range_is_sent_and_answered_as_one_task(bench: Ranges) -> None:
    task, _ = bench.run_range(2)
    bench.ended(task, 4)
    assert bench.results() == [(task.task_id, SUCCESS, 4, 0)]


def test_a_range_that_ends_early_leaves_one_row_as_a_task(bench: Ranges) -> None:
    task, rows = bench.run_range(3)
    bench.ended(task, 2, running=3)
    assert bench.results() == [(task.task_id, SUCCESS, 2, 3)]
    (processor,) = bench.actor._processors
    assert [(held.task_id, held.payload, held.rows) for held in processor.tasks()] == [(rows[2], b"2", 0)]
    bench.answered(single(rows[2]), single(rows[3], CANCELED, rows=1))
    assert bench.results() == [(rows[2], SUCCESS, 0, 0)]
    assert (bench.queued(), len(processor.held), processor.held_us) == ([], 0, 0.0)


def test_a_row_that_was_taken_for_running_and_has_not_started_runs_again(bench: Ranges) -> None:
    task, rows = bench.run_range(2)
    bench.ended(task, 2, running=3)
    bench.answered(single(rows[2], CANCELED, rows=2))
    assert [each.task_id for each in bench.handed()] == [rows[2]]


def test_the_death_of_a_processor_fails_only_the_running_row(bench: Ranges) -> None:
    task, rows = bench.run_range(3)
    bench.die(executing=1 + 3)
    assert bench.results() == [(task.task_id, SUCCESS, 0, 3), (rows[2], TaskStatus.PROCESSOR_DIED, 0, 0)]
    assert bench.queued() == []


def test_a_range_in_a_processor_that_dies_between_two_rows_runs_again_as_a_whole(bench: Ranges) -> None:
    task, _ = bench.run_range(3)
    bench.die(executing=0)
    assert (bench.results(), bench.queued()) == ([], [(task.task_id, 4)])


def test_ranges_behind_a_long_row_return_to_the_queue_and_the_rows_of_its_range_stay(bench: Ranges) -> None:
    task, _ = bench.run_range(1)
    behind = bench.range()
    bench.run(behind)
    assert bench.handed() == [behind]
    (processor,) = bench.actor._processors
    bench.wait(1)
    assert (bench.progress.words[1], bench.progress.words[2]) == (1 + 4, 1 + 8)
    bench.wait(SETTLE_SECONDS)
    assert bench.queued() == [(behind.task_id, 4)]
    assert [held.task_id for held in processor.tasks()] == [task.task_id]
    bench.ended(task, 4)
    bench.answered(single(behind.task_id, CANCELED, rows=4))
    assert bench.results() == [(task.task_id, SUCCESS, 4, 0)]
    assert processor.tasks() == [behind], "the range was handed out again"


def test_a_range_that_has_just_started_is_not_taken_back(bench: Ranges) -> None:
    task, _ = bench.run_range(4)
    behind = bench.range()
    bench.run(behind)
    bench.execute(1 + 5)
    bench.tell(RecallDue(bench.number, 1 + 4, 1 + 8))
    assert bench.queued() == []
    bench.ended(task, 4)
    bench.ended(behind, 1, running=2)
    assert [ended[2:] for ended in bench.results()] == [(4, 0), (1, 2)]


def test_a_blocked_row_is_a_task_of_its_own(bench: Ranges) -> None:
    task, rows = bench.run_range(2)
    bench.ended(task, 1, running=2)
    bench.tell(ProcessorBlocked(bench.number, 1 + 2, True))
    (processor,) = bench.actor._processors
    blocked = bench.actor._processors.blocked_task(processor)
    assert blocked is not None
    assert blocked.task_id == rows[1]
    assert bench.queued() == []


def test_a_cancelled_range_ends_with_the_row_that_is_interrupted(bench: Ranges) -> None:
    task, rows = bench.run_range(2)
    bench.cancel(task)
    assert bench.progress.words[3] == 1 + 2, "the running row is interrupted"
    bench.ended(task, 1, running=2)
    bench.answered(single(rows[1], CANCELED), single(rows[2], CANCELED, rows=2))
    assert bench.results() == [(task.task_id, SUCCESS, 1, 2), (rows[1], CANCELED, 0, 0)]
    assert bench.queued() == []


def test_a_cancelled_range_of_which_a_row_runs_is_not_taken_back(bench: Ranges) -> None:
    task, rows = bench.run_range(1)
    behind = bench.range()
    bench.run(behind)
    bench.cancel(task)
    bench.wait(SETTLE_SECONDS)
    assert (bench.results(), bench.queued()) == ([], [(behind.task_id, 4)])
    bench.ended(task, 1, running=2)
    bench.answered(single(rows[1], CANCELED, rows=3), single(behind.task_id, CANCELED, rows=4))
    assert bench.results() == [(task.task_id, SUCCESS, 1, 2), (rows[1], CANCELED, 0, 0)]


def test_a_cancelled_range_that_has_not_started_ends_as_one_task(bench: Ranges) -> None:
    task, _ = bench.run_range()
    bench.cancel(task)
    bench.answered(single(task.task_id, CANCELED, rows=4))
    assert bench.results() == [(task.task_id, CANCELED, 4, 0)]


def test_a_cancelled_range_that_ends_before_the_interrupt_keeps_its_results(bench: Ranges) -> None:
    task, _ = bench.run_range(4)
    bench.cancel(task)
    bench.ended(task, 4)
    assert bench.results() == [(task.task_id, SUCCESS, 4, 0)]
    assert not any(stop.ends for stop in bench.actor._cancellation.stops.values())


def cancel_of(row: TaskId) -> Batch[RunCancel]:
    return Batch[RunCancel]([RunCancel(row, 0, 1)])


def test_the_cancel_of_a_row_returns_a_range_that_waits(bench: Ranges) -> None:
    task = bench.range()
    bench.actor._queue.add([task])
    bench.tell(cancel_of(row_ids(task.task_id, 4)[2]))
    (returned,) = [each for batch in bench.link.take(Batch[RecallResponse]) for each in batch]
    assert (returned.task_id, returned.rows) == (task.task_id, 4)


@pytest.mark.parametrize("row", range(4))
def test_the_cancel_of_a_row_ends_its_range_at_the_running_row(bench: Ranges, row: int) -> None:
    task, rows = bench.run_range(2)
    bench.tell(cancel_of(rows[row]))
    assert bench.progress.words[3] == (1 + 2 if row == 1 else 0)
    assert (bench.progress.words[1], bench.progress.words[2]) == ((1 + 2, 1 + 4) if row > 1 else (0, 0))
    bench.ended(task, 1, running=2)
    bench.answered(single(rows[1], CANCELED if row == 1 else SUCCESS), single(rows[2], CANCELED, rows=2))
    assert bench.results() == [(task.task_id, SUCCESS, 1, 2), (rows[1], CANCELED if row == 1 else SUCCESS, 0, 0)]
    assert not any(stop.ends for stop in bench.actor._cancellation.stops.values())


def test_the_cancel_of_a_row_returns_a_range_that_the_processor_does_not_start(bench: Ranges) -> None:
    task, rows = bench.run_range()
    bench.tell(cancel_of(rows[2]))
    bench.answered(single(task.task_id, CANCELED, rows=4))
    (returned,) = [each for batch in bench.link.take(Batch[RecallResponse]) for each in batch]
    assert (returned.task_id, returned.rows, bench.queued()) == (task.task_id, 4, [])


def test_lines_name_the_row_that_has_written_them(bench: Ranges) -> None:
    task, _ = bench.run_range(3)
    lines = [TaskOutput(number, OutputStream.STANDARD_OUTPUT, 7, 0, str(number)) for number in (1, 1 + 3)]
    bench.tell(TasksPrinted(bench.number, lines))
    (line,) = [each for batch in bench.link.take(Batch[RunOutput]) for each in batch]
    assert (line.task_id, line.row, line.text) == (task.task_id, 2, "4")


@pytest.mark.parametrize(("rows", "running"), [(5, 0), (3, 0), (4, 5), (4, 4), (2, 4), (2, 2), (0, 0)], ids=str)
def test_a_result_that_does_not_fit_its_range_ends_its_processor(bench: Ranges, rows: int, running: int) -> None:
    task, _ = bench.run_range(2)
    bench.ended(task, rows, running)
    assert bench.results() == []
    assert len(bench.processor.take(KillProcessor)) == 1


def test_a_result_of_another_row_ends_its_processor(bench: Ranges) -> None:
    _task, rows = bench.run_range(2)
    bench.answered(single(rows[1]))
    assert bench.results() == []
    assert len(bench.processor.take(KillProcessor)) == 1
