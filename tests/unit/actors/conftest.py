"""Fixtures that the tests of the scheduler's actors share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.bench import Bench
from tests.support.simulation import Simulation


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    assert bench.dispatcher.failures == 0


@pytest.fixture
def simulation() -> Iterator[Simulation]:
    """A scheduler in which nothing fails."""
    simulation = Simulation()
    yield simulation
    simulation.run()
    assert simulation.dispatcher.failures == 0
    assert simulation.escalations == []
