"""Values: what the agents of each host store, in memory and on disk, for viewers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from scaler.wire.messages.monitor import StateAgent


@dataclass(frozen=True)
class HostValues:
    """The values on one host, in bytes. All agents of one user on a host share the two limits.

    Attributes:
        hot: bytes in shared memory.
        hot_most: the limit in shared memory; 0: unknown.
        cold: bytes on disk.
        cold_most: the limit on disk; 0: no disk is used for values.
        spilled: bytes written to disk since the start of the agents.
        read: bytes read back from disk since the start of the agents.
        held: the number of workers that are paused because memory and disk are full.
    """

    hot: int = 0
    hot_most: int = 0
    cold: int = 0
    cold_most: int = 0
    spilled: int = 0
    read: int = 0
    held: int = 0

    def with_agent(self, agent: StateAgent) -> HostValues:
        """Return these values plus the values of another agent of the host."""
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
    """Return the values on each host."""
    hosts: dict[str, HostValues] = {}
    for agent in agents:
        hosts[agent.host] = hosts.get(agent.host, HostValues()).with_agent(agent)
    return hosts
