from __future__ import annotations

from typing import Any

import pytest

from scaler.monitor.model.tasks import QUEUED, RUNNING, UNSEEN, KeptTasks
from scaler.wire.messages.monitor import UNSEEN_SECONDS, StateRuns, StateTask
from tests.support.monitored import NOON_US

S = 1_000_000
UNSEEN_US = int(UNSEEN_SECONDS * S)


def short(number: int) -> bytes:
    return number.to_bytes(8, "big")


def task(number: int, state: str = "running", **fields: Any) -> StateTask:
    return StateTask(short(number), state=state, **fields)


def runs(running: list[int], others: list[int] | None = None, interval_ms: int = 2000) -> StateRuns:
    return StateRuns(b"".join(map(short, running)), b"".join(map(short, others or [])), interval_ms)


@pytest.fixture
def tasks() -> KeptTasks:
    return KeptTasks()


def states(tasks: KeptTasks) -> list[str]:
    return [tasks.state_of(each) for each in tasks.values()]


def test_a_task_at_a_worker_is_queued_until_an_agent_reports_its_run(tasks: KeptTasks) -> None:
    tasks.take([task(1)], NOON_US)
    tasks.take_runs(runs([], [1]), NOON_US + 60 * S)
    assert states(tasks) == [QUEUED]
    tasks.take_runs(runs([1]), NOON_US + 61 * S)
    assert states(tasks) == [RUNNING]


def test_a_run_that_was_not_reported_for_ten_seconds_is_unseen_until_it_is_reported_again(tasks: KeptTasks) -> None:
    tasks.take([task(1, started_us=NOON_US, seen_us=NOON_US)], NOON_US)
    tasks.take_runs(runs([1]), NOON_US + S)
    tasks.take_runs(runs([], [1]), NOON_US + S + UNSEEN_US)
    assert states(tasks) == [RUNNING]
    tasks.tick(NOON_US + S + UNSEEN_US + 1)
    assert states(tasks) == [UNSEEN]
    assert tasks.seen_us(tasks[short(1)]) == NOON_US + S
    assert tasks.ran_us(tasks[short(1)]) == S, "its duration ends with its last report"
    tasks.take_runs(runs([1]), NOON_US + 30 * S)
    assert states(tasks) == [RUNNING]
    assert tasks.ran_us(tasks[short(1)]) == 30 * S


def test_many_agents_report_less_often(tasks: KeptTasks) -> None:
    tasks.take([task(1, seen_us=NOON_US)], NOON_US)
    tasks.take_runs(runs([1], interval_ms=20_000), NOON_US)
    tasks.tick(NOON_US + 60 * S)
    assert states(tasks) == [RUNNING]
    tasks.tick(NOON_US + 60 * S + 1)
    assert states(tasks) == [UNSEEN]


@pytest.mark.parametrize("state", ["canceling", "inactive", ""])
def test_other_states_are_those_of_the_scheduler(tasks: KeptTasks, state: str) -> None:
    tasks.take([task(1, state, started_us=NOON_US, seen_us=NOON_US, duration_us=7)], NOON_US)
    tasks.tick(NOON_US + 60 * S)
    assert states(tasks) == [state]


def test_a_task_that_is_retried_is_queued_again(tasks: KeptTasks) -> None:
    tasks.take([task(1, seen_us=NOON_US)], NOON_US)
    tasks.take_runs(runs([1]), NOON_US)
    tasks.take([task(1, seen_us=0)], NOON_US + S)
    assert states(tasks) == [QUEUED]


def test_open_tasks_that_the_scheduler_does_not_name_are_dropped(tasks: KeptTasks) -> None:
    """The viewer has missed their ends."""
    tasks.take([task(1), task(2, seen_us=NOON_US), task(3, "inactive"), task(4, "success", ended_us=NOON_US)], NOON_US)
    tasks.take_runs(runs([2]), NOON_US + S)
    assert list(tasks) == [short(2), short(4)]
    tasks.drop_open()
    assert list(tasks) == [short(4)]


def test_runs_that_are_unseen_are_dropped_before_successes_and_those_before_all_others(
    tasks: KeptTasks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scaler.monitor.model.tasks.TASKS_MOST", 4)
    ended = {"ended_us": NOON_US}
    tasks.take([task(1, "failed", **ended), task(2, "success", **ended), task(3, seen_us=NOON_US - UNSEEN_US)], NOON_US)
    tasks.take([task(4, seen_us=NOON_US), task(5)], NOON_US + S)
    assert list(tasks) == list(map(short, (1, 2, 4, 5)))
    tasks.take([task(6)], NOON_US + S)
    assert list(tasks) == list(map(short, (1, 4, 5, 6)))
    tasks.take([task(7)], NOON_US + S)
    assert list(tasks) == list(map(short, (4, 5, 6, 7)))


def test_a_copy_does_not_change(tasks: KeptTasks) -> None:
    tasks.take([task(1, seen_us=NOON_US)], NOON_US)
    copied = tasks.copy()
    tasks.take_runs(runs([], []), NOON_US + 60 * S)
    assert (len(tasks), states(copied)) == (0, [RUNNING])


def test_an_incomplete_id_is_ignored(tasks: KeptTasks) -> None:
    tasks.take([task(1)], NOON_US)
    tasks.take_runs(StateRuns(short(1) + b"123"), NOON_US)
    assert states(tasks) == [RUNNING]
