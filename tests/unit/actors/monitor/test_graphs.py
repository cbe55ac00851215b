from __future__ import annotations

import pytest

from scaler.actors.messages.monitor import Backlog, GraphSeen, NodeSeen
from scaler.actors.monitor.graphs import Graphs
from scaler.actors.monitor.names import Names
from scaler.actors.objects.object_table import ObjectTable
from scaler.ids import ObjectId, TaskId

SHORT_ID = b"graph id"
SEEN = GraphSeen(SHORT_ID, "sum", b"client", 1, 0, 1, 0, 0, 0, "alice", "prices.py 4711")
RUNNING, DONE = (
    NodeSeen(0, TaskId(b"t" * 16), ObjectId(b"f" * 16), b"", state, "") for state in ("running", "success")
)


@pytest.fixture
def graphs() -> Graphs:
    return Graphs(Names(ObjectTable()))


def looked_at(state: NodeSeen) -> Backlog:
    return Backlog(nodes={SHORT_ID: [state]})


def test_the_end_of_a_graph_is_shown_to_its_viewers(graphs: Graphs) -> None:
    graphs.ask({SHORT_ID})
    assert [node.state for node in graphs.nodes(SHORT_ID, looked_at(RUNNING), True)[0]] == ["running"]
    graphs.end(SEEN, [DONE], 1)
    assert [node.state for node in graphs.nodes(SHORT_ID, Backlog(), False)[0]] == ["success"]


def test_the_end_of_a_graph_without_viewers_is_not_kept(graphs: Graphs) -> None:
    graphs.ask({SHORT_ID})
    graphs.nodes(SHORT_ID, looked_at(RUNNING), True)
    graphs.ask(())
    graphs.end(SEEN, [DONE], 1)
    assert graphs.nodes(SHORT_ID, Backlog(), True) == ([], 0)


def test_the_end_of_a_graph_is_dropped_with_its_last_viewer(graphs: Graphs) -> None:
    graphs.ask({SHORT_ID})
    graphs.nodes(SHORT_ID, looked_at(RUNNING), True)
    graphs.end(SEEN, [DONE], 1)
    graphs.ask(())
    assert graphs.nodes(SHORT_ID, Backlog(), True) == ([], 0)
