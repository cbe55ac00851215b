"""Rounds of balancing: when workers are requested to return tasks, and when the next look is due."""

from __future__ import annotations

import pytest

from scaler.actors.policy.rounds import LOOK_SECONDS, Rounds
from scaler.actors.policy.worker_loads import WorkerLoads
from scaler.settings import SchedulerConfig
from tests.support.configs import scheduler_config


class Scene:
    """A busy worker, an idle one, and a time."""

    def __init__(self, rules: SchedulerConfig | None = None, tasks: int = 8, idle: int = 0) -> None:
        self.loads: WorkerLoads = WorkerLoads()
        self.loads.join("busy", 1000, tasks)
        self.loads.join("idle", 1000, idle)
        self.rounds: Rounds = Rounds(rules or scheduler_config())
        self.now = 100.0

    def look(self, after: float = 0.0) -> dict[str, int]:
        self.now += after
        return self.rounds.look(self.loads, self.now)


def test_tasks_are_recalled_after_two_successive_looks_that_find_uneven_queues() -> None:
    scene = Scene()
    assert scene.rounds.has_to_look(scene.loads)
    assert scene.look() == {}
    assert not scene.rounds.has_to_look(scene.loads)
    assert scene.rounds.look_at == pytest.approx(scene.now + LOOK_SECONDS)
    assert scene.look(LOOK_SECONDS) == {"busy": 7}


def test_a_look_that_is_too_early_does_not_count() -> None:
    scene = Scene()
    assert [scene.look(), scene.look(LOOK_SECONDS / 2), scene.look(LOOK_SECONDS / 4)] == [{}] * 3
    assert scene.look(LOOK_SECONDS / 4) == {"busy": 7}


def test_a_look_that_finds_even_queues_restarts_the_series() -> None:
    scene = Scene()
    scene.look()
    scene.loads.take(1)
    assert scene.look(LOOK_SECONDS) == {}
    scene.loads.free("idle", 1, 1)
    assert scene.rounds.has_to_look(scene.loads)
    assert scene.look() == {}
    assert scene.look(LOOK_SECONDS) == {"busy": 7}


def test_two_rounds_are_separated_by_the_configured_time() -> None:
    scene = Scene(scheduler_config(load_balance_seconds=5.0))
    scene.look()
    assert scene.look(LOOK_SECONDS) == {"busy": 7}
    assert scene.rounds.look_at == pytest.approx(100.0 + 5.0)  # the next look at workers without ended tasks
    assert scene.look(4.99) == {}
    assert scene.look(0.04) == {}
    assert scene.look(LOOK_SECONDS) == {"busy": 7}


def test_queued_tasks_of_a_stuck_worker_are_recalled_even_without_idle_workers() -> None:
    scene = Scene(idle=3)
    assert not scene.rounds.has_to_look(scene.loads)
    assert scene.look() == {}
    assert scene.rounds.look_at == pytest.approx(101.0)
    scene.loads.free("idle", 1, 1)
    assert scene.look(1.0) == {"busy": 7}
    assert scene.rounds.look_at == pytest.approx(102.0)
    scene.loads.remove_recalled("busy", 7, 0)
    assert scene.look(1.0) == {"idle": 1}
    scene.loads.remove_recalled("idle", 1, 0)
    assert scene.look(1.0) == {}
    assert scene.rounds.look_at is None


def test_without_balancing_no_look_is_scheduled() -> None:
    scene = Scene(scheduler_config(load_balance_seconds=0))
    assert not scene.rounds.has_to_look(scene.loads)
    assert [scene.look(), scene.look(10.0)] == [{}, {}]
    assert scene.rounds.look_at is None


def test_a_timer_that_is_early_by_a_rounding_error_is_on_time() -> None:
    scene = Scene()
    scene.look()
    assert scene.rounds.look_at is not None
    scene.now = scene.rounds.look_at - 1e-9
    assert scene.look() == {"busy": 7}
