"""The supervision tree: what happens to the scheduler when one of its parts fails."""

from __future__ import annotations

import pytest

from scaler.actors.tree import ACCEPTOR, ADOPTION, BALANCER, CENSUS, OBJECT_STORE, OUTPUTS
from scaler.kit import RestartBudgetExceededError
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.worker import RunTask
from tests.support.simulation import FUNCTION_ID, Outcome, Simulation


def slow(_run: RunTask) -> Outcome:
    return Outcome(seconds=2.0)


def child(simulation: Simulation, name: str):
    return simulation.tree.supervisor.children[name]


def test_a_new_scheduler_is_idle_and_has_no_peers(simulation: Simulation) -> None:
    assert set(simulation.tree.supervisor.children) == {OBJECT_STORE, BALANCER, ADOPTION, CENSUS, OUTPUTS, ACCEPTOR}
    simulation.check_empty()


def test_a_restarted_balancer_knows_all_tasks_and_workers_and_no_task_runs_twice() -> None:
    simulation = Simulation()
    client, agent = simulation.client(), simulation.agent(2, slow)
    submitted = client.submit(10)
    simulation.run()
    before = simulation.actor(BALANCER)
    simulation.fail(child(simulation, BALANCER))
    simulation.run()
    after = simulation.actor(BALANCER)
    assert after is not before
    assert after.statistics() == before.statistics() == {"ready_tasks": 8, "workers": 2}
    simulation.advance(20.0)
    assert client.statuses() == [TaskStatus.SUCCESS] * 10
    assert [run.task_id for run in agent.started] == submitted  # in order, and each once


def test_tasks_submitted_while_the_balancer_is_down_wait_for_it() -> None:
    simulation = Simulation()
    client, _ = simulation.client(), simulation.agent()
    for _ in range(3):
        simulation.fail(child(simulation, BALANCER))
        simulation.run()
    assert simulation.actor(BALANCER) is None  # it is backing off
    client.submit(5)
    simulation.run()
    simulation.advance(5.0)
    assert client.statuses() == [TaskStatus.SUCCESS] * 5


def test_tasks_of_a_client_that_leaves_while_the_balancer_is_down_are_withdrawn() -> None:
    simulation = Simulation()
    client = simulation.client()
    client.submit(5, for_task=b"its own")
    for _ in range(3):
        simulation.fail(child(simulation, BALANCER))
        simulation.run()
    client.leave()
    simulation.advance(5.0)
    simulation.check_empty()


def test_an_object_store_that_fails_keeps_its_table() -> None:
    simulation = Simulation()
    client, _ = simulation.client(), simulation.agent(1, slow)
    kept = client.create(b"content")
    client.submit(2, for_task=b"its own")
    simulation.run()
    before = simulation.actor(OBJECT_STORE)
    simulation.fail(child(simulation, OBJECT_STORE))
    simulation.run()
    assert simulation.actor(OBJECT_STORE) is not before
    client.fetch(kept)
    simulation.advance(10.0)
    assert client.fetched == {kept: b"content"}
    assert set(simulation.tree.objects.objects) == {kept, FUNCTION_ID}
    client.leave()
    simulation.run()
    simulation.check_empty()


@pytest.mark.parametrize("name", [OBJECT_STORE, BALANCER, ACCEPTOR])
def test_more_failures_than_the_budget_allows_end_the_scheduler(name: str) -> None:
    simulation = Simulation()
    for _ in range(11):
        assert simulation.escalations == []
        simulation.fail(child(simulation, name))
        simulation.advance(5.1)
    (error,) = simulation.escalations
    assert isinstance(error, RestartBudgetExceededError)


def test_failures_that_are_far_apart_do_not_end_the_scheduler() -> None:
    simulation = Simulation()
    for _ in range(30):
        simulation.fail(child(simulation, BALANCER))
        simulation.advance(20.0)
    assert simulation.escalations == []


def test_all_actors_report_statistics_before_any_other_work_is_done() -> None:
    simulation = Simulation()
    client, agent = simulation.client(), simulation.agent(2, execute=lambda _run: Outcome(seconds=10.0))
    simulation.nested_client(agent)
    client.submit_graph([[], [0]], [1])
    simulation.run()
    client.submit(1000)
    simulation.edge.receive()
    report = simulation.tree.report()
    simulation.dispatcher.run(11)  # six parts, three sessions and two workers
    kinds = ("balancer", "object store", "client", "client in a task", "agent", "worker")
    assert [len(report.of(kind)) for kind in kinds] == [1, 1, 1, 1, 1, 2]
    assert report.total("client", "tasks") == 0
    later = simulation.tree.report()
    simulation.run()
    assert later.total("client", "tasks") == 0
    at_last = simulation.tree.report()
    simulation.run()
    assert at_last.total("client", "tasks") == 1000
