"""GraphNode: one node of a graph at the scheduler: its call, or the task whose result it is, and how it ended.

Kept by its graph, which alone changes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import TypeVar

from scaler.ids import NO_ID, GraphId, ObjectId
from scaler.kit import ActorRef
from scaler.pickling.serialization import BLOCK_BYTES, WORTH_AN_OBJECT_BYTES
from scaler.wire.messages.client import GraphInput, GraphNode, TaskResult
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.vocabulary import failed_input_reason

SHARED_BYTES = 100_000
"""A result becomes an object if its consumers' copies exceed this together, and it has `WORTH_AN_OBJECT_BYTES`."""

_graph_id_of = attrgetter("graph_id")

_Item = TypeVar("_Item", GraphNode, GraphInput)


class GraphNodeState:
    """One node: its call and its state."""

    __slots__ = (
        "block", "dependencies", "frames", "function_id", "is_stored", "made_by", "needed_by", "object_ids", "payload",
        "profile", "size", "status", "task_id", "wanted",
    )  # fmt: skip

    def __init__(self, item: GraphNode) -> None:
        self.task_id = item.task_id
        self.function_id = item.function_id
        self.block = item.payload
        self.frames = item.frames
        self.object_ids = item.object_ids
        self.wanted = item.wanted
        self.dependencies: tuple[int, ...] = ()
        self.needed_by = 0
        self.made_by: ActorRef | None = None
        """the worker that made the result, if it is large enough to run consumers there"""
        self.is_stored = False
        self.status: int | None = None
        self.payload = b""
        self.size = 0
        self.profile = b""

    def result(self) -> TaskResult:
        """Return its result, as the client receives it."""
        assert self.status is not None
        return TaskResult(self.task_id, self.status, self.payload, self.size, self.profile)


def payload_for_dependents(node: GraphNodeState, status: int, payload: bytes) -> bytes:
    """Return the payload of nodes that end because they need a failed node: a sentence that names it."""
    if status in (TaskStatus.FAILED, TaskStatus.CANCELED):  # a failure names its task itself
        return payload
    return failed_input_reason(node.task_id, payload)


def input_node(item: GraphInput) -> GraphNodeState:
    """Return the node of a result that is not made in its graph."""
    return GraphNodeState(GraphNode(item.graph_id, item.task_id, ObjectId(NO_ID), b"", b"", b"", wanted=0))


def preferred_worker(nodes: Sequence[GraphNodeState], node: GraphNodeState) -> ActorRef | None:
    """Return the worker that made the largest result that a node needs, if that is worth a preference."""
    return max(map(nodes.__getitem__, node.dependencies), key=lambda each: each.size).made_by


def worth_storing(nodes: Sequence[GraphNodeState], node: GraphNodeState) -> list[GraphNodeState]:
    """Return the needed results to store as objects: shared ones, and the larger ones if all exceed one message."""
    values = [each for each in map(nodes.__getitem__, node.dependencies) if not each.is_stored]
    stored = [each for each in values if len(each.payload) * each.needed_by > SHARED_BYTES and _is_large(each)]
    rest = [each for each in values if each not in stored]
    sum_bytes = sum(len(each.payload) for each in rest)
    for each in sorted(rest, key=lambda value: len(value.payload), reverse=True):
        if sum_bytes <= BLOCK_BYTES or not _is_large(each):
            break
        sum_bytes -= len(each.payload)
        stored.append(each)
    return stored


def _is_large(node: GraphNodeState) -> bool:
    return len(node.payload) >= WORTH_AN_OBJECT_BYTES


def by_graph(batch: Batch[_Item]) -> dict[GraphId, Batch[_Item]]:
    """Return the items of each graph, in their order. Most batches are of one."""
    graph_ids = set(map(_graph_id_of, batch))
    if len(graph_ids) == 1:
        return {graph_ids.pop(): batch}
    items: dict[GraphId, Batch[_Item]] = {}
    for item in batch:
        items.setdefault(item.graph_id, type(batch)()).append(item)
    return items
