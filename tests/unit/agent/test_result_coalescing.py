"""Result coalescing: which results may wait for others, by what their worker still has to do."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scaler.agent.ledger import Ledger
from scaler.agent.result_coalescing import LEFT_US, may_wait_for_others
from scaler.ids import IdSource, ObjectId, TaskId
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.worker import RecallResponse, RunBlocked, RunResult, RunTask

FUNCTION = ObjectId(b"f" * 16)
TASK_US = 10_000
new_id = IdSource()


def task(worker: int = 0, together: int = 1) -> RunTask:
    return RunTask(TaskId(new_id()), worker, 1, FUNCTION, b"", b"", together=together)


def result(of: RunTask, duration_us: int = TASK_US, status: int = TaskStatus.SUCCESS) -> RunResult:
    return RunResult(of.task_id, of.worker, of.attempt, TaskStatus(status), b"", duration_us, ())


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


def test_a_result_waits_while_its_worker_has_enough_to_do(ledger: Ledger) -> None:
    tasks = [task() for _ in range(5)]
    ledger.add(tasks)
    waited = []
    for each in tasks:
        waited.append(may_wait_for_others([result(each)], ledger))
        ledger.finish([result(each)])
    assert waited == [True, True, False, False, False], "at last 20 ms of work are left, and less"


def test_what_other_workers_have_does_not_count(ledger: Ledger) -> None:
    alone = task(0)
    ledger.add([alone, *(task(1) for _ in range(9))])
    assert not may_wait_for_others([result(alone)], ledger)


def test_tasks_that_wait_for_others_are_no_work(ledger: Ledger) -> None:
    tasks = [task() for _ in range(5)]
    ledger.add(tasks)
    ledger.block(RunBlocked(each.task_id, each.worker, each.attempt) for each in tasks[1:3])
    assert not may_wait_for_others([result(tasks[0])], ledger)


def test_one_long_task_is_not_enough(ledger: Ledger) -> None:
    first, second = task(), task()
    ledger.add([first, second])
    assert not may_wait_for_others([result(first, 10 * LEFT_US)], ledger)


def test_only_those_wait_whose_task_says_so(ledger: Ledger) -> None:
    own, others = [task(together=0) for _ in range(5)], [task() for _ in range(5)]
    ledger.add([*own, *others])
    assert may_wait_for_others([result(others[0]), result(others[1])], ledger)
    assert not may_wait_for_others([result(others[0]), result(own[0])], ledger)


@pytest.mark.parametrize("status", [TaskStatus.FAILED, TaskStatus.CANCELED, TaskStatus.PROCESSOR_DIED])
def test_what_is_no_success_is_said_at_once(ledger: Ledger, status: TaskStatus) -> None:
    tasks = [task() for _ in range(9)]
    ledger.add(tasks)
    assert not may_wait_for_others([result(tasks[0], status=status)], ledger)


def test_a_large_result_does_not_wait(ledger: Ledger) -> None:
    tasks = [task() for _ in range(9)]
    ledger.add(tasks)
    assert not may_wait_for_others([replace(result(tasks[0]), frames=(b"frame",))], ledger)


def test_what_was_given_back_or_is_of_an_older_attempt_does_not_wait(ledger: Ledger) -> None:
    tasks = [task() for _ in range(9)]
    ledger.add(tasks)
    ledger.give_back(RecallResponse(tasks[0].task_id, 0, 1))
    ledger.add([replace(tasks[1], attempt=2)])
    assert not may_wait_for_others([result(tasks[0])], ledger)
    assert not may_wait_for_others([result(tasks[1])], ledger)
    assert not may_wait_for_others([], ledger)
