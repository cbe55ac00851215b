"""Stored bytes of hosts: added over their agents, which share one budget."""

from __future__ import annotations

from scaler.monitor.model.values import HostValues, values_by_host
from scaler.wire.messages.monitor import StateAgent


def agent(host: str, *amounts: int) -> StateAgent:
    names = ("hot_bytes", "hot_most_bytes", "cold_bytes", "cold_most_bytes", "spilled_bytes", "read_bytes")
    names = (*names, "held_workers")
    return StateAgent(host=host, **dict(zip(names, amounts, strict=True)))


def test_stored_bytes_of_the_agents_of_a_host_are_added_and_their_shared_budget_is_not() -> None:
    agents = [agent("a", 1, 100, 2, 200, 3, 4, 1), agent("b", 9, 0, 0, 0, 0, 0, 0)]
    agents.append(agent("a", 10, 100, 20, 200, 30, 40, 2))
    assert values_by_host(agents) == {"a": HostValues(11, 100, 22, 200, 33, 44, 3), "b": HostValues(9)}
