"""Where runs are at their workers, as the agent says it to whoever asks."""

from __future__ import annotations

from scaler.agent.ledger import Ledger
from scaler.agent.run_status import run_statuses
from scaler.executors.view import ProcessNow, View
from scaler.ids import ObjectId, TaskId
from scaler.wire.messages.common import Standing
from scaler.wire.messages.worker import RunQuestion, RunStanding, RunTask


def run(number: int, worker: int = 0, attempt: int = 1) -> RunTask:
    return RunTask(TaskId(bytes([number]) * 16), worker, attempt, ObjectId(b"f" * 16), b"", b"")


RUNS, WAITS, QUEUED, ELSEWHERE = run(1), run(2), run(3), run(4, worker=1)
VIEW = View(
    [
        ProcessNow(0, 4711, RUNS, 12.5, is_waiting=False),
        ProcessNow(0, 4712, WAITS, 99.0, is_waiting=True),
        ProcessNow(0, 4713, None, 0.0, is_waiting=False),
        ProcessNow(1, 4714, run(5, worker=1), 200.0, is_waiting=False),
    ]
)


def ask(task: RunTask, view: View | None = VIEW, attempt: int = 1) -> list[tuple[int, int, int]]:
    ledger = Ledger()
    ledger.add([RUNS, WAITS, QUEUED, ELSEWHERE])
    found = list(run_statuses([RunQuestion(task.task_id, task.worker, attempt)], view, ledger))
    assert all(type(each) is RunStanding and each.task_id == task.task_id for each in found)
    return [(each.standing, each.run_ms, each.pid) for each in found]


def test_a_run_is_executed_waits_or_is_in_the_queue_of_its_worker() -> None:
    assert ask(RUNS) == [(Standing.RUNS, 12_500, 4711)]
    assert ask(WAITS) == [(Standing.WAITS, 99_000, 4712)]
    assert ask(QUEUED) == [(Standing.QUEUED, 12_500, 0)], "behind the one that runs there"
    assert ask(ELSEWHERE) == [(Standing.QUEUED, 200_000, 0)]


def test_workers_that_cannot_say_it_are_not_asked() -> None:
    assert ask(RUNS, view=None) == [(Standing.NOT_KNOWN, 0, 0)]


def test_of_a_run_that_has_ended_the_result_is_on_its_way() -> None:
    assert ask(run(9)) == []
    assert ask(RUNS, attempt=2) == []
