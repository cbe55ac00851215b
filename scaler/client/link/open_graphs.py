"""OpenGraphs: the graphs of a client with open results.

Used by `OpenWork` only; keeps the graphs that must be sent again on a new connection. Must never send.
"""

from __future__ import annotations

from collections.abc import Iterator

from scaler.client.calls.entry import GraphEntry, Sink
from scaler.ids import GraphId, TaskId
from scaler.wire.messages.common import ObjectInstruction


class OpenGraphs:
    """All open graphs of a client, in the order in which they were added."""

    def __init__(self) -> None:
        self.by_id: dict[GraphId, GraphEntry] = {}
        """only to be looked at"""
        self._by_task: dict[TaskId, GraphEntry] = {}

    def __iter__(self) -> Iterator[GraphEntry]:
        return iter(self.by_id.values())

    def __len__(self) -> int:
        return len(self.by_id)

    def add(self, graph: GraphEntry) -> None:
        self.by_id[graph.spec.graph_id] = graph
        self._by_task.update(dict.fromkeys(graph.sinks, graph))

    def functions(self) -> Iterator[ObjectInstruction]:
        """Go through the functions of all graphs."""
        return (function for graph in self for function in graph.functions)

    def __contains__(self, call: object) -> bool:
        return isinstance(call, GraphEntry) and call.spec.graph_id in self.by_id

    def get(self, graph_id: GraphId) -> GraphEntry | None:
        """Return an open graph; None if there is no such one."""
        return self.by_id.get(graph_id)

    def of(self, task_id: TaskId) -> GraphEntry | None:
        """Return the graph of an open task; None if it is in none."""
        return self._by_task.get(task_id)

    def oldest(self) -> TaskId | None:
        """Return a task of the first graph whose result has not arrived."""
        return next((task_id for graph in self for task_id in graph.sinks), None)

    def pop(self, task_id: TaskId) -> tuple[GraphEntry, Sink] | None:
        """Return the graph and the sink of a result that has arrived; None if there is none."""
        graph = self._by_task.pop(task_id, None)
        if graph is None:
            return None
        sink = graph.sinks.pop(task_id)
        if not graph.sinks:
            del self.by_id[graph.spec.graph_id]
            graph.keepers = ()
        return graph, sink

    def remove(self, task_id: TaskId) -> GraphEntry | None:
        """Remove and return the graph of an open task; None if there is none."""
        graph = self._by_task.get(task_id)
        return None if graph is None else self.remove_graph(graph.spec.graph_id)

    def remove_graph(self, graph_id: GraphId) -> GraphEntry | None:
        """Remove and return a graph; None if it is unknown."""
        graph = self.by_id.pop(graph_id, None)
        if graph is not None:
            graph.keepers = ()
            for wanted in graph.sinks:
                del self._by_task[wanted]
        return graph
