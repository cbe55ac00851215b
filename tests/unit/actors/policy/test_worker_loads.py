"""The loads of workers: which worker has capacity, gets the next task, or returns tasks."""

from __future__ import annotations

import pytest

from scaler.actors.policy.worker_loads import WORK_AHEAD_US, WorkerLoads, tasks_to_recall


def take(loads: WorkerLoads, work_us: int, near: str | None = None) -> str | None:
    if not loads.with_room:
        return None
    return loads.take(work_us) if near is None else loads.take_near(near, work_us)


def test_without_workers_no_worker_has_capacity() -> None:
    assert take(WorkerLoads(), 0) is None


def test_the_worker_with_the_fewest_tasks_gets_the_next_one() -> None:
    loads: WorkerLoads = WorkerLoads()
    loads.join("busy", 10, tasks=5)
    loads.join("idle", 10, tasks=1)
    assert [take(loads, 1) for _ in range(4)] == ["idle"] * 4
    assert {take(loads, 1), take(loads, 1)} == {"busy", "idle"}


def test_the_queue_limits_the_number_of_tasks_however_short_they_are() -> None:
    loads: WorkerLoads = WorkerLoads()
    loads.join("worker", 2)
    assert [take(loads, 0) for _ in range(3)] == ["worker", "worker", None]
    loads.free("worker", 1, 0)
    assert take(loads, 0) == "worker"


def test_a_worker_has_capacity_while_it_has_less_than_the_work_ahead() -> None:
    loads: WorkerLoads = WorkerLoads()
    loads.join("worker", 1000)
    half = WORK_AHEAD_US // 2
    assert [take(loads, half) for _ in range(3)] == ["worker", "worker", None]
    loads.free("worker", 1, half)
    assert take(loads, 10 * half) == "worker"  # of any length: the worker had capacity
    loads.free("worker", 1, half)
    assert take(loads, 1) is None
    assert loads.load("worker") == (1, 10 * half)


def test_an_idle_worker_takes_a_task_of_any_length() -> None:
    loads: WorkerLoads = WorkerLoads()
    loads.join("worker", 1)
    assert take(loads, 3600 * 1_000_000) == "worker"
    assert take(loads, 1) is None


def test_a_worker_that_joins_with_work_has_less_capacity() -> None:
    loads: WorkerLoads = WorkerLoads()
    loads.join("worker", 1000, tasks=2, work_us=WORK_AHEAD_US)
    assert take(loads, 1) is None
    loads.free("worker", 1, 1)
    assert take(loads, 1) == "worker"


def test_a_worker_that_left_gets_no_tasks_and_its_late_reports_are_ignored() -> None:
    loads: WorkerLoads = WorkerLoads()
    loads.join("worker", 5)
    loads.leave("worker")
    loads.leave("worker")
    loads.free("worker", 1, 5)
    assert take(loads, 1) is None
    assert len(loads) == 0
    assert "worker" not in loads


def test_a_worker_that_joins_again_starts_with_an_empty_load() -> None:
    loads: WorkerLoads = WorkerLoads()
    loads.join("worker", 2)
    take(loads, WORK_AHEAD_US)
    loads.join("worker", 2)
    assert [take(loads, 1), take(loads, 1), take(loads, 1)] == ["worker", "worker", None]


def test_resumed_tasks_need_no_free_capacity() -> None:
    loads: WorkerLoads = WorkerLoads()
    loads.join("one", 1)
    assert take(loads, 5) == "one"
    loads.free("one", 1, 5)
    assert take(loads, 7) == "one"
    loads.resume("one", 1, 5)
    assert loads.load("one") == (2, 12)
    assert take(loads, 1) is None
    loads.free("one", 1, 7)
    assert take(loads, 1) is None
    loads.free("one", 1, 5)
    assert take(loads, 1) == "one"


def test_free_places_are_counted_in_tasks() -> None:
    loads: WorkerLoads = WorkerLoads()
    assert loads.free_places() == 0
    loads.join("long", 10, tasks=1, work_us=10**9)
    loads.join("full", 3, tasks=4)
    loads.join("idle", 5)
    assert loads.free_places() == 14


# Balance


def moving(*tasks: int) -> list[tuple[int, bool]]:
    return [(number, False) for number in tasks]


