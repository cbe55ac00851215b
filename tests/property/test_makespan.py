"""How long a list of tasks of very different length takes, on the whole scheduler under a virtual clock.

The durations are drawn from heavy tails, within one function, so that nobody knows them before. They are compared with
a lower bound for any order: the work divided by the workers, or the longest task.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.actors.policy import LOOK_SECONDS, WORK_AHEAD_US
from scaler.settings import SchedulerConfig
from scaler.settings.scheduler import FAIR, FIFO
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.worker import RunTask
from tests.support.configs import scheduler_config
from tests.support.examples import examples
from tests.support.simulation import Outcome, SimulatedAgent, Simulation

WORKERS = 8


def by_payload(run: RunTask) -> Outcome:
    return Outcome(seconds=float(run.payload))


def two_lengths(seed: int, count: int = 6000, long_seconds: float = 0.4, share: float = 0.02) -> list[float]:
    """Nearly all short, and some two hundred times as long."""
    chance = random.Random(seed)
    return [long_seconds if chance.random() < share else 0.002 for _ in range(count)]


def pareto(seed: int, count: int = 4000) -> list[float]:
    """Of 3 to 400 ms, 8 ms on average."""
    chance = random.Random(seed)
    return [min(0.4, 0.003 * chance.paretovariate(1.5)) for _ in range(count)]


def lower_bound(seconds: Sequence[float]) -> float:
    return max(*seconds, sum(seconds) / WORKERS)


def one_by_one(seconds: Sequence[float]) -> float:
    """The makespan if each task went to the worker that is free first, in the order of the list."""
    ends = [0.0] * WORKERS
    for length in seconds:
        heapq.heapreplace(ends, ends[0] + length)
    return max(ends)


def run(seconds: Sequence[float], rules: SchedulerConfig) -> tuple[float, SimulatedAgent]:
    simulation = Simulation(rules, audited=False)
    agent, client = simulation.agent(WORKERS, by_payload), simulation.client()
    start = simulation.clock()
    for length in seconds:
        client.submit(payload=repr(length).encode())
    step = lower_bound(seconds) / 200
    while client.open:
        simulation.advance(step)
    assert set(client.statuses()) == {TaskStatus.SUCCESS}
    assert len(agent.started) == len(seconds)  # none was started twice
    return simulation.clock() - start, agent


@pytest.mark.parametrize(
    ("seconds", "policy"),
    [
        (two_lengths(1), FAIR),
        (pareto(1), FIFO),
        pytest.param(two_lengths(2), FAIR, marks=pytest.mark.more),
        pytest.param(two_lengths(3), FIFO, marks=pytest.mark.more),
        pytest.param(pareto(2), FAIR, marks=pytest.mark.more),
        pytest.param(pareto(3), FAIR, marks=pytest.mark.more),
    ],
)
@pytest.mark.thorough
def test_a_heavy_tail_takes_little_longer_than_it_must(seconds: list[float], policy: str) -> None:
    makespan, _ = run(seconds, scheduler_config(policy=policy))
    assert makespan <= 1.10 * lower_bound(seconds)


@pytest.mark.parametrize("seed", [1, 3, 4])
def test_without_balancing_the_makespan_is_longer(seed: int) -> None:
    seconds = two_lengths(seed, 300, long_seconds=5.0, share=0.05)
    balanced, agent = run(seconds, scheduler_config())
    unbalanced, idle_agent = run(seconds, scheduler_config(load_balance_seconds=0))
    assert len(agent.given_back) > 0
    assert idle_agent.given_back == []
    assert balanced <= 1.03 * one_by_one(seconds)
    assert unbalanced > 1.2 * one_by_one(seconds)


@examples(25)
@given(st.lists(st.sampled_from((0.0, 0.001, 0.01, 0.3, 3.0)), min_size=1, max_size=120), st.sampled_from((0.1, 1.0)))
def test_the_makespan_is_nearly_that_of_tasks_assigned_one_by_one(seconds: list[float], pause: float) -> None:
    """Behind one long task each worker may lose two looks and a pause, before what waits there is taken away."""
    makespan, _ = run(seconds, scheduler_config(load_balance_seconds=pause))
    slack = WORK_AHEAD_US * 1e-6 + 2 * LOOK_SECONDS + pause + lower_bound(seconds) / 200
    assert makespan <= lower_bound(seconds) + max(seconds) + slack


@pytest.mark.thorough
def test_tasks_behind_a_long_one_are_not_overtaken_for_ever_by_later_tasks() -> None:
    simulation = Simulation(audited=False)
    agent, client = simulation.agent(2, by_payload), simulation.client()
    early = client.submit(100, payload=b"0.005")
    simulation.advance(2.0)
    early = client.submit(payload=b"1000.0") + client.submit(15, payload=b"0.005")
    for _ in range(1000):  # for 20 seconds there is always something to do: no worker is ever idle
        client.submit(4, payload=b"0.005")
        simulation.advance(0.02)
    assert client.statuses(early) == [None] + [TaskStatus.SUCCESS] * 15
    assert agent.given_back != []
    waited = [client.submitted.index(task.task_id) for task in agent.given_back]
    assert waited == sorted(waited)
