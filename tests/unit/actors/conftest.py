"""Fixtures that the tests of the scheduler's actors share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.bench import Bench
from tests.support.simulation import SimulatedClient, Simulation


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    assert bench.dispatcher.failures == 0


@pytest.fixture
def simulation() -> Iterator[Simulation]:
    """A scheduler in which nothing fails, and of which nothing is left when its clients leave at the end of a test."""
    simulation = Simulation()
    yield simulation
    simulation.run()
    for peer in simulation.peers:
        if peer.hangs:
            peer.wake()
        if isinstance(peer, SimulatedClient) and not peer.is_gone:
            peer.leave()
    simulation.advance(1.0)
    simulation.check_empty()
    assert simulation.dispatcher.failures == 0
    assert simulation.escalations == []