@pytest.mark.parametrize(
    ("tasks", "given_back"),
    [
        ((0, 0, 3, 3, 3, 4), (0, 0, 1, 1, 1, 1)),
        ((0, 8), (0, 4)),
        ((0, 1, 1), (0, 0, 0)),
        ((0, 2), (0, 1)),
        ((0, 0, 0, 2), (0, 0, 0, 1)),
        ((1, 9), (0, 0)),
        ((), ()),
    ],
)
def test_busy_workers_return_the_number_of_tasks_that_levels_the_queues(
    tasks: tuple[int, ...], given_back: tuple[int, ...]
) -> None:
    assert sorted(tasks_to_recall(moving(*tasks))) == sorted(given_back)


def test_one_idle_worker_among_many_busy_ones_moves_few_tasks() -> None:
    assert sum(tasks_to_recall(moving(0, *[10] * 4999))) == 9


def test_a_stuck_worker_keeps_the_task_that_it_runs() -> None:
    assert tasks_to_recall([(0, False), (900, True), (3, False)]) == [0, 899, 0]
    assert tasks_to_recall([(0, False), (5, True), (5, True)]) == [0, 4, 4]
    assert tasks_to_recall([(0, True), (2, True)]) == [0, 1]


def test_loads_are_uneven_when_a_worker_is_idle_while_tasks_wait_at_another() -> None:
    loads: WorkerLoads = WorkerLoads()
    loads.join("one", 10)
    take(loads, 1)
    assert not loads.has_waiting()
    take(loads, 1)
    assert loads.has_waiting()
    assert not loads.is_uneven()  # no worker is idle
    loads.join("other", 10)
    assert loads.is_uneven()
    loads.free("one", 1, 1)
    assert not loads.is_uneven()
    loads.leave("one")
    assert not loads.has_waiting()


def test_a_worker_with_recalled_tasks_gets_none_until_one_of_its_tasks_has_ended() -> None:
    loads: WorkerLoads = WorkerLoads()
    loads.join("busy", 10, tasks=3)
    loads.join("idle", 10)
    assert loads.level({}) == {"busy": 1}
    assert [take(loads, 1) for _ in range(11)] == ["idle"] * 10 + [None]
    loads.remove_recalled("busy", 2, 0)
    assert take(loads, 1) is None
    loads.free("busy", 1, 0)
    assert take(loads, 1) == "busy"


def test_a_worker_without_an_ended_task_since_the_last_look_is_stuck() -> None:
    loads: WorkerLoads = WorkerLoads()
    for name, tasks in (("stuck", 5), ("moving", 5), ("idle", 0), ("single", 1)):
        loads.join(name, 10, tasks=tasks)
    seen = loads.ended()
    loads.free("moving", 1, 0)
    assert loads.unblock(seen) == {"stuck": 4}
    loads.remove_recalled("stuck", 4, 0)
    assert loads.level(seen) == {"moving": 2}
    assert loads.unblock({}) == {}


class TestNear:
    def loads(self) -> WorkerLoads:
        loads: WorkerLoads = WorkerLoads()
        for worker, host in (("a0", "a"), ("a1", "a"), ("b0", "b")):
            loads.join(worker, 2, host=host)
        return loads

    def test_the_near_worker_is_preferred_then_workers_of_its_host_then_any_worker(self) -> None:
        loads = self.loads()
        assert [take(loads, 1, "a0") for _ in range(7)] == ["a0", "a1", "a0", "a1", "b0", "b0", None]

    def test_a_near_worker_that_has_left_is_ignored(self) -> None:
        loads = self.loads()
        loads.leave("a0")
        assert {take(loads, 1, "a0") for _ in range(2)} == {"a1", "b0"}
        assert take(loads, 1, "a1") == "a1"

    def test_a_task_at_its_near_worker_counts_as_load(self) -> None:
        loads = self.loads()
        assert take(loads, WORK_AHEAD_US, "a1") == "a1"
        assert loads.load("a1") == (1, WORK_AHEAD_US)
        assert take(loads, 1, "a1") == "a0"
        loads.free("a1", 1, WORK_AHEAD_US)
        assert take(loads, 1, "a1") == "a1"
