"""Values: what the agents of each host keep for others, in memory and on disk, as viewers show it.

Made from the items of agents when it is asked for. Must never: add up budgets, since all agents of a user on a host
share one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from scaler.wire.messages.monitor import StateAgent


@dataclass(frozen=True)
class HostValues:
    """The values on one host, in bytes.

    Attributes:
        hot: in shared memory.
        hot_most: how much of that there may be; 0: not known.
        cold: on disk.
        cold_most: how much of that there may be; 0: there is no disk for values.
        spilled: written to the disk since the agents began.
        read: read back from there.
        held: workers that begin nothing, because all of that is full.
    """

    hot: int = 0
    hot_most: int = 0
    cold: int = 0
    cold_most: int = 0
    spilled: int = 0
    read: int = 0
    held: int = 0

    def with_agent(self, agent: StateAgent) -> HostValues:
        """Return the same with those of one more agent."""
        return HostValues(
            self.hot + agent.hot_bytes,
            max(self.hot_most, agent.hot_most_bytes),
            self.cold + agent.cold_bytes,
            max(self.cold_most, agent.cold_most_bytes),
            self.spilled + agent.spilled_bytes,
            self.read + agent.read_bytes,
            self.held + agent.held_workers,
        )


def values_by_host(agents: Iterable[StateAgent]) -> dict[str, HostValues]:
    """Return what each host has."""
    hosts: dict[str, HostValues] = {}
    for agent in agents:
        hosts[agent.host] = hosts.get(agent.host, HostValues()).with_agent(agent)
    return hosts
