"""What the monitor and the other actors tell each other, and what its edge tells it."""

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
    """edge -> monitor: viewers have subscribed, or nobody wants a topic any more."""

    is_new: bool
    """somebody has subscribed"""


@message
class Tick:
    """monitor -> itself, by timer."""

    number: int


@message
class WatchAgent:
    """monitor -> agent session: have your agent report in this interval, and tell me; 0: not any more."""

    interval_ms: int
    parts: int
    watcher: ActorRef


@message
class AgentSeen:
    """agent session -> monitor: my agent is there, or has reported."""

    session: ActorRef
    peer: Peer
    identity: PeerIdentity
    is_draining: bool
    state: AgentState | None


class GraphSeen(NamedTuple):
    """A graph: how many of its nodes are in which state."""

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
    """client session -> task: a viewer has asked for you: tell the listener of events how you are."""


@message
class GraphEndedFor:
    """graph -> monitor: this is how a graph ended, and its nodes, if they are not too many."""

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
    """The tasks that no worker has, as the balancer counts them when it is asked."""

    waiting: int = 0
    running: int = 0
    workers: int = 0
    accounts: dict[int, int] = field(default_factory=dict)
    """waiting tasks by account; empty if clients take no turns"""
    groups: list[ResourceGroup] = field(default_factory=list)
    """these tasks, by what they ask for"""
    open: Counter[ClientId] = field(default_factory=Counter)
    """open tasks, by client"""
    inputs: int = 0
    """nodes of graphs that wait for the results of others"""
    wants_graphs: bool = False
    wants_nodes_of: frozenset[bytes] = frozenset()
    """short ids of graphs"""
    graphs: list[GraphSeen] = field(default_factory=list)
    nodes: dict[bytes, list[NodeSeen]] = field(default_factory=dict)
    """of the graphs that were asked for, by short id"""
    wants_tasks: frozenset[bytes] = frozenset()
    """short ids of tasks that the monitor cannot find otherwise"""
    asked_nodes: dict[bytes, WatchedNode] = field(default_factory=dict)
    """those of them that are nodes of graphs and no tasks yet"""


@message
class ReportBacklog:
    """monitor -> balancer, in the urgent lane: add what waits. `functions`: count the functions of what waits."""

    backlog: Backlog
    functions: bool


@message
class ReportOpen:
    """monitor -> client sessions -> graphs, in the urgent lane: add your open tasks."""

    backlog: Backlog


@message
class PublishDue:
    """monitor -> itself: all have answered."""

    topics: tuple[str, ...]
    backlog: Backlog
    is_first: bool
    """somebody has just subscribed: say all, and not only what is new"""
