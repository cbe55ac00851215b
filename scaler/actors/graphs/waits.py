"""Waiting nodes: which task a node of a graph waits for. Used by the graph; the monitor uses `NODE_REASON`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice

from scaler.actors.graphs.graph_node import GraphNodeState
from scaler.actors.messages.tasks import SHOWN_SECONDS, ExplainInput, ExplainNode, age
from scaler.actors.vocabulary.task_states import READY
from scaler.ids import TaskId
from scaler.kit import ActorRef
from scaler.wire.messages.client import GraphInput
from scaler.wire.messages.vocabulary import INPUTS, TURN

DEPENDENCIES_MOST = 1000
"""Limit of the dependencies of one node that are examined."""
STEPS_MOST = 100
"""The length up to which a chain of nodes is followed. In a chain, each node waits for the next."""

NODE_REASON = INPUTS, "it needs results of other nodes of its graph that are not available yet"
"""The usual explanation of a graph node that is not a task yet. The answer about a single node has more detail."""


def follow(
    asked: ExplainNode,
    nodes: Sequence[GraphNodeState],
    running: Mapping[TaskId, tuple[int, ActorRef]],
    inputs: Mapping[TaskId, GraphInput],
    session: ActorRef,
    since: float,
) -> None:
    """Follow the inputs of a node to the first task that runs or can run, and forward the question to that task.

    Args:
        running: the nodes that are tasks now.
        inputs: the nodes that are results of other tasks; the session forwards a question about such a node.
        since: when the scheduler received the graph.
    """
    question, position = asked.question, asked.position
    for _ in range(STEPS_MOST):
        node = nodes[position] if position < len(nodes) else None
        if node is None or node.status is not None:
            return  # its result is on its way
        if node.task_id in running:
            running[node.task_id][1].send(question)
            return
        if node.task_id in inputs:
            if question.hops >= STEPS_MOST:
                break
            session.send(ExplainInput(replace(question, hops=question.hops + 1), inputs[node.task_id]))
            return
        missing = missing_inputs(node, nodes)
        if not missing:
            question.answer(READY, (TURN, "its arguments are available, and it is about to start"))
            return
        if not question.because:
            seconds = question.asked_at - since
            because = for_inputs(len(missing), len(node.dependencies), seconds)
            question = replace(question, because=because, seconds=seconds)
        position = missing[0]
    question.answer(READY, (INPUTS, f"it waits for a chain of more than {STEPS_MOST} nodes"))


def missing_inputs(node: GraphNodeState, nodes: Sequence[GraphNodeState]) -> list[int]:
    """Return the positions of the missing inputs of a node, among its first `DEPENDENCIES_MOST` inputs."""
    return [each for each in islice(node.dependencies, DEPENDENCIES_MOST) if nodes[each].status is None]


def for_inputs(missing: int, all_of_them: int, seconds: float) -> str:
    """Return the start of a sentence about a node that waits for other nodes."""
    wants = f"it has waited for {age(seconds)} for" if seconds >= SHOWN_SECONDS else "it needs"
    if all_of_them == 1:
        return f"{wants} the result of another node, which "
    return f"{wants} the results of {missing:,} of {all_of_them:,} other nodes; one of them "
