"""AwaitedTasks: which graphs of a client wait for the results of its tasks, or of nodes of its other graphs.

Owned by the client session, which reports the end of tasks and nodes.
"""

from __future__ import annotations

from collections.abc import Iterable

from scaler.actors.messages.tasks import AwaitResult, TaskDone
from scaler.ids import NO_ID, GraphId, TaskId
from scaler.kit import ActorRef

NO_GRAPH = GraphId(NO_ID)
"""of a task that is no node of a graph"""


class AwaitedTasks:
    """The open tasks for which graphs wait, and these graphs."""

    def __init__(self) -> None:
        self._graphs: dict[TaskId, list[ActorRef]] = {}
        self._by_source: dict[GraphId, dict[TaskId, None]] = {}

    def __bool__(self) -> bool:
        return bool(self._graphs)

    def add(self, request: AwaitResult) -> None:
        task_id = request.input.task_id
        self._graphs.setdefault(task_id, []).append(request.graph)
        self._by_source.setdefault(request.input.source_graph, {})[task_id] = None

    def tell(self, source: GraphId, done: TaskDone) -> None:
        """Report the end of a task to the graphs that wait for it."""
        task_id = done.result.task_id
        for graph in self._graphs.pop(task_id, ()):
            graph.send(done)
        of_source = self._by_source.get(source)
        if of_source is not None:
            of_source.pop(task_id, None)
            if not of_source:
                del self._by_source[source]

    def take_of(self, source: GraphId) -> Iterable[TaskId]:
        """Remove an ended graph. Return its awaited nodes whose end was not reported."""
        left = self._by_source.pop(source, {})
        for task_id in left:
            del self._graphs[task_id]
        return left
