"""A slot with ranges: a range is sent and answered as one task, and a failure affects only its row."""

from __future__ import annotations

import pytest

from scaler.executors.messages import SplitAll, SplitRows
from scaler.executors.processes.messages import KillProcessor, ProcessorBlocked, TasksFinished
from scaler.executors.processes.slot.recall import RecallDue
from scaler.ids import TaskId
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.rows import calls_of, pack, row_ids
from scaler.wire.messages.worker import RunCancel, RunResult, RunTask
from tests.support.slot_bench import FUNCTION, SlotBench

SUCCESS, CANCELED = TaskStatus.SUCCESS, TaskStatus.CANCELED


class Ranges(SlotBench):
    """A processor that has the function; the function is known to be short."""

    def ready(self) -> Ranges:
        self.with_function()
        self.know()
        return self

    def range(self, rows: int = 4) -> RunTask:
        first = TaskId(self.new_id()[:8] + (5).to_bytes(8, "big"))
        payload = pack([b"x"] * rows)
        return RunTask(first, 0, 1, FUNCTION, payload, b"", rows=rows)

    def ended(self, task: RunTask, first: int, count: int, statuses: bytes = b"") -> None:
        """Have the processor send the results of some rows."""
        task_id = row_ids(task.task_id, task.rows)[first]
        payload = pack([b"r"] * count)
        result = RunResult(task_id, 0, 1, SUCCESS, payload, 10, (), rows=count, statuses=statuses)
        self.tell(TasksFinished(self.number, Batch[RunResult]([result])))

    def split(self) -> list[RunTask]:
        return [task for news in self.link.take(SplitRows) for task in news.tasks]


@pytest.fixture
def bench() -> Ranges:
    return Ranges().ready()


def test_a_range_is_sent_and_answered_as_one_task(bench: Ranges) -> None:
    task = bench.range()
    bench.run(task)
    assert bench.handed() == [task]
    bench.ended(task, 0, 4)
    (results,) = bench.link.take(Batch[RunResult])
    assert [(result.task_id, result.rows) for result in results] == [(task.task_id, 4)]
    assert bench.split() == []


def test_results_in_parts_split_a_range(bench: Ranges) -> None:
    task = bench.range()
    bench.run(task)
    bench.ended(task, 0, 2)
    bench.ended(task, 2, 2)
    assert bench.split() == [task]
    assert bench.answers() == [(row, SUCCESS) for row in row_ids(task.task_id, 4)]


def test_the_death_of_a_processor_fails_only_the_running_row(bench: Ranges) -> None:
    task = bench.range()
    bench.run(task)
    bench.handed()
    bench.execute(1 + 3)  # one task came before
    bench.die(executing=1 + 3)
    rows = row_ids(task.task_id, 4)
    assert bench.split() == [task]
    assert bench.answers() == [(rows[2], TaskStatus.PROCESSOR_DIED)]
    assert [each.task_id for each in bench.actor._queue] == [rows[0], rows[1], rows[3]]


def test_rows_behind_a_long_row_return_to_the_queue(bench: Ranges) -> None:
    task = bench.range()
    bench.run(task)
    bench.handed()
    bench.execute(1 + 1)
    bench.actor._recall.withhold(next(iter(bench.actor._processors)), 1 + 1)
    bench.tell(RecallDue(bench.number, 1 + 1, 1 + 4))
    assert bench.split() == [task]
    assert {each.task_id for each in bench.actor._queue} == set(row_ids(task.task_id, 4)[1:])
    bench.ended(task, 0, 4, bytes([SUCCESS, CANCELED, CANCELED, CANCELED]))
    assert bench.answers() == [(task.task_id, SUCCESS)]


def test_rows_behind_a_blocked_row_return_to_the_queue(bench: Ranges) -> None:
    task = bench.range()
    bench.run(task)
    bench.handed()
    bench.ended(task, 0, 1)
    bench.execute(1 + 2)
    bench.tell(ProcessorBlocked(bench.number, 1 + 2, True))
    rows = row_ids(task.task_id, 4)
    assert {each.task_id for each in bench.actor._queue} == {rows[2], rows[3]}


def test_a_cancel_of_a_range_ends_each_row(bench: Ranges) -> None:
    task = bench.range()
    bench.run(task)
    bench.handed()
    bench.execute(1 + 2)
    bench.tell(Batch[RunCancel]([RunCancel(task.task_id, 0, 1)]))
    assert bench.progress.words[3] == 1 + 2, "the running row is interrupted"
    bench.ended(task, 0, 4, bytes([SUCCESS, CANCELED, CANCELED, CANCELED]))
    rows = row_ids(task.task_id, 4)
    assert sorted(bench.answers()) == [(rows[0], SUCCESS), *((row, CANCELED) for row in rows[1:])]


def test_before_a_hello_all_ranges_of_a_slot_are_split(bench: Ranges) -> None:
    held, waiting = bench.range(), bench.range()
    bench.run(held)
    bench.handed()
    bench.actor._queue.add([waiting])
    bench.tell(SplitAll())
    assert {task.task_id for task in bench.split()} == {held.task_id, waiting.task_id}
    assert list(bench.actor._queue) == calls_of(waiting)
    assert bench.actor._processors.active is not None
    assert bench.actor._processors.active.tasks() == calls_of(held)


def test_a_result_with_too_many_rows_ends_its_processor(bench: Ranges) -> None:
    task = bench.range()
    bench.run(task)
    bench.handed()
    result = RunResult(task.task_id, 0, 1, SUCCESS, pack([b"r"] * 5), 1, (), rows=5)
    bench.tell(TasksFinished(bench.number, Batch[RunResult]([result])))
    assert bench.answers() == []
    assert len(bench.processor.take(KillProcessor)) == 1
