from __future__ import annotations

from typing import Any

import pytest

from scaler.actors.policy import WORK_AHEAD_US, Needs
from scaler.actors.workers import runs
from scaler.actors.workers.runs import Allocations, Orphans, RunRecord
from scaler.ids import TaskId
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.worker import RunResult

ONE, TWO = TaskId(b"1" * 16), TaskId(b"2" * 16)


def result(task_id: TaskId, attempt: int, size: int = 0) -> RunResult:
    return RunResult(task_id, 0, attempt, TaskStatus.SUCCESS, b"", 0, (bytes(size),) if size else ())


@pytest.fixture
def orphans() -> Orphans:
    return Orphans([(ONE, 7), (TWO, 8)])


def test_an_orphaned_run_fills_the_work_ahead_of_its_worker(orphans: Orphans) -> None:
    assert orphans.load == (2, WORK_AHEAD_US)


def test_a_run_is_claimed_once_and_only_in_its_attempt(orphans: Orphans) -> None:
    assert orphans.claim(ONE, 6) is None
    assert orphans.claim(ONE, 7) is not None
    assert orphans.claim(ONE, 7) is None
    assert orphans.load == (1, 0)


def test_an_ended_orphan_takes_no_capacity_and_keeps_its_result(orphans: Orphans) -> None:
    assert orphans.finish(result(ONE, 6)) == (0, 0)
    assert orphans.finish(result(ONE, 7)) == (1, WORK_AHEAD_US)
    assert orphans.finish(result(ONE, 7)) == (0, 0)
    assert orphans.load == (1, 0)
    claimed = orphans.claim(ONE, 7)
    assert claimed is not None
    assert claimed.result == result(ONE, 7)


def test_a_blocked_orphan_takes_no_capacity(orphans: Orphans) -> None:
    blocked = orphans.find(ONE, 7)
    assert blocked is not None
    blocked.is_blocked = True
    assert orphans.load == (1, 0)
    assert orphans.finish(result(ONE, 7)) == (0, 0)


def test_a_cancelled_orphan_takes_capacity_until_it_has_ended(orphans: Orphans) -> None:
    assert orphans.cancel(ONE, 7)
    assert not orphans.cancel(ONE, 6)
    assert orphans.claim(ONE, 7) is None
    assert orphans.load == (2, WORK_AHEAD_US)
    assert orphans.finish(result(ONE, 7)) == (1, WORK_AHEAD_US)
    assert len(orphans) == 1


def test_the_result_of_a_cancelled_orphan_is_dropped(orphans: Orphans) -> None:
    orphans.finish(result(ONE, 7))
    assert not orphans.cancel(ONE, 7)
    assert len(orphans) == 1


def test_orphans_that_the_agent_no_longer_has_are_forgotten_except_results(orphans: Orphans) -> None:
    orphans.finish(result(TWO, 8))
    assert orphans.keep_only({}) == (1, WORK_AHEAD_US)
    assert orphans.claim(TWO, 8) is not None


def test_results_of_orphans_that_wait_for_their_tasks_are_bounded(
    orphans: Orphans, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "RESULT_BYTES_MOST", 100)
    orphans.finish(result(ONE, 7, 60))
    assert orphans.finish(result(TWO, 8, 60)) == (1, 0)
    assert orphans.claim(TWO, 8) is None
    again = Orphans([(ONE, 7), (TWO, 8)])
    again.finish(result(ONE, 7, 60))
    again.claim(ONE, 7)
    again.finish(result(TWO, 8, 60))
    assert again.claim(TWO, 8) is not None


GPU = Needs((("gpu", 1),))
ONE, TWO = TaskId(b"1" * 16), TaskId(b"2" * 16)


def run() -> RunRecord:
    nothing: Any = None
    return RunRecord(nothing, nothing, 1, 7, 0, 1)


def test_the_resources_of_an_assignment_are_reported_as_free_once() -> None:
    allocations, runs = Allocations(), {ONE: run(), TWO: run()}
    assert not allocations
    allocations.add(ONE, GPU, 1)
    allocations.add(TWO, GPU, 1)
    assert allocations.changes(runs) == ()
    assert allocations.counts() == ((GPU, 2),)
    del runs[ONE]
    assert allocations.changes(runs, [TWO]) == ()
    assert allocations.changes(runs, [ONE, TWO]) == ((GPU, -1),)
    assert allocations.changes(runs) == ()
    del runs[TWO]
    assert allocations.changes(runs) == ((GPU, -1),)
    assert not allocations


def test_a_blocked_run_lends_its_resources() -> None:
    allocations, runs = Allocations(), {ONE: run()}
    allocations.add(ONE, GPU, 1)
    runs[ONE].released = 1
    assert allocations.changes(runs) == ((GPU, -1),)
    assert allocations.counts() == ()
    runs[ONE].released = 0
    assert allocations.changes(runs) == ((GPU, 1),)
    runs[ONE].released = 1
    allocations.changes(runs)
    runs.clear()
    assert allocations.changes(runs) == ()


def test_an_adopted_run_is_reported_and_a_second_assignment_of_it_counts_again() -> None:
    allocations, runs = Allocations(), {ONE: run()}
    allocations.add(ONE, GPU, 0)
    assert allocations.changes(runs) == ((GPU, 1),)
    runs[ONE].counted += 1
    allocations.add(ONE, GPU, 1)
    assert allocations.changes(runs) == ()
    runs.clear()
    assert allocations.changes(runs) == ((GPU, -2),)
