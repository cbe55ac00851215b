"""The memory of the tasks that ended last."""

from __future__ import annotations

from scaler.actors.vocabulary.recent_runs import RECENT_MOST, RecentRuns
from scaler.ids import TaskId


def task(number: int) -> TaskId:
    return TaskId(number.to_bytes(16, "big"))


def test_the_last_worker_of_a_task_is_remembered_until_many_later_tasks_have_ended() -> None:
    runs = RecentRuns()
    assert runs.worker_of(task(0)) == ""
    for number in range(3 * RECENT_MOST):
        runs.latest[task(number)] = "alpha" if number % 2 else "beta"
        runs.limit()
        known = [runs.worker_of(task(max(0, number - ago))) for ago in (0, RECENT_MOST - 1)]
        assert all(known)
    assert [runs.worker_of(task(number)) for number in (0, RECENT_MOST - 1)] == ["", ""]
    last = 3 * RECENT_MOST - 1
    assert [runs.worker_of(task(last - ago)) for ago in range(2)] == ["alpha", "beta"]
    assert len(runs.latest) + len(runs._earlier) <= 2 * RECENT_MOST
    runs.latest[task(last)] = "gamma"  # it ran again
    assert runs.worker_of(task(last)) == "gamma"
