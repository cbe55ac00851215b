from __future__ import annotations

from scaler.monitor.model.remaining import wanted_by_capabilities
from tests.support.monitored import waiting


def test_no_workers_are_wanted_without_work_or_without_news() -> None:
    assert wanted_by_capabilities([]) == {}
    assert wanted_by_capabilities([waiting(0)]) == {"": 0}


def test_wanted_workers_finish_the_work_within_the_target() -> None:
    work = [waiting(900, running=100, mean_us=50_000)]
    assert wanted_by_capabilities(work) == {"": 10}
    assert wanted_by_capabilities(work, target_seconds=1) == {"": 50}


def test_at_most_one_worker_is_wanted_for_each_task() -> None:
    assert wanted_by_capabilities([waiting(2, running=1, mean_us=3_600_000_000)]) == {"": 3}


def test_one_worker_is_wanted_for_each_task_of_unknown_duration() -> None:
    assert wanted_by_capabilities([waiting(7, running=1)]) == {"": 8}


def test_no_workers_are_wanted_for_nodes_that_wait_for_inputs() -> None:
    assert wanted_by_capabilities([waiting(1), waiting(90, "inputs")]) == {"": 1}


def test_wanted_workers_are_counted_for_each_set_of_capabilities() -> None:
    groups = waiting(20, running=10, mean_us=1_000_000), waiting(6, asks="gpu=1", running=4, mean_us=1_000_000)
    work = [*groups, waiting(1, "no worker can take it", "licence=1")]
    assert wanted_by_capabilities(work) == {"": 6, "gpu=1": 2, "licence=1": 1}
