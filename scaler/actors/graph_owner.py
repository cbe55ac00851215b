"""GraphOwner: the part of a client's session that is about the graphs of the client.

Written to by the edge (graphs, their nodes and inputs) and its graphs; sends to these and, through the outbox, to the
client. Between them stands what one graph needs of another, or of a task: `Awaited`.

Must never: start a task.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scaler.actors.awaited import Awaited
from scaler.actors.graph import GraphActor
from scaler.actors.graph_node import by_graph
from scaler.actors.home import Home
from scaler.actors.kit import ActorRef, handles
from scaler.actors.messages.tasks import CancelGraph, GraphEnded, GraphNodeDone, InputKnown, TaskDone
from scaler.actors.object_owner import ObjectOwner
from scaler.actors.said_again import SaidAgain
from scaler.ids import GraphId, ObjectId, TaskId
from scaler.wire.messages.client import GraphInput, GraphNode, GraphTask, GraphTaskCancel, TaskResult
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.common import ObjectRequest, TaskStatus


class GraphOwner(ObjectOwner):
    """One client, its objects and its graphs. The arguments are those of `ObjectOwner`."""

    _home: Home
    """of its tasks, from its start"""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._graphs: dict[GraphId, ActorRef] = {}
        self._again: SaidAgain | None = None
        """after its session began anew, until it has said all again"""
        self._awaited = Awaited()

    def _home_of(self, _account: int) -> Home:
        """Return the home of tasks with an account. A root client always has its own, whatever its tasks name."""
        return self._home

    # From the client

    @handles(Batch[GraphTask])
    def _announce(self, batch: Batch[GraphTask]) -> None:
        for spec in batch:
            graph = self._graphs.get(spec.graph_id)
            if graph is not None and not graph.is_stopped():
                graph.send(spec)  # it was sent again after a cut
            elif self._again is not None and spec.node_count:
                self._again.announce(spec)
            else:
                self._start_graph(spec)

    def _start_graph(self, spec: GraphTask) -> ActorRef:
        graph = self._graphs[spec.graph_id] = self.spawn(GraphActor(spec, self._home_of(spec.account)))
        return graph

    @handles(Batch[GraphNode])
    def _hear_nodes(self, batch: Batch[GraphNode]) -> None:
        for graph_id, nodes in by_graph(batch).items():
            graph = self._open_graph(graph_id)
            if graph is not None:
                graph.send(nodes)
            elif self._again is not None and self._again.has_graph(graph_id):
                whole = self._again.hear(graph_id, nodes)
                if whole is not None:
                    self._start_whole(*whole)
            else:
                self._refuse(nodes)

    def _start_whole(self, spec: GraphTask, inputs: Batch[GraphInput], nodes: Batch[GraphNode]) -> None:
        graph = self._start_graph(spec)
        if inputs:
            graph.send(inputs)
        graph.send(nodes)

    def _open_graph(self, graph_id: GraphId) -> ActorRef | None:
        graph = self._graphs.get(graph_id)
        return None if graph is None or graph.is_stopped() else graph

    @handles(Batch[GraphInput])
    def _hear_inputs(self, batch: Batch[GraphInput]) -> None:
        for graph_id, inputs in by_graph(batch).items():
            graph = self._open_graph(graph_id)
            if graph is not None:
                graph.send(inputs)
            elif self._again is not None and self._again.has_graph(graph_id):
                self._again.hear_inputs(graph_id, inputs)

    def _refuse(self, nodes: Sequence[GraphNode]) -> None:
        """The rest of a graph that has failed here, or was never announced."""
        for node in nodes:
            if node.wanted:
                sentence = b"the scheduler does not know the graph of this task"
                self._outbox.put(self._peer, TaskResult(node.task_id, TaskStatus.NOT_FOUND, sentence, 0))

    @handles(Batch[GraphTaskCancel])
    def _cancel_graphs(self, batch: Batch[GraphTaskCancel]) -> None:
        for cancel in batch:
            graph = self._graphs.get(cancel.graph_id)
            if graph is not None:  # else its last result is on the way
                graph.send(CancelGraph())
            if self._again is not None:
                self._again.forget(cancel.graph_id)

    # From its graphs

    @handles(GraphNodeDone)
    def _node_done(self, done: GraphNodeDone) -> None:
        if done.frames:
            self._store_result(done.result, done.frames)
        if self._again is not None:
            self._again.tell(done.result.task_id)
        if self._awaited:
            self._awaited.tell(done.graph_id, TaskDone(done.result, done.frames, done.worker))
        self._outbox.put(self._peer, done.result)

    @handles(GraphEnded)
    def _graph_ended(self, ended: GraphEnded) -> None:
        if self._awaited:
            for task_id in self._awaited.take_of(ended.graph_id):
                self._ask_for_result(task_id)
        if self._graphs.get(ended.graph_id) is ended.graph:
            del self._graphs[ended.graph_id]

    @handles(InputKnown)
    def _input_known(self, known: InputKnown) -> None:
        self._awaited.tell(known.source, known.done)

    def _ask_for_result(self, task_id: TaskId) -> None:
        """Its result is on its way to the client, and is not here any more."""
        self._outbox.put(self._peer, ObjectRequest(ObjectId(task_id), 1))
