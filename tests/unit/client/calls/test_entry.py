from __future__ import annotations

from typing import Any

from scaler.client.calls.entry import GraphEntry
from scaler.ids import GraphId, ObjectId, TaskId
from scaler.wire.messages.client import GraphNode, GraphTask


class Sink:
    def __init__(self) -> None:
        self.errors: list[BaseException] = []

    def fail(self, make_error: Any) -> None:
        self.errors.append(make_error())


def node(number: int, wanted: int) -> GraphNode:
    return GraphNode(GraphId(b"g" * 16), TaskId(bytes([number]) * 16), ObjectId(b"f" * 16), b"a", b"o", b"d", wanted)


def entry(*sinks: Any) -> GraphEntry:
    """One node for each sink, wanted unless that is None."""
    nodes = [node(number, int(sink is not None)) for number, sink in enumerate(sinks)]
    made = GraphEntry(GraphTask(GraphId(b"g" * 16), len(nodes)), nodes, (), (), ())
    made.sinks = {each.task_id: sink for each, sink in zip(nodes, sinks, strict=True) if sink is not None}
    return made


def test_a_node_whose_result_has_come_is_not_wanted_again_and_else_the_same() -> None:
    graph = entry(Sink(), None, Sink())
    assert graph.nodes_to_say() == graph.nodes
    del graph.sinks[graph.nodes[2].task_id]
    assert graph.nodes_to_say() == [node(0, 1), node(1, 0), node(2, 0)]


def test_each_sink_that_waits_fails_once_with_an_error_of_its_own() -> None:
    first, second = Sink(), Sink()
    graph = entry(first, None, second)
    for _ in range(2):
        graph.fail(lambda: ValueError("why"))
    (one,), (other,) = first.errors, second.errors
    assert one is not other
    assert graph.sinks == {}
