"""Resubmission: what a client submits again after its session was reset, so that no ended task runs twice.

Owned by the client session, until its client has resubmitted everything.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import Any

from scaler.ids import GraphId, ObjectId, TaskId
from scaler.wire.messages.client import ClientHeartbeat, GraphInput, GraphNode, GraphTask, Task, TaskResult
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.common import LOST, ObjectResponse, TaskStatus
from scaler.wire.messages.rows import row_ids


class EitherLookup:
    """The union of several containers of task ids."""

    def __init__(self, *places: Container[TaskId]) -> None:
        self._places = places

    def __contains__(self, task_id: object) -> bool:
        return any(task_id in place for place in self._places)


class Resubmission:
    """The calls that a client resubmits, some of which may have ended.

    Args:
        open_tasks: the tasks that were open when the session was reset.
        said: what the client has received in the new session.
        most: the most ended tasks that are remembered.
    """

    def __init__(self, open_tasks: Iterable[TaskId], said: Iterable[Any], most: int) -> None:
        self._told: set[TaskId] = set()
        self._tasks = set(open_tasks)
        self._heard: set[TaskId] = set()
        """tasks that were resubmitted once; a task that is submitted once more has lost its result, and must run"""
        for item in said:
            if len(self._told) >= most:
                break
            if type(item) is TaskResult and item.status != TaskStatus.NOT_FOUND:  # else it is to run now
                ended = row_ids(item.task_id, item.rows)
                self._told.update(ended)
                self._tasks.update(ended)
            elif type(item) is ObjectResponse and item.found == LOST:
                self.lose(item.object_id)
        self._graphs: dict[GraphId, tuple[GraphTask, Batch[GraphInput], Batch[GraphNode]]] = {}
        """unknown graphs: a graph whose nodes have all arrived runs, unless all of its results are on their way"""

    def is_over(self, heartbeat: ClientHeartbeat, arriving_bytes: int) -> bool:
        """Return whether all was resubmitted. `arriving_bytes`: the arrived bytes of a message that is incomplete."""
        return not (heartbeat.has_unsaid or arriving_bytes or self._graphs)

    def still_to_run(self, batch: Sequence[Task], open_tasks: Container[TaskId]) -> Sequence[Task]:
        """Return the tasks that have not ended, and the ended tasks that the client submits once more."""
        known, heard = self._tasks, self._heard
        left_out = {each.task_id for each in batch if each.task_id in known and each.task_id not in heard}
        heard |= left_out
        return [spec for spec in batch if spec.task_id not in left_out or spec.task_id in open_tasks]

    def knows_any(self, task_ids: Iterable[TaskId]) -> bool:
        """Return whether any of these tasks was open, or had ended, when the session was reset."""
        return not self._tasks.isdisjoint(task_ids)

    def lose(self, object_id: ObjectId) -> None:
        """Forget a large result whose loss was reported to the client, which may submit its task again."""
        self._told.discard(TaskId(object_id))
        self._tasks.discard(TaskId(object_id))

    def tell(self, task_id: TaskId) -> None:
        """Note that the result of a node was sent to the client."""
        self._told.add(task_id)

    def announce(self, spec: GraphTask) -> None:
        """Add a graph that has nodes, and is unknown or has ended."""
        self._graphs[spec.graph_id] = spec, Batch[GraphInput](), Batch[GraphNode]()

    def has_graph(self, graph_id: GraphId) -> bool:
        """Return whether a graph was announced here, and not all of its nodes have arrived."""
        return graph_id in self._graphs

    def add_inputs(self, graph_id: GraphId, inputs: Iterable[GraphInput]) -> None:
        """Add inputs of a graph, which arrive before its nodes."""
        self._graphs[graph_id][1].extend(inputs)

    def add_nodes(
        self, graph_id: GraphId, nodes: Iterable[GraphNode]
    ) -> tuple[GraphTask, Batch[GraphInput], Batch[GraphNode]] | None:
        """Add nodes of a graph. Return the whole graph if it must run."""
        spec, inputs, heard = self._graphs[graph_id]
        heard.extend(nodes)
        if len(inputs) + len(heard) < spec.node_count:
            return None
        del self._graphs[graph_id]
        return None if all(node.task_id in self._told for node in heard if node.wanted) else (spec, inputs, heard)

    def forget(self, graph_id: GraphId) -> None:
        """Remove a cancelled graph."""
        self._graphs.pop(graph_id, None)
