from __future__ import annotations

from typing import Any

from scaler.client.calls.entry import GraphEntry
from scaler.client.link.open_graphs import OpenGraphs
from scaler.ids import GraphId, ObjectId, TaskId
from scaler.wire.messages.client import GraphNode, GraphTask


class Sink:
    def __init__(self) -> None:
        self.errors: list[Any] = []

    def fail(self, make_error: Any) -> None:
        self.errors.append(make_error())


def graph(name: bytes, *wanted: int) -> GraphEntry:
    graph_id = GraphId(name * 16)
    nodes = [
        GraphNode(graph_id, TaskId(name + bytes([n]) * 15), ObjectId(b"f" * 16), b"", b"", b"", int(n in wanted))
        for n in range(3)
    ]
    made = GraphEntry(GraphTask(graph_id, 3), nodes, (), (), ())
    made.sinks = {node.task_id: Sink() for node in nodes if node.wanted}  # type: ignore[misc]
    return made


def test_a_graph_is_open_until_its_last_result_has_come() -> None:
    graphs, first = OpenGraphs(), graph(b"a", 0, 2)
    graphs.add(first)
    graphs.add(graph(b"b", 1))
    sinks = dict(first.sinks)
    assert [graphs.pop(task_id) for task_id in sinks] == [(first, sink) for sink in sinks.values()]
    assert [each.spec.graph_id[:1] for each in graphs] == [b"b"]
    assert graphs.pop(first.nodes[0].task_id) is None


def test_said_again_only_open_results_are_wanted() -> None:
    graphs, first = OpenGraphs(), graph(b"a", 0, 2)
    graphs.add(first)
    assert first.nodes_to_send() == first.nodes
    graphs.pop(first.nodes[0].task_id)
    assert [node.wanted for node in first.nodes_to_send()] == [0, 0, 1]


def test_a_graph_is_removed_by_any_of_its_tasks_and_fails_all_its_sinks() -> None:
    graphs, first = OpenGraphs(), graph(b"a", 0, 2)
    graphs.add(first)
    sinks = list(first.sinks.values())
    assert graphs.remove(first.nodes[1].task_id) is None
    assert graphs.remove(first.nodes[2].task_id) is first
    assert len(graphs) == 0
    first.fail(lambda: ValueError("why"))
    assert [len(sink.errors) for sink in sinks] == [1, 1]
    assert graphs.pop(first.nodes[0].task_id) is None


def test_a_graph_is_removed_by_its_id() -> None:
    graphs, first = OpenGraphs(), graph(b"a", 0, 2)
    graphs.add(first)
    assert graphs.remove_graph(first.spec.graph_id) is first
    assert graphs.remove_graph(first.spec.graph_id) is None
    assert graphs.pop(first.nodes[2].task_id) is None
