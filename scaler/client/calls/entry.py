"""Entry: a call made ready to be sent, and what its result is for.

Made by functions and graphs, for the client's open work, which keeps it until its result has come. A sink is called by
whoever reads what the scheduler says: the link's thread. Must never: know who sends it, or how.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from scaler.client.object_reference import ObjectReference
from scaler.ids import ObjectId, TaskId
from scaler.serialization import Frames
from scaler.wire.messages.client import GraphNode, GraphTask, Task, TaskResult
from scaler.wire.messages.common import ObjectInstruction

MakeError: TypeAlias = Callable[[], BaseException]
"""Makes the error of one future: an exception that is raised in several threads must not be one object."""


class Receiver(Protocol):
    """Waits for an object that was requested. Called by the link's thread: must not block."""

    def receive_frames(self, object_id: ObjectId, frames: Frames | None) -> None:
        """Here they are, or the object is not stored any more (None)."""

    def fail(self, make_error: MakeError) -> None:
        """They will not come."""


class Sink(Protocol):
    """Where the results of tasks go: a future or a map. Called by the link's thread: must not block.

    Each task ends with exactly one of `deliver`, `refuse`, `store` and `fail`.
    """

    @property
    def deliver(self) -> Callable[[TaskResult], None]:
        """The result is in the payload."""

    def refuse(self, result: TaskResult) -> None:
        """There is no result: the status says why."""

    def store(self, result: TaskResult) -> None:
        """The result is large and stays with the scheduler until it is fetched."""

    def fail(self, make_error: MakeError) -> None:
        """There will be no answer."""

    def notify(self) -> None:
        """That was all for now: a good time to wake a thread."""


Entry: TypeAlias = tuple[Task, Sink, ObjectInstruction, Sequence[ObjectInstruction], Sequence[ObjectReference]]
"""A task, where its result goes, its function, the objects made for it, and the references that must live as long as
it.

A plain tuple: one is made for each mapped task.
"""


class GraphEntry:
    """A graph and where its results go.

    Args:
        spec: what announces it.
        nodes: all nodes that are needed, each after those that it depends on.
        functions: those of its nodes.
        objects: those made for it.
        references: those that must live as long as it.
    """

    __slots__ = ("functions", "nodes", "objects", "references", "sinks", "spec")

    def __init__(
        self,
        spec: GraphTask,
        nodes: Sequence[GraphNode],
        functions: Sequence[ObjectInstruction],
        objects: Sequence[ObjectInstruction],
        references: Sequence[ObjectReference],
    ) -> None:
        self.spec = spec
        self.nodes = nodes
        self.functions = functions
        self.objects = objects
        self.references = references
        self.sinks: dict[TaskId, Sink] = {}
        """where the results go that have not come"""

    def fail(self, make_error: MakeError) -> None:
        """There will be no more results."""
        sinks, self.sinks = self.sinks, {}
        for sink in sinks.values():
            sink.fail(make_error)

    def nodes_to_say(self) -> list[GraphNode]:
        """Return the nodes; of those that are wanted, only the ones without a result are still marked so."""
        return [node if not node.wanted or node.task_id in self.sinks else _unwanted(node) for node in self.nodes]


def _unwanted(node: GraphNode) -> GraphNode:
    return GraphNode(
        node.graph_id, node.task_id, node.function_id, node.payload, node.object_ids, node.dependencies, wanted=0
    )
