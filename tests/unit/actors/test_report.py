"""What actors say of themselves when they are asked."""

from __future__ import annotations

from scaler.actors.report import Report
from tests.support.simulation import Outcome, Simulation


def test_a_report_has_what_was_added_by_kind() -> None:
    report = Report()
    report.add("worker", "one", {"tasks": 1})
    report.add("worker", "two", {"tasks": 2})
    assert report.of("worker") == [("one", {"tasks": 1}), ("two", {"tasks": 2})]
    assert report.total("worker", "tasks") == 3
    assert report.of("client") == []
    assert report.total("client", "tasks") == 0


def test_all_actors_answer_before_any_other_work_is_done() -> None:
    simulation = Simulation()
    client, agent = simulation.client(), simulation.agent(2, execute=lambda _run: Outcome(seconds=10.0))
    simulation.nested_client(agent)
    client.submit_graph([[], [0]], [1])
    simulation.run()
    client.submit(1000)
    simulation.edge.receive()
    report = simulation.tree.report()
    simulation.dispatcher.run(9)  # three parts, three sessions, a graph and two workers
    kinds = ("balancer", "object store", "client", "client in a task", "graph", "agent", "worker")
    assert [len(report.of(kind)) for kind in kinds] == [1, 1, 1, 1, 1, 1, 2]
    assert report.total("client", "tasks") == 0
    later = simulation.tree.report()
    simulation.run()
    assert later.total("client", "tasks") == 0
    at_last = simulation.tree.report()
    simulation.run()
    assert at_last.total("client", "tasks") == 1000
