"""Nodes of graphs, decoded from their messages."""

from __future__ import annotations

from scaler.actors.graphs.graph_node import by_graph
from scaler.ids import GraphId, ObjectId, TaskId
from scaler.wire.messages.client import GraphNode
from scaler.wire.messages.columns import Batch

ONE, OTHER = GraphId(b"1" * 16), GraphId(b"2" * 16)


def node(graph_id: GraphId, number: int) -> GraphNode:
    return GraphNode(graph_id, TaskId(number.to_bytes(16, "big")), ObjectId(b"f" * 16), b"", b"", b"", wanted=0)


def test_a_message_with_nodes_of_several_graphs_is_divided_and_keeps_their_order() -> None:
    nodes = [node(ONE, 0), node(OTHER, 1), node(ONE, 2), node(OTHER, 3)]
    parts = by_graph(Batch[GraphNode](nodes))
    assert parts == {ONE: [nodes[0], nodes[2]], OTHER: [nodes[1], nodes[3]]}
    assert {type(part) for part in parts.values()} == {Batch[GraphNode]}


def test_a_message_with_nodes_of_one_graph_is_passed_on_unchanged() -> None:
    batch = Batch[GraphNode]([node(ONE, 0), node(ONE, 1)])
    assert by_graph(batch)[ONE] is batch
