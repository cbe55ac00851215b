"""OpenGraphs: the graphs of a client that have not all their results.

Written to by `OpenWork` only, for which it keeps what must be said again on a new connection. Must never send.
"""

from __future__ import annotations

from collections.abc import Iterator

from scaler.client.calls.entry import GraphEntry, Sink
from scaler.ids import GraphId, TaskId
from scaler.wire.messages.common import ObjectInstruction


class OpenGraphs:
    """All open graphs of a client, in the order in which they were added."""

    def __init__(self) -> None:
        self._graphs: dict[GraphId, GraphEntry] = {}
        self._by_task: dict[TaskId, GraphEntry] = {}

    def __iter__(self) -> Iterator[GraphEntry]:
        return iter(self._graphs.values())

    def __len__(self) -> int:
        return len(self._graphs)

    def add(self, graph: GraphEntry) -> None:
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

    def remove(self, task_id: TaskId) -> GraphEntry | None:
        """Remove the graph of a task that has no result. Returns it; None if there is none."""
        graph = self._by_task.get(task_id)
        return None if graph is None else self.remove_graph(graph.spec.graph_id)

    def remove_graph(self, graph_id: GraphId) -> GraphEntry | None:
        """Remove a graph. Returns it; None if there is none."""
        graph = self._graphs.pop(graph_id, None)
        if graph is not None:
            for wanted in graph.sinks:
                del self._by_task[wanted]
        return graph
