"""ClientGraphs: the open graphs of one client. All nodes of an open graph count for its owner.

Owned by the client session.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from scaler.actors.graphs.graph_node import by_graph
from scaler.actors.graphs.graph_values import TAKEN
from scaler.actors.messages.tasks import CancelGraph
from scaler.actors.sessions.client_objects import FOREIGN, ClientObjects
from scaler.actors.vocabulary.owners import Owner
from scaler.ids import GraphId, TaskId
from scaler.kit import ActorRef
from scaler.wire.messages.client import GraphInput, GraphNode, GraphTask, GraphTaskCancel, InputKnowledge, TaskResult
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.common import TaskStatus

REFUSED_MOST = 1024
"""The most refused graphs that are remembered, each with the reason. The oldest are forgotten first."""

WITHOUT_NODES_MOST = 65_536
"""The most announced graphs of a client that may have no nodes yet. The nodes follow the announcement soon."""


class ClientGraphs:
    """The open graphs of one client, by id."""

    def __init__(
        self,
        owner: Owner,
        start_actor: Callable[[GraphTask], ActorRef],
        put: Callable[[Any], None],
        audit: Callable[[str, str], None],
        objects: ClientObjects,
    ) -> None:
        self._owner, self._start_actor, self._put, self._audit, self._objects = owner, start_actor, put, audit, objects
        self._graphs: dict[GraphId, ActorRef] = {}
        self._sizes: dict[GraphId, int] = {}
        self._refused: OrderedDict[GraphId, tuple[TaskStatus, str] | None] = OrderedDict()
        """why late nodes of a graph are refused; None: they are dropped, since the client submits the graph again"""
        self._without_nodes: set[GraphId] = set()
        self.known: set[TaskId] | None = None
        """in a new session, the tasks that the client need not resubmit; None: it has resubmitted everything"""
        self._resubmitted: dict[GraphId, tuple[GraphTask, Batch[GraphInput], Batch[GraphNode]]] = {}
        """resubmitted graphs that are not open: such a graph starts when all of it has arrived, unless it has ended"""

    def __len__(self) -> int:
        return len(self._graphs)

    def __iter__(self) -> Iterator[ActorRef]:
        return iter(self._graphs.values())

    def get(self, graph_id: GraphId) -> ActorRef | None:
        """Return the actor of a graph, or None if the graph is unknown or has ended."""
        graph = self._graphs.get(graph_id)
        return None if graph is None or graph.is_stopped() else graph

    def id_of(self, graph: ActorRef) -> GraphId | None:
        """Return the id of a graph, or None if the graph is unknown."""
        return next((graph_id for graph_id, known in self._graphs.items() if known is graph), None)

    def announce(self, batch: Sequence[GraphTask]) -> None:
        """Add announced graphs, whose nodes arrive later."""
        for spec in batch:
            graph = self.get(spec.graph_id)
            if graph is not None:
                graph.send(spec)  # resent after a lost connection
                continue
            if len(self._without_nodes) >= WITHOUT_NODES_MOST:
                continue  # if its nodes arrive, they are refused
            self._without_nodes.add(spec.graph_id)
            if spec.node_count > self._owner.room():
                # A graph is accepted as a whole, or not at all.
                why = f"{self._owner.why_full()}; its graph has {spec.node_count:,} nodes: submit it again later"
                self._audit("over quota", why)
                self._remember_refusal(spec.graph_id, (TaskStatus.NO_WORKER, why))
            elif self.known is not None and spec.node_count:
                self._resubmitted[spec.graph_id] = spec, Batch[GraphInput](), Batch[GraphNode]()
            else:
                self._start(spec)

    def _start(self, spec: GraphTask) -> ActorRef:
        self._refused.pop(spec.graph_id, None)
        graph = self._graphs[spec.graph_id] = self._start_actor(spec)
        self._sizes[spec.graph_id] = spec.node_count
        self._owner.tasks += spec.node_count
        return graph

    def add_nodes(self, batch: Batch[GraphNode]) -> None:
        """Pass nodes to their graphs, or refuse them."""
        is_stored = self._objects.is_stored
        for graph_id, nodes in by_graph(batch).items():
            self._without_nodes.discard(graph_id)
            graph = self.get(graph_id)
            suspects = (node for node in nodes if node.object_ids or is_stored(node.task_id))
            why = next(filter(None, map(self._why_not, suspects)), "")
            if why:
                self._remember_refusal(graph_id, (TaskStatus.MISSING_OBJECTS, why))
                self._refuse(nodes)
                if graph is not None:
                    graph.send(CancelGraph())
            elif graph is not None:
                graph.send(nodes)
            elif graph_id in self._resubmitted:
                self._add_resubmitted(graph_id, nodes)
            else:
                self._refuse(nodes)

    def _add_resubmitted(self, graph_id: GraphId, nodes: Iterable[GraphNode]) -> None:
        """Add nodes of a resubmitted graph. Once all have arrived, start it, unless all its results are known."""
        spec, inputs, known = self._resubmitted[graph_id]
        known.extend(nodes)
        if len(inputs) + len(known) < spec.node_count:
            return
        del self._resubmitted[graph_id]
        missing = [node.task_id for node in known if node.wanted and node.task_id not in (self.known or ())]
        results = list(map(self._objects.result_of, missing))
        if None not in results:
            for result in results:
                self._put(result)
            return
        graph = self._start(spec)
        for part in filter(None, (inputs, known)):
            graph.send(part)

    @property
    def has_resubmitted(self) -> bool:
        """Whether parts of a resubmitted graph have not arrived."""
        return bool(self._resubmitted)

    def _why_not(self, node: GraphNode) -> str:
        """Return why a node may not run; empty if the node may run."""
        if node.object_ids and self._objects.is_foreign(node.object_ids):
            return FOREIGN
        return TAKEN if self._objects.is_of_another(node.task_id) else ""

    def add_inputs(self, batch: Batch[GraphInput]) -> None:
        """Pass inputs to their graphs. An input is a result of another task that the graph uses."""
        for graph_id, said in by_graph(batch).items():
            graph, inputs = self.get(graph_id), Batch[GraphInput](map(self._readable, said))
            if graph is not None:
                graph.send(inputs)
            elif graph_id in self._resubmitted:
                self._resubmitted[graph_id][1].extend(inputs)

    def _readable(self, item: GraphInput) -> GraphInput:
        """Return an input, marked as failed if it is an object that the client may not read."""
        if item.known != InputKnowledge.STORED or not self._objects.is_foreign(item.task_id):
            return item
        return replace(item, known=InputKnowledge.HERE, payload=FOREIGN.encode(), status=TaskStatus.MISSING_OBJECTS)

    def _remember_refusal(self, graph_id: GraphId, refusal: tuple[TaskStatus, str] | None) -> None:
        self._refused[graph_id] = refusal
        if len(self._refused) > REFUSED_MOST:
            self._refused.popitem(last=False)

    def _refuse(self, nodes: Sequence[GraphNode]) -> None:
        """Refuse nodes whose graph has failed, exceeded the quota, or was never announced."""
        unknown = TaskStatus.NOT_FOUND, "the scheduler does not know the graph of this task"
        for node in nodes:
            refusal = self._refused.get(node.graph_id, unknown)
            if node.wanted and refusal is not None:
                status, sentence = refusal
                self._put(TaskResult(node.task_id, status, sentence.encode(), 0))

    def cancel(self, batch: Sequence[GraphTaskCancel]) -> None:
        """Cancel graphs."""
        for cancel in batch:
            graph = self._graphs.get(cancel.graph_id)
            if graph is not None:  # else its last result has been sent
                graph.send(CancelGraph())
            elif self._resubmitted.pop(cancel.graph_id, None) is not None:
                self._without_nodes.discard(cancel.graph_id)

    def end(self, graph_id: GraphId, graph: ActorRef) -> bool:
        """Remove a graph that has ended. Return False if it had been removed before."""
        if self._graphs.get(graph_id) is not graph:
            return False
        del self._graphs[graph_id]
        self._without_nodes.discard(graph_id)
        self._owner.end(self._sizes.pop(graph_id))
        return True

    def lose(self, graph_id: GraphId) -> None:
        """Note that a graph has ended because an input is lost. Its client is notified, and submits the graph again."""
        self._remember_refusal(graph_id, None)

    def check(self) -> None:
        """Assert that each open graph counts for its owner, and that a resubmitted one is not open."""
        assert self._sizes.keys() == self._graphs.keys()
        assert not self._resubmitted.keys() & self._graphs.keys(), "a resubmitted graph is open"

    def take_all(self) -> list[ActorRef]:
        """Remove and return all graphs."""
        graphs = list(self._graphs.values())
        self._owner.end(sum(self._sizes.values()))
        self._graphs, self._sizes = {}, {}
        return graphs
