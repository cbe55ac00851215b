"""What it costs that a peer comes and goes: the same, however many others there are."""

from __future__ import annotations

import pytest

from tests.support.instructions import instructions
from tests.support.simulation import SimulatedPeer, Simulation

FEW, MANY = 30, 300
TIMES = 4
"""Some of it learns, or is done now and then: the least of so many counts."""
SPARE = 1.02


@pytest.mark.parametrize("kind", ["client", "agent"])
def test_a_hello_a_cut_and_a_goodbye_cost_the_same_however_many_peers_there_are(kind: str) -> None:
    simulation = Simulation(audited=False)

    def come() -> SimulatedPeer:
        return simulation.client() if kind == "client" else simulation.agent()

    def come_and_go() -> None:
        peer = come()
        peer.cut()
        peer.connect()
        simulation.run()
        peer.leave()  # type: ignore[attr-defined]
        simulation.run()

    costs = []
    for count in (FEW, MANY):
        while len(simulation.tree.directory.peers) < count:
            come()
        costs.append(min(instructions(come_and_go) for _ in range(TIMES)))
    assert 0 < costs[1] < costs[0] * SPARE
