"""WatchedAgents: the topics `workers`, `processors` and `bins`, made of the reports of agents.

A bin is the work of one worker between two reports. The packed rows of workers are forwarded without being decoded, so
the cost hardly grows with the number of workers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from scaler.actors.messages.monitor import AgentSeen
from scaler.actors.monitor.board import Shown
from scaler.actors.monitor.load.diagnosis import WorkerLoad
from scaler.actors.vocabulary.events import PeerIdentity
from scaler.actors.vocabulary.peer import Peer
from scaler.ids import public_id
from scaler.kit import ActorRef
from scaler.wire.messages.capabilities import as_text
from scaler.wire.messages.monitor import (
    BIN_ROW,
    HAS_TASK,
    PROCESSOR_ROW,
    TASK_LOCK,
    WORKER_ROW,
    StateAgent,
    StateBins,
    StateProcessors,
    whole_rows,
)
from scaler.wire.messages.worker import AgentState

_NOTHING = AgentState()
_UINT32_MOST = 2**32 - 1
_DRAINS, _AWAY = 1, 2


class _Agent:
    __slots__ = ("bins", "busy", "identity", "is_draining", "peer", "short_id", "state", "suspended")

    def __init__(self, peer: Peer, identity: PeerIdentity) -> None:
        self.peer = peer
        self.identity = identity
        self.short_id = public_id(identity.peer_id)
        self.state = _NOTHING
        self.busy = self.suspended = 0
        """two numbers in the last report: how many workers execute a task, and how many tasks wait for nested tasks"""
        self.is_draining = False
        self.bins: list[bytes] = []
        """the bins of all reports since the topic `bins` was last published"""


class WatchedAgents:
    """The agents that report to the monitor, with the last report of each agent."""

    def __init__(self) -> None:
        self._agents: dict[ActorRef, _Agent] = {}

    def __len__(self) -> int:
        return len(self._agents)

    def add(self, seen: AgentSeen) -> None:
        """Add an agent, or store the new report of a known agent."""
        agent = self._agents.get(seen.session)
        if agent is None:
            agent = self._agents[seen.session] = _Agent(seen.peer, seen.identity)
        agent.identity = seen.identity
        agent.is_draining = seen.is_draining
        if seen.state is not None:
            agent.state = seen.state
            agent.busy, agent.suspended = _load_of(seen.state.workers)
            if seen.state.bins:
                agent.bins.append(seen.state.bins)

    def keep_only(self, sessions: Iterable[ActorRef]) -> None:
        """Forget all agents except the agents with these sessions."""
        for session in self._agents.keys() - set(sessions):
            del self._agents[session]

    def states(self) -> Iterator[AgentState]:
        """Iterate over the last report of each agent."""
        return (agent.state for agent in self._agents.values())

    def load(self, workers: int) -> WorkerLoad:
        """Return the load of all workers; `workers`: their number. Workers of disconnected agents count as idle."""
        busy = sum(agent.busy for agent in self._agents.values() if agent.peer.connection)
        held = sum(agent.state.held_workers for agent in self._agents.values())
        has_reports = any(agent.state is not _NOTHING for agent in self._agents.values())
        return WorkerLoad(workers, busy, sum(agent.suspended for agent in self._agents.values()), held, has_reports)

    def workers(self, now: float) -> Shown:
        """Return the items of the topic `workers`."""
        count = sum(len(agent.identity.worker_names) for agent in self._agents.values())
        return [self._worker_item(agent, now) for agent in self._agents.values()], count, count

    def _worker_item(self, agent: _Agent, now: float) -> StateAgent:
        identity, state, peer = agent.identity, agent.state, agent.peer
        return StateAgent(
            agent.short_id,
            state.host,
            state.engine,
            ",".join(identity.worker_names),
            identity.python_version,
            as_text(identity.capabilities),
            state.pid,
            state.cpu_permille,
            state.rss_bytes,
            state.free_bytes,
            state.lag_us,
            min(_UINT32_MOST, int(1000 * max(0.0, now - peer.last_received_at))),
            _DRAINS if agent.is_draining else 0 if peer.connection else _AWAY,
            state.workers,
            *(state.hot_bytes, state.hot_most_bytes, state.cold_bytes, state.cold_most_bytes),
            *(state.spilled_bytes, state.read_bytes, state.held_workers),
        )

    def processors(self) -> Shown:
        """Return the items of the topic `processors`."""
        rows = {agent.short_id: agent.state.processors for agent in self._agents.values() if agent.state.processors}
        count = sum(map(len, rows.values())) // PROCESSOR_ROW.size
        return [StateProcessors(short_id, packed) for short_id, packed in rows.items()], count, count

    def bins(self) -> Shown:
        """Return the items of the topic `bins`: the bins reported since the last call."""
        items, count = [], 0
        for agent in self._agents.values():
            items += [StateBins(agent.short_id, packed) for packed in agent.bins]
            count += sum(map(len, agent.bins)) // BIN_ROW.size
            agent.bins.clear()
        return items, count, count


def _load_of(workers: bytes) -> tuple[int, int]:
    """Return how many workers execute a task, and how many tasks wait for nested tasks, given the rows of a report."""
    busy, n_suspended = 0, 0
    for _, _, _, suspended, flags, *_ in whole_rows(WORKER_ROW, workers):
        busy += flags & (HAS_TASK | TASK_LOCK) == HAS_TASK
        n_suspended += suspended
    return busy, n_suspended
