"""The cost of a peer that joins and leaves does not depend on the number of other peers."""

from __future__ import annotations

import pytest

from tests.support.instructions import instructions
from tests.support.simulation import SimulatedPeer, Simulation

FEW, MANY = 30, 300
TIMES = 4
"""Some code learns, or runs now and then: the test takes the smallest of this number of counts."""
SPARE = 1.02


@pytest.mark.parametrize("kind", ["client", "agent"])
def test_the_cost_of_joining_reconnecting_and_leaving_does_not_grow_with_the_peers(kind: str) -> None:
    simulation = Simulation(audited=False)

    def join() -> SimulatedPeer:
        return simulation.client() if kind == "client" else simulation.agent()

    def join_and_leave() -> None:
        peer = join()
        peer.cut()
        peer.connect()
        simulation.run()
        peer.leave()  # type: ignore[attr-defined]
        simulation.run()

    costs = []
    for count in (FEW, MANY):
        while len(simulation.tree.directory.peers) < count:
            join()
        costs.append(min(instructions(join_and_leave) for _ in range(TIMES)))
    assert 0 < costs[1] < costs[0] * SPARE
