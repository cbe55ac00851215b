"""Scaling: whatever the load does, a plan keeps its bounds, drains nothing that works, and comes to rest."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from scaler.scaling.plan import Bounds, Plan, ScaledCluster
from tests.support.examples import examples

LOADS = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 60)), min_size=1, max_size=12)
"""how many workers could be used, and for how many seconds"""
REST_SECONDS = 120


@st.composite
def bounds(draw: st.DrawFn) -> Bounds:
    each = draw(st.integers(1, 4))
    least = draw(st.integers(0, 6))
    most = draw(st.integers(max(least, 1) + each, 24))
    return Bounds(least, most, each, draw(st.sampled_from([1.0, 5.0, 20.0])), start_seconds=30.0)


class World:
    """Clusters that come after some time, and are busy as the load has it: the first ones first."""

    def __init__(self, bounds: Bounds, delay: int) -> None:
        self.bounds, self.plan, self.delay = bounds, Plan(bounds), delay
        self.clusters: dict[str, ScaledCluster] = {}
        self.actions = 0
        self._names = count()

    def second(self, now: float, wanted: int) -> None:
        left = wanted
        for name, each in self.clusters.items():
            has_come = now - each.started_at >= self.delay
            self.clusters[name] = replace(each, workers=self.bounds.each * has_come, is_busy=has_come and left > 0)
            left -= self.bounds.each * has_come
        workers = sum(each.workers for each in self.clusters.values())
        decision = self.plan.decide(now, wanted, workers, list(self.clusters.values()))
        for name in decision.drain:
            assert not self.clusters.pop(name).is_busy
        for _ in range(decision.start):
            name = str(next(self._names))
            self.clusters[name] = ScaledCluster(name, now, 0, False)
        self.actions += decision.start + len(decision.drain)
        assert len(self.clusters) * self.bounds.each <= self.bounds.most


@examples(150)
@given(bounds=bounds(), loads=LOADS, delay=st.integers(0, 20))
def test_the_plan_keeps_its_bounds_and_converges(bounds: Bounds, loads: list[tuple[int, int]], delay: int) -> None:
    world = World(bounds, delay)
    curve = [wanted for wanted, seconds in loads for _ in range(seconds)]
    curve += [curve[-1]] * REST_SECONDS
    for now, wanted in enumerate(curve):
        world.second(now, wanted)
    before, workers = world.actions, sum(each.workers for each in world.clusters.values())
    for now in range(REST_SECONDS):
        world.second(len(curve) + now, curve[-1])
    assert world.actions == before, "to and fro"
    target = world.plan.target(curve[-1])
    assert workers > target - bounds.each, "too few"
    assert workers < target + bounds.each, "too many"


@examples(100)
@given(bounds=bounds(), wanted=st.integers(0, 30), seconds=st.integers(1, 2))
def test_a_short_peak_of_load_starts_no_cluster(bounds: Bounds, wanted: int, seconds: int) -> None:
    world = World(bounds, 1)
    for now in range(60):
        world.second(now, 0)
    before = world.actions
    for now in range(60, 60 + seconds):
        world.second(now, wanted)
    assert world.actions <= before
