"""ClusterPool: which waiting tasks the clusters of one command could run."""

from __future__ import annotations

import pytest

from scaler.monitor.model.workers import WorkerView
from scaler.scaling.pool import ClusterPool
from scaler.wire.messages.monitor import StateAgent


def workers(count: int, capabilities: str = "") -> list[WorkerView]:
    agent = StateAgent(capabilities=capabilities)
    return [WorkerView((b"agent", position), f"w{position}", "host", agent) for position in range(count)]


def test_a_pool_without_capabilities_counts_only_tasks_that_request_nothing() -> None:
    assert ClusterPool(1, {}).look({"": 3, "gpu=1": 5}, workers(2)) == (3, 2)


def test_a_pool_counts_only_tasks_that_one_cluster_can_run() -> None:
    pool = ClusterPool(4, {"gpu": 4, "ssd": 1})
    assert pool.look({"": 0, "gpu=1": 3, "gpu=5": 9, "licence=1": 9, "ssd=0": 2}, []) == (5, 0)


@pytest.mark.parametrize(("asked", "wanted"), [("gpu=1", 12), ("gpu=2", 24), ("gpu=1,memory=60", 24)])
def test_more_workers_are_wanted_if_resources_allow_fewer_tasks_than_workers(asked: str, wanted: int) -> None:
    assert ClusterPool(4, {"gpu": 2, "memory": 100}).look({"": 0, asked: 6}, []) == (wanted, 0)


def test_workers_with_too_few_capabilities_do_not_count_for_tasks_that_request_them() -> None:
    pool = ClusterPool(1, {"gpu": 1})
    there = [*workers(5), *workers(1, "gpu=1")]
    assert pool.look({"": 2, "gpu=1": 3}, there) == (3, 1)
    assert pool.look({"": 9, "gpu=1": 3}, there) == (12, 6)
    assert ClusterPool(1, {"gpu": 1}, is_only_asked=True).look({"": 9, "gpu=1": 3}, there) == (3, 1)


def test_without_waiting_tasks_a_pool_wants_no_workers() -> None:
    assert ClusterPool(2, {"gpu": 1}).look({}, workers(2, "gpu=1")) == (0, 2)
