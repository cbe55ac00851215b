"""OpenGraphs: the graphs of a client that have not all their results.

Written to by `OpenWork` only, for which it keeps what must be said again on a new connection. Must never send.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from scaler.client.object_reference import ObjectReference
from scaler.ids import GraphId, TaskId
from scaler.wire.messages.client import GraphNode, GraphTask
from scaler.wire.messages.common import ObjectInstruction

if TYPE_CHECKING:
    from scaler.client.link.open_work import MakeError, Sink


class OpenGraph:
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


class OpenGraphs:
    """All open graphs of a client, in the order in which they were added."""

    def __init__(self) -> None:
        self._graphs: dict[GraphId, OpenGraph] = {}
        self._by_task: dict[TaskId, OpenGraph] = {}

    def __iter__(self) -> Iterator[OpenGraph]:
        return iter(self._graphs.values())

    def __len__(self) -> int:
        return len(self._graphs)

    def add(self, graph: OpenGraph) -> None:
        self._graphs[graph.spec.graph_id] = graph
        self._by_task.update(dict.fromkeys(graph.sinks, graph))

    def functions(self) -> Iterator[ObjectInstruction]:
        """Go through the functions of all graphs."""
        return (function for graph in self for function in graph.functions)

    def pop_sink(self, task_id: TaskId) -> Sink | None:
        """Return where the result of a task goes, which has come; None if nobody waits for it."""
        graph = self._by_task.pop(task_id, None)
        if graph is None:
            return None
        sink = graph.sinks.pop(task_id)
        if not graph.sinks:
            del self._graphs[graph.spec.graph_id]
        return sink

    def remove(self, task_id: TaskId) -> OpenGraph | None:
        """Remove the graph of a task that has no result. Returns it; None if there is none."""
        graph = self._by_task.get(task_id)
        return None if graph is None else self.remove_graph(graph.spec.graph_id)

    def remove_graph(self, graph_id: GraphId) -> OpenGraph | None:
        """Remove a graph. Returns it; None if there is none."""
        graph = self._graphs.pop(graph_id, None)
        if graph is not None:
            for wanted in graph.sinks:
                del self._by_task[wanted]
        return graph
