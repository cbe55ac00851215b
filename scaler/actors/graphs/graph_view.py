"""Graph view: what viewers see of a graph: how many of its nodes are in which state, and, if they ask, each node.

Used by graphs, when the monitor asks and when they end.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Collection, Container, Sequence
from operator import attrgetter

from scaler.actors.graphs.graph_node import GraphNodeState
from scaler.actors.messages.monitor import Backlog, GraphEndedFor, GraphSeen, NodeSeen, WatchedNode
from scaler.actors.tasks.client_context import ClientContext
from scaler.actors.vocabulary.task_states import READY, RUNNING, shown_state
from scaler.ids import TaskId, public_id
from scaler.kit import ActorRef
from scaler.wire.messages.client import GraphTask
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.vocabulary import OUTCOMES

NODES_MOST = 2000
"""A graph with more nodes is not shown node by node."""


_STATUS = attrgetter("status")


def show_graph(
    backlog: Backlog,
    context: ClientContext,
    spec: GraphTask,
    nodes: Sequence[GraphNodeState],
    running: Collection[TaskId],
    open_count: int,
) -> None:
    """Add to the backlog what was asked for."""
    backlog.open[context.client_id] += open_count
    backlog.inputs += max(0, open_count - len(running))
    if not backlog.wants_graphs:
        return
    statuses: Counter[int | None] = Counter(map(_STATUS, nodes))
    short_id = public_id(spec.graph_id)
    tasks = sum(node.task_id in running for node in nodes) if open_count else 0
    backlog.graphs.append(_seen(short_id, context, spec, statuses, tasks))
    if short_id in backlog.wants_nodes_of and len(nodes) <= NODES_MOST:
        backlog.nodes[short_id] = [_node(position, node, running) for position, node in enumerate(nodes)]


def find_nodes(backlog: Backlog, graph: ActorRef, nodes: Sequence[GraphNodeState], running: Container[TaskId]) -> None:
    """Say which of the nodes that are no tasks yet are asked for."""
    for position, node in enumerate(nodes[:NODES_MOST] if backlog.wants_tasks else ()):
        if node.status is None and node.task_id not in running:
            short_id = public_id(node.task_id)
            if short_id in backlog.wants_tasks:
                backlog.asked_nodes[short_id] = WatchedNode(node.task_id, node.function_id, graph, position)


def report_ended(context: ClientContext, spec: GraphTask, nodes: Sequence[GraphNodeState]) -> None:
    """A graph has ended: tell the monitor, if it shows graphs."""
    if context.events.of_graphs is not None:
        statuses: Counter[int | None] = Counter(map(_STATUS, nodes))
        seen = _seen(public_id(spec.graph_id), context, spec, statuses, 0)
        shown = nodes if len(nodes) <= NODES_MOST else ()
        context.events.of_graphs.send(GraphEndedFor(seen, [_node(*each, ()) for each in enumerate(shown)]))


def _seen(
    short_id: bytes, context: ClientContext, spec: GraphTask, statuses: Counter[int | None], tasks: int
) -> GraphSeen:
    success, canceled = statuses[TaskStatus.SUCCESS], statuses[TaskStatus.CANCELED]
    failed = sum(statuses.values()) - statuses[None] - success - canceled
    waiting = spec.node_count - success - canceled - failed - tasks
    counts = (spec.node_count, waiting, tasks, success, failed, canceled)
    whose = (context.owner.name, context.label)
    return GraphSeen(short_id, spec.name, public_id(context.client_id), *counts, *whose)


def _node(position: int, node: GraphNodeState, running: Container[TaskId]) -> NodeSeen:
    if node.status is None:
        state = shown_state(RUNNING if node.task_id in running else READY)
    else:
        state = OUTCOMES[TaskStatus(node.status)]
    packed = struct.pack(f"<{len(node.dependencies)}I", *node.dependencies)
    return NodeSeen(position, node.task_id, node.function_id, packed, state)
