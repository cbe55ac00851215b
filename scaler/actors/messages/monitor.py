"""Monitor: messages between the monitor and other actors, and from its edge to it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from scaler.ids import ClientId, ObjectId, TaskId
from scaler.message import message

if TYPE_CHECKING:
    from scaler.actors.insight.events import PeerIdentity
    from scaler.actors.peers.peer import Peer
    from scaler.actors.policy.interface import ResourceGroup
    from scaler.kit import ActorRef
    from scaler.wire.messages.worker import AgentState


@message
class SubscriptionsChanged:
    """edge -> monitor: viewers have subscribed to topics, or the last viewer of a topic has left."""

    is_new: bool
    """whether a viewer has subscribed"""


@message
class Tick:
    """monitor -> itself, by timer: publish the due topics."""

    number: int


@message
class WatchAgent:
    """monitor -> agent session: have the agent report in this interval, to `watcher`; 0 ends the reports."""

    interval_ms: int
    parts: int
    watcher: ActorRef


@message
class AgentSeen:
    """agent session -> monitor: the agent is connected, or has reported."""

    session: ActorRef
    peer: Peer
    identity: PeerIdentity
    is_draining: bool
    state: AgentState | None


class GraphSeen(NamedTuple):
    """The number of nodes of a graph in each state."""

    short_id: bytes
    name: str
    client: bytes
    nodes: int
    waiting: int
    running: int
    success: int
    failed: int
    canceled: int
    owner: str
    client_label: str


class NodeSeen(NamedTuple):
    """A node of a graph."""

    position: int
    task_id: TaskId
    function_id: ObjectId
    dependencies: bytes
    state: str


@message
class ReportTask:
    """client session -> task: report your state to the listener of events, because a viewer asked for it."""


@message
class GraphEndedFor:
    """graph -> monitor: the final counts of a graph, and its nodes if they are not too many."""

    seen: GraphSeen
    nodes: list[NodeSeen]


class WatchedNode(NamedTuple):
    """A node that a viewer looks at."""

    task_id: TaskId
    function_id: ObjectId
    graph: ActorRef
    position: int


@dataclass
class Backlog:
    """Counts of the tasks that no worker has, filled in by the balancer, sessions and graphs."""

    waiting: int = 0
    running: int = 0
    workers: int = 0
    accounts: dict[int, int] = field(default_factory=dict)
    """waiting tasks by account; empty unless clients take turns"""
    groups: list[ResourceGroup] = field(default_factory=list)
    """waiting tasks by resources that they request"""
    open: Counter[ClientId] = field(default_factory=Counter)
    """open tasks, by client"""
    inputs: int = 0
    """nodes of graphs that wait for results of other nodes"""
    wants_graphs: bool = False
    wants_nodes_of: frozenset[bytes] = frozenset()
    """short ids of graphs"""
    graphs: list[GraphSeen] = field(default_factory=list)
    nodes: dict[bytes, list[NodeSeen]] = field(default_factory=dict)
    """nodes of the graphs in `wants_nodes_of`, by short id"""
    wants_tasks: frozenset[bytes] = frozenset()
    """short ids of tasks that the monitor does not know"""
    asked_nodes: dict[bytes, WatchedNode] = field(default_factory=dict)
    """the tasks in `wants_tasks` that are nodes of graphs and not tasks yet"""


@message
class ReportBacklog:
    """monitor -> balancer, in the urgent lane: add the waiting tasks. `functions`: count their functions, too."""

    backlog: Backlog
    functions: bool


@message
class ReportOpen:
    """monitor -> client sessions -> graphs, in the urgent lane: add your open tasks."""

    backlog: Backlog


@message
class PublishDue:
    """monitor -> itself: all parts have answered; publish."""

    topics: tuple[str, ...]
    backlog: Backlog
    is_first: bool
    """a viewer has just subscribed: publish the whole state, not only its changes"""
