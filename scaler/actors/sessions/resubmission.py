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
    """What is in one of two places."""

    def __init__(self, *places: Container[TaskId]) -> None:
        self._places = places

    def __contains__(self, task_id: object) -> bool:
        return any(task_id in place for place in self._places)


class Resubmission:
    """The calls that a client says again, of which some may have ended.

    Args:
        open_tasks: those that were open when its session began anew.
        said: what it was told in the new session.
        most: how many tasks it may have; of results beyond these, it is not known that their tasks have ended.
    """

    def __init__(self, open_tasks: Iterable[TaskId], said: Iterable[Any], most: int) -> None:
        self._told: set[TaskId] = set()
        self._tasks = set(open_tasks)
        self._heard: set[TaskId] = set()
        """what was said again: if it comes once more it is to run, since its result is lost"""
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
        """unknown ones: when all nodes are there, it is known whether their results are on their way"""

    def is_over(self, heartbeat: ClientHeartbeat, arriving_bytes: int) -> bool:
        """Return whether all that is said again has come before a heartbeat.

        Args:
            arriving_bytes: of a large message that has come in part.
        """
        return not (heartbeat.has_unsaid or arriving_bytes or self._graphs)

    def still_to_run(self, batch: Sequence[Task], open_tasks: Container[TaskId]) -> Sequence[Task]:
        """Leave out what was open and has ended."""
        known, heard = self._tasks, self._heard
        left_out = {each.task_id for each in batch if each.task_id in known and each.task_id not in heard}
        heard |= left_out
        return [spec for spec in batch if spec.task_id not in left_out or spec.task_id in open_tasks]

    def knows_any(self, task_ids: Iterable[TaskId]) -> bool:
        """Return whether any of these tasks was open, or has ended, when the session began anew."""
        return not self._tasks.isdisjoint(task_ids)

    def lose(self, object_id: ObjectId) -> None:
        """The client is told that a large result is lost, and may want it made again."""
        self._told.discard(TaskId(object_id))
        self._tasks.discard(TaskId(object_id))

    def tell(self, task_id: TaskId) -> None:
        """Note that the client is told the result of a node."""
        self._told.add(task_id)

    def announce(self, spec: GraphTask) -> None:
        """Take a graph that is unknown, or has ended. It has nodes."""
        self._graphs[spec.graph_id] = spec, Batch[GraphInput](), Batch[GraphNode]()

    def has_graph(self, graph_id: GraphId) -> bool:
        """Return whether the nodes of a graph belong here."""
        return graph_id in self._graphs

    def add_inputs(self, graph_id: GraphId, inputs: Iterable[GraphInput]) -> None:
        """Take inputs of a graph, which come before its nodes."""
        self._graphs[graph_id][1].extend(inputs)

    def add_nodes(
        self, graph_id: GraphId, nodes: Iterable[GraphNode]
    ) -> tuple[GraphTask, Batch[GraphInput], Batch[GraphNode]] | None:
        """Take nodes of a graph. Return the whole graph if it is to run."""
        spec, inputs, heard = self._graphs[graph_id]
        heard.extend(nodes)
        if len(inputs) + len(heard) < spec.node_count:
            return None
        del self._graphs[graph_id]
        return None if all(node.task_id in self._told for node in heard if node.wanted) else (spec, inputs, heard)

    def forget(self, graph_id: GraphId) -> None:
        """A graph is cancelled."""
        self._graphs.pop(graph_id, None)
