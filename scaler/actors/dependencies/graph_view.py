"""Graph view: what viewers see of a graph: how many of its tasks are in which state, and, if they ask, each task.

Used by the client session, when the monitor asks, and when a graph ends.
"""

from __future__ import annotations

import struct
from collections import Counter
from operator import attrgetter

from scaler.actors.dependencies.waiting_task import RUNNING, TaskGraph, WaitingTask
from scaler.actors.messages.monitor import Backlog, GraphEndedFor, GraphSeen, NodeSeen
from scaler.actors.vocabulary.task_states import READY, shown_state
from scaler.actors.vocabulary.task_states import RUNNING as RUNNING_STATE
from scaler.ids import public_id
from scaler.wire.messages.client import SHOWN_TASKS_MOST
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.vocabulary import OUTCOMES

_STATUS = attrgetter("status")


def show_graph(backlog: Backlog, graph: TaskGraph) -> None:
    """Add to the backlog what was requested about a graph."""
    short_id = public_id(graph.graph_id)
    backlog.graphs.append(_seen(graph))
    if short_id in backlog.wants_nodes_of:
        backlog.nodes[short_id] = _nodes(graph)


def report_ended(graph: TaskGraph) -> None:
    """Report the end of a graph to the monitor, if it shows graphs."""
    of_graphs = graph.terms.context.events.of_graphs
    if of_graphs is not None:
        of_graphs.send(GraphEndedFor(_seen(graph), _nodes(graph)))


def _seen(graph: TaskGraph) -> GraphSeen:
    statuses: Counter[int] = Counter(map(_STATUS, graph.nodes))
    context = graph.terms.context
    success, canceled, running = statuses[TaskStatus.SUCCESS], statuses[TaskStatus.CANCELED], statuses[RUNNING]
    failed = sum(number for status, number in statuses.items() if status > TaskStatus.SUCCESS) - canceled
    waiting = graph.size - success - canceled - failed - running
    counts = (graph.size, waiting, running, success, failed, canceled)
    whose = (context.owner.name, context.label)
    return GraphSeen(public_id(graph.graph_id), graph.name, public_id(context.client_id), *counts, *whose)


def _nodes(graph: TaskGraph) -> list[NodeSeen]:
    nodes = graph.nodes
    if len(nodes) > SHOWN_TASKS_MOST:
        return []
    positions = {id(node): position for position, node in enumerate(nodes)}
    return [_node(node, positions, graph.name) for node in nodes]


def _node(node: WaitingTask, positions: dict[int, int], graph_name: str) -> NodeSeen:
    if node.is_open:
        state = shown_state(RUNNING_STATE if node.status == RUNNING else READY)
    else:
        state = OUTCOMES[TaskStatus(node.status)]
    needs = [positions[id(need)] for need in node.needs if id(need) in positions]
    packed = struct.pack(f"<{len(needs)}I", *needs)
    name = "" if node.terms is None or node.terms.name == graph_name else node.terms.name
    return NodeSeen(positions[id(node)], node.task_id, node.function_id, packed, state, name)
