from __future__ import annotations

from typing import Any

import pytest

from scaler.client.calls.entry import GraphEntry
from scaler.ids import NO_ID, GraphId, ObjectId, TaskId
from scaler.wire.messages.client import GraphNode, GraphTask


class Sink:
    def __init__(self) -> None:
        self.errors: list[BaseException] = []

    def fail(self, make_error: Any) -> None:
        self.errors.append(make_error())


def node(number: int, wanted: int, *needs: int) -> GraphNode:
    dependencies = b"".join(each.to_bytes(4, "little") for each in needs)
    ids = GraphId(b"g" * 16), TaskId(bytes([number]) * 16), ObjectId(b"f" * 16)
    return GraphNode(*ids, b"a", b"o", dependencies, wanted)


def ended(number: int) -> GraphNode:
    return GraphNode(GraphId(b"g" * 16), TaskId(bytes([number]) * 16), ObjectId(NO_ID), b"", b"o", b"", 0)


def entry(*sinks: Any) -> GraphEntry:
    """Return a graph with one node for each sink; a node without a sink (None) is not requested."""
    nodes = [node(number, int(sink is not None)) for number, sink in enumerate(sinks)]
    made = GraphEntry(GraphTask(GraphId(b"g" * 16), len(nodes)), nodes, (), (), ())
    made.sinks = {each.task_id: sink for each, sink in zip(nodes, sinks, strict=True) if sink is not None}
    return made


@pytest.mark.parametrize("n_inputs", [0, 2])
def test_a_resubmitted_graph_requests_missing_results_and_runs_only_nodes_they_need(n_inputs: int) -> None:
    def at(*places: int) -> tuple[int, ...]:
        return tuple(n_inputs + place for place in places)

    nodes = [node(0, 0), node(1, 1, *at(0)), node(2, 0, *range(n_inputs)), node(3, 1, *at(1)), node(4, 1, *at(2))]
    inputs: list[Any] = [object()] * n_inputs
    graph = GraphEntry(GraphTask(GraphId(b"g" * 16), n_inputs + len(nodes)), nodes, (), (), (), inputs)
    graph.sinks = {nodes[place].task_id: Sink() for place in (1, 3, 4)}  # type: ignore[misc]
    assert graph.nodes_to_send() == nodes
    del graph.sinks[nodes[1].task_id]
    del graph.sinks[nodes[4].task_id]
    assert graph.nodes_to_send() == [node(0, 0), node(1, 0, *at(0)), ended(2), node(3, 1, *at(1)), ended(4)]


def test_each_waiting_sink_of_a_graph_fails_once_with_its_own_error() -> None:
    first, second = Sink(), Sink()
    graph = entry(first, None, second)
    for _ in range(2):
        graph.fail(lambda: ValueError("why"))
    (one,), (other,) = first.errors, second.errors
    assert one is not other
    assert graph.sinks == {}
