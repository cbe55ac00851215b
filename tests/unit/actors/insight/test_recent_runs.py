"""What is remembered of the tasks that ended last."""

from __future__ import annotations

from scaler.actors.insight.recent_runs import RECENT_MOST, RecentRuns
from scaler.ids import TaskId


def task(number: int) -> TaskId:
    return TaskId(number.to_bytes(16, "big"))


def test_the_last_worker_of_a_task_is_known_until_many_others_have_ended() -> None:
    runs = RecentRuns()
    assert runs.worker_of(task(0)) == ""
    for number, worker in ((0, "alpha"), (1, "beta"), (0, "gamma")):
        runs.add((task(number), worker))
    assert [runs.worker_of(task(number)) for number in range(3)] == ["gamma", "beta", ""]
    for number in range(2, RECENT_MOST + 1):
        runs.add((task(number), "delta"))
    assert [runs.worker_of(task(number)) for number in range(3)] == ["gamma", "", "delta"]
