"""Monitor: messages between the monitor and other actors, and from the edge to the monitor."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from scaler.ids import ClientId, GraphId, ObjectId, TaskId
from scaler.message import message

if TYPE_CHECKING:
    from scaler.actors.vocabulary.capacity import ResourceGroup
    from scaler.actors.vocabulary.events import PeerIdentity
    from scaler.actors.vocabulary.peer import Peer
    from scaler.kit import ActorRef
    from scaler.wire.messages.worker import AgentState


@message
class SubscriptionsChanged:
    """edge -> monitor: viewers have subscribed to topics, or the last viewer of a topic has left."""

    is_new: bool


@message
class Tick:
    """monitor -> itself, by timer: a second has passed, or (`is_soon`) a viewer has just subscribed."""

    is_soon: bool


@message
class WatchAgent:
    """monitor -> agent session: have the agent send reports to `watcher` at this interval; 0: send no reports."""

    interval_ms: int
    parts: int
    watcher: ActorRef


@message
class AgentSeen:
    """agent session -> monitor: the agent is connected (`state` is None), or has sent the report `state`."""

    session: ActorRef
    peer: Peer
    identity: PeerIdentity
    is_draining: bool
    state: AgentState | None


class GraphSeen(NamedTuple):
    """The name of a graph, its client, and the number of its nodes in each state, for viewers."""

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
    """The state of a graph's node, for viewers."""

    position: int
    task_id: TaskId
    function_id: ObjectId
    dependencies: bytes
    state: str
    name: str
    """the name of the task, if the tasks of the graph have different names; else empty"""


@message
class ReportTask:
    """client session, worker proxy or monitor -> task: report your state to the listener of events (`SEEN`).

    Attributes:
        task_id: the task, or a row of the range that the task is.
    """

    task_id: TaskId


@message
class ReportTaskOf:
    """monitor -> worker proxy: have the task of this run report its state, because a viewer sees the run."""

    task_id: TaskId


@message
class GraphEndedFor:
    """client session -> monitor: the final counts of a graph, and its nodes unless the graph has too many."""

    seen: GraphSeen
    nodes: list[NodeSeen]


class WatchedTask(NamedTuple):
    """A waiting task that a viewer watches, and the session of its client."""

    task_id: TaskId
    function_id: ObjectId
    session: ActorRef
    graph_id: GraphId


@dataclass
class Backlog:
    """Counts of the tasks that have not ended, filled in by the balancer and sessions."""

    waiting: int = 0
    running: int = 0
    workers: int = 0
    accounts: dict[int, int] = field(default_factory=dict)
    """the number of waiting tasks by account; empty unless clients take turns"""
    groups: list[ResourceGroup] = field(default_factory=list)
    """the open tasks, grouped by the resources that they request"""
    open: Counter[ClientId] = field(default_factory=Counter)
    inputs: int = 0
    """the number of tasks that wait for results of other tasks"""
    wants_graphs: bool = False
    wants_nodes_of: frozenset[bytes] = frozenset()
    """short ids of the graphs whose nodes are requested"""
    graphs: list[GraphSeen] = field(default_factory=list)
    nodes: dict[bytes, list[NodeSeen]] = field(default_factory=dict)
    """the nodes of the graphs in `wants_nodes_of`, by short id of the graph"""
    wants_tasks: frozenset[bytes] = frozenset()
    """short ids of watched tasks that the monitor does not know"""
    asked_waiting: dict[bytes, WatchedTask] = field(default_factory=dict)
    """by short id, the tasks named in `wants_tasks` that wait for results of other tasks"""


@message
class ReportBacklog:
    """monitor -> balancer, urgent: write the number of waiting tasks into `backlog`. `functions`: also by function."""

    backlog: Backlog
    functions: bool


@message
class ReportOpen:
    """monitor -> client sessions, in the urgent lane: write the number of your open tasks into `backlog`."""

    backlog: Backlog


@message
class PublishDue:
    """monitor -> itself: all actors have reported their counts; publish the topics."""

    topics: tuple[str, ...]
    backlog: Backlog
    is_first: bool
    """whether a viewer has just subscribed, so that the whole state is published, not only the changes"""
