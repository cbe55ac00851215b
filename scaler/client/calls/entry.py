"""Entry: a call that is ready to be sent, and the sink that receives the result of the call.

Made by functions and graphs; kept by the open work until the result arrives. The link's thread calls the sinks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol, TypeAlias

from scaler.client.calls.inputs import Input, Keys
from scaler.client.object_reference import ObjectReference
from scaler.graph.readiness import positions
from scaler.ids import NO_ID, PREFIX_BYTES, GraphId, ObjectId, TaskId, index_of, split_ids
from scaler.pickling.serialization import Frames
from scaler.wire.messages.client import GraphNode, GraphTask, Task, TaskResult
from scaler.wire.messages.common import ObjectInstruction


def node_id(graph_id: GraphId, index: int) -> TaskId:
    """Return the id of a node's task."""
    return TaskId(graph_id[:PREFIX_BYTES] + index.to_bytes(8, "big"))


MakeError: TypeAlias = Callable[[], BaseException]
"""Makes the error of one future. Futures do not share errors: several threads must not raise one exception object."""


class Sink(Protocol):
    """A receiver of the results of tasks: a future or a map. Called by the link's thread: must not block.

    For each task, exactly one of `deliver`, `refuse`, `store` and `fail` is called, once.
    """

    @property
    def deliver(self) -> Callable[[TaskResult], None]:
        """Receive a result whose value is in the payload."""

    def refuse(self, result: TaskResult) -> None:
        """Receive a result without a value. The status of the result says why."""

    def store(self, result: TaskResult) -> None:
        """Receive the report of a large result that stays with the scheduler until it is fetched."""

    def fail(self, make_error: MakeError) -> None:
        """Receive an error instead of a result."""

    def notify(self) -> None:
        """Wake the threads that wait, because all results of a message have been handled."""


class ResultReceiver(Sink, Protocol):
    """A receiver of a large result; also a sink, if the task runs again. The link's thread calls it: must not block."""

    def receive_frames(self, object_id: ObjectId, frames: Frames | None) -> None:
        """Receive the frames of the result; None if the result is no longer stored."""


class ResultFetcher(Protocol):
    """The part of a link that fetches large results."""

    def fetch(self, object_id: ObjectId, receiver: ResultReceiver, keep: bool = False) -> None:
        """Request a large result. With `keep`, the scheduler keeps the result until its future is garbage-collected."""


Entry: TypeAlias = tuple[Task, Sink, ObjectInstruction, Sequence[ObjectInstruction], Sequence[ObjectReference]]
"""A task, the sink of its result, its function, the objects made for it, and the references that the entry keeps alive.

A plain tuple, because each mapped task has an entry.
"""


class GraphEntry:
    """A graph and the sinks of its results.

    Args:
        spec: the message item that announces the graph.
        nodes: all needed nodes, each after its dependencies.
        references: the references that the graph keeps alive.
        inputs: the results of other tasks that the graph needs. They are its first nodes, in this order.
        keys: the key of each node in the user's graph, by the index that is part of the node's id.
    """

    __slots__ = ("functions", "inputs", "keepers", "keys", "nodes", "objects", "references", "sinks", "spec")

    def __init__(
        self,
        spec: GraphTask,
        nodes: Sequence[GraphNode],
        functions: Sequence[ObjectInstruction],
        objects: Sequence[ObjectInstruction],
        references: Sequence[ObjectReference],
        inputs: Sequence[Input] = (),
        keys: Keys = (),
    ) -> None:
        self.spec = spec
        self.nodes = nodes
        self.functions = functions
        self.objects = objects
        self.references = references
        self.inputs = inputs
        self.keys = keys
        self.keepers: Sequence[object] = ()
        """the futures of the inputs, whose large results stay with the scheduler while the graph is open"""
        self.sinks: dict[TaskId, Sink] = {}
        """task id of a wanted node whose result has not arrived -> the sink of that result"""

    def fail(self, make_error: MakeError) -> None:
        """Fail all sinks whose results have not arrived."""
        sinks, self.sinks = self.sinks, {}
        for sink in sinks.values():
            sink.fail(make_error)

    def position_of(self, task_id: TaskId) -> int:
        """Return the position of the node with this task id. The inputs of the graph come first."""
        nodes, index = self.nodes, index_of(task_id)
        if index >= len(nodes) or nodes[index].task_id != task_id:  # its id was made differently
            index = next(index for index, node in enumerate(nodes) if node.task_id == task_id)
        return len(self.inputs) + index

    def needs_of(self, index: int, graph_id: GraphId) -> GraphEntry:
        """Return a new graph of the calls whose results the node at position `index` needs. It has no sinks.

        Works only if this `GraphEntry` has no inputs.
        """
        direct = set(positions(self.nodes[index].dependencies))
        needed, nodes = set(direct), list[GraphNode]()
        for at in range(index - 1, -1, -1):
            node = self.nodes[at]
            node = replace(node, graph_id=graph_id, task_id=node_id(graph_id, index_of(node.task_id)))
            if at in needed:
                needed.update(positions(node.dependencies))
                nodes.append(replace(node, wanted=int(at in direct)))
            else:
                nodes.append(_ended(replace(node, object_ids=b"")))
        nodes.reverse()
        used = {object_id for node in nodes for object_id in split_ids(node.object_ids)}
        functions = {node.function_id for node in nodes}
        return GraphEntry(
            replace(self.spec, graph_id=graph_id, node_count=len(nodes)),
            nodes,
            [each for each in self.functions if each.object_id in functions],
            [each for each in self.objects if each.object_id in used],
            self.references,
            keys=self.keys,
        )

    def nodes_to_send(self) -> Sequence[GraphNode]:
        """Return the nodes for a submission. A node that has a result runs again only if a missing result depends on
        it.
        """
        sinks = self.sinks
        if all(node.task_id in sinks for node in self.nodes if node.wanted):
            return self.nodes
        sent: list[GraphNode] = []
        needed: set[int] = set()
        position = len(self.inputs) + len(self.nodes)
        for node in reversed(self.nodes):
            position -= 1
            is_wanted = node.task_id in sinks
            if is_wanted or position in needed:
                needed.update(positions(node.dependencies))
                sent.append(node if is_wanted or not node.wanted else _unwanted(node))
            else:
                sent.append(_ended(node))
        sent.reverse()
        return sent


Call: TypeAlias = tuple[Task, ObjectInstruction, Sequence[ObjectInstruction], Sequence[ObjectReference]] | GraphEntry
"""A call without its sinks, which would keep futures alive: a task with its function, objects and references, or a
graph.
"""


def call_of(open_call: Entry | tuple[GraphEntry, Sink]) -> Call:
    """Return an open call without its sink."""
    call: Any = open_call[0] if isinstance(open_call[0], GraphEntry) else (open_call[0], *open_call[2:])
    return call  # type: ignore[no-any-return]


class FailedWork(NamedTuple):
    """The result and the call of a task that failed; the future keeps them for `rerun`."""

    result: TaskResult
    call: Call


def _unwanted(node: GraphNode) -> GraphNode:
    return replace(node, wanted=0)


def _ended(node: GraphNode) -> GraphNode:
    """Return a node that has the id and the objects of `node`, and does not run."""
    return GraphNode(node.graph_id, node.task_id, ObjectId(NO_ID), b"", node.object_ids, b"", wanted=0)
