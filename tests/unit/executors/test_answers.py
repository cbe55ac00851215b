"""Answers: what the link gets for runs that end without a result."""

from __future__ import annotations

from scaler.executors.answers import Answers, End, ended
from scaler.executors.messages import RunsNotHere
from scaler.executors.task_queue import run_of
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.worker import RecallRequest, RecallResponse, RunBlocked, RunCancel, RunResult, RunUnblocked
from tests.support.room_bench import RoomBench


def test_the_end_of_a_run_is_a_result_with_its_text_and_stack() -> None:
    bench = RoomBench()
    answers, task = Answers(bench.link_ref), bench.task()
    result = RunResult(task.task_id, 0, 1, TaskStatus.TIMED_OUT, b"too long\nin f", 0, (), b"profile")
    assert ended(task, End(TaskStatus.TIMED_OUT, "too long"), b"in f", b"profile") == result
    answers.end([task], End(TaskStatus.TIMED_OUT, "too long"))
    answers.end([task], End(TaskStatus.CANCELED))
    answers.end([], End(TaskStatus.CANCELED))
    assert [list(batch) for batch in bench.told(Batch[RunResult])] == [
        [RunResult(task.task_id, 0, 1, TaskStatus.TIMED_OUT, b"too long", 0, ())],
        [RunResult(task.task_id, 0, 1, TaskStatus.CANCELED, b"", 0, ())],
    ]


def test_a_range_that_ends_early_is_a_result_without_rows() -> None:
    bench = RoomBench()
    answers, task = Answers(bench.link_ref), bench.task()
    answers.end_range(task, 2)
    (batch,) = bench.told(Batch[RunResult])
    assert list(batch) == [RunResult(task.task_id, 0, 1, TaskStatus.SUCCESS, b"", 0, (), running=3)]


def test_reports_of_recalled_blocked_and_unblocked_runs_name_the_run() -> None:
    bench = RoomBench()
    answers, task = Answers(bench.link_ref), bench.task()
    answers.recalled([task])
    answers.recalled([])
    answers.blocked(task)
    answers.unblocked(task)
    bench.dispatcher.run()
    assert bench.link.messages == [
        [RecallResponse(task.task_id, 0, 1)],
        [RunBlocked(task.task_id, 0, 1)],
        [RunUnblocked(task.task_id, 0, 1)],
    ]


def test_only_unknown_runs_are_reported_as_unknown() -> None:
    bench = RoomBench()
    answers, task, other = Answers(bench.link_ref), bench.task(), bench.task()
    cancels = [RunCancel(each.task_id, 0, 1) for each in (task, other)]
    answers.report_missing(cancels, {run_of(task)})
    answers.report_missing([RecallRequest(task.task_id, 0, 1)], {run_of(task)})
    assert bench.told(RunsNotHere) == [RunsNotHere(cancels[1:])]
