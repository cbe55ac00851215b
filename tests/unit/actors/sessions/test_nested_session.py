"""Nested clients: they end with their processor or its agent, and never because they are silent."""

from __future__ import annotations

import pytest

from scaler.actors.sessions.client_session import ClientSession
from scaler.actors.sessions.nested_session import ACCOUNTS_REMEMBERED, NestedSession
from scaler.ids import ObjectId
from scaler.wire.messages.client import ClientResting, TaskResult
from scaler.wire.messages.common import HelloReply, HelloRequest, TaskStatus
from scaler.wire.messages.priority import of_child
from scaler.wire.messages.worker import ProcessorGone, ProcessorNews
from tests.support.configs import scheduler_config
from tests.support.simulation import Outcome, SimulatedAgent, SimulatedClient, Simulation

LONG = Outcome(seconds=1000.0)


@pytest.fixture
def agent(simulation: Simulation) -> SimulatedAgent:
    return simulation.agent(2, execute=lambda _run: LONG)


@pytest.fixture
def nested(simulation: Simulation, agent: SimulatedAgent) -> SimulatedClient:
    return simulation.nested_client(agent, processor=7)


def test_a_silent_nested_client_keeps_its_tasks(
    simulation: Simulation, agent: SimulatedAgent, nested: SimulatedClient
) -> None:
    tasks = nested.submit(2)
    nested.hangs = True
    simulation.advance(600.0)
    assert len(simulation.sessions(NestedSession)) == 1
    assert set(agent.queued) == set(tasks)


def test_a_disconnected_nested_client_may_reconnect_while_its_processor_lives(
    simulation: Simulation, agent: SimulatedAgent, nested: SimulatedClient, caplog: pytest.LogCaptureFixture
) -> None:
    tasks = nested.submit(2)
    simulation.run()
    nested.hangs = True
    simulation.close_connection(nested.connection)
    simulation.advance(600.0)
    assert "it may reconnect as long as its process lives" in caplog.text
    assert " s to reconnect" not in caplog.text
    assert set(agent.queued) == set(tasks)
    nested.hangs = False
    nested.connect()
    simulation.run()
    assert len(simulation.sessions(NestedSession)) == 1
    assert sorted(run.task_id for run in agent.started) == sorted(tasks)


def test_nested_tasks_are_cancelled_when_the_processor_of_their_client_ends(
    simulation: Simulation, agent: SimulatedAgent, nested: SimulatedClient
) -> None:
    other = simulation.nested_client(agent, processor=8)
    nested.submit(1)
    kept = other.submit(1)
    simulation.run()
    nested.is_gone = True
    agent.say(ProcessorGone(7))
    simulation.run()
    assert agent.queued == kept
    assert len(simulation.sessions(NestedSession)) == 1


def test_nested_tasks_are_cancelled_when_the_agent_of_their_client_is_lost(
    simulation: Simulation, agent: SimulatedAgent, nested: SimulatedClient
) -> None:
    other_agent = simulation.agent(1, execute=lambda _run: LONG)
    nested.submit(3)
    simulation.run()
    nested.is_gone = True
    agent.die()
    simulation.advance(70.0)
    assert simulation.sessions(NestedSession) == []
    assert other_agent.queued == []


@pytest.mark.parametrize(("away_seconds", "times"), [(1.5, 1), (2.5, 2)])
def test_unread_results_of_nested_tasks_last_as_long_as_the_session_of_their_agent(
    simulation: Simulation, away_seconds: float, times: int
) -> None:
    client, agent = simulation.client(), simulation.agent(1, execute=lambda _run: LONG)
    client.submit(1)
    simulation.run()
    nested, elsewhere = simulation.nested_client(agent), simulation.agent(2, execute=lambda _run: Outcome(seconds=0.5))
    (child,) = nested.submit(1)
    simulation.run()
    assert [run.task_id for run in elsewhere.started] == [child]
    elsewhere.execute = lambda _run: LONG
    nested.hangs = True
    for peer in (nested, agent):
        simulation.close_connection(peer.connection)
    simulation.advance(away_seconds)
    nested.hangs = False
    agent.execute = elsewhere.execute = lambda _run: Outcome()
    for peer in (agent, nested):
        peer.connect()
        simulation.advance(1.0)
    assert nested.statuses() == [TaskStatus.SUCCESS]
    assert [run.task_id for each in (agent, elsewhere) for run in each.started].count(child) == times


def test_a_nested_hello_that_arrives_after_the_end_of_its_processor_gets_no_session(
    simulation: Simulation, agent: SimulatedAgent
) -> None:
    agent.say(ProcessorGone(9))
    simulation.run()
    simulation.nested_client(agent, processor=9, comes_back=False)
    assert simulation.sessions(NestedSession) == []


def test_a_nested_client_whose_agent_is_not_connected_waits_for_it(simulation: Simulation) -> None:
    elsewhere = Simulation()
    agent = elsewhere.agent()
    early = simulation.nested_client(agent, comes_back=False)
    assert not early.said(HelloReply)
    assert [request.reason for request in early.said(HelloRequest)] == [
        "the agent that runs your task is not connected"
    ]
    assert simulation.sessions(ClientSession) == simulation.sessions(NestedSession) == []


def test_a_nested_task_runs_in_the_only_slot_while_its_parent_is_blocked() -> None:
    simulation = Simulation(scheduler_config(per_worker_queue_size=1))
    agent = simulation.agent(1, execute=lambda _run: LONG)
    client, nested = simulation.client(), simulation.nested_client(agent)
    (parent,) = client.submit(1)
    others = client.submit(2)
    simulation.run()
    (child,) = nested.submit(1, priority=of_child(0))
    simulation.run()
    assert agent.queued == [parent]
    agent.suspend(parent)
    simulation.run()
    assert agent.queued == [child]
    agent.execute = lambda _run: Outcome()
    agent.suspend(child)
    agent.resume(child)
    simulation.run()
    assert nested.statuses() == [TaskStatus.SUCCESS]
    agent.resume(parent)
    simulation.advance(2.0)
    assert client.statuses([parent]) == [TaskStatus.SUCCESS]
    assert set(agent.queued) <= set(others)


def news(agent: SimulatedAgent) -> list[tuple[int, int, int]]:
    return [(item.processor, item.wait, item.has_news) for item in agent.said(ProcessorNews)]


def test_the_agent_is_notified_when_a_nested_client_rests_and_when_it_is_sent_a_message(
    simulation: Simulation,
) -> None:
    agent = simulation.agent(1, execute=lambda _run: Outcome(seconds=10.0))
    nested = simulation.nested_client(agent, processor=7)
    nested.submit(1)
    nested.say(ClientResting(3, nested.session.pipe.heard))
    nested.hang()  # its process is stopped
    simulation.advance(9.0)
    assert news(agent) == [(7, 3, 0)]
    simulation.advance(2.0)
    assert news(agent) == [(7, 3, 0), (7, 3, 1)]
    simulation.advance(60.0)
    assert len(news(agent)) == 2
    nested.wake()
    assert len(nested.said(TaskResult)) == 1


def test_a_nested_client_with_messages_in_transit_does_not_rest_yet(simulation: Simulation) -> None:
    agent = simulation.agent(1)
    nested = simulation.nested_client(agent, processor=7)
    heard = nested.session.pipe.heard
    nested.submit(1)
    simulation.advance(1.0)
    nested.say(ClientResting(1, heard))
    simulation.run()
    assert news(agent) == []
    nested.say(ClientResting(1, nested.session.pipe.heard))
    simulation.run()
    assert news(agent) == [(7, 1, 0)]


@pytest.mark.parametrize("goes_on", [False, True])
def test_a_nested_client_that_reconnects_may_rest_again(
    simulation: Simulation, agent: SimulatedAgent, goes_on: bool
) -> None:
    nested = simulation.nested_client(agent, processor=7)
    nested.fetch(ObjectId(b"o" * 16))
    simulation.run()
    nested.goes_on = goes_on
    simulation.close_connection(nested.connection)
    nested.connect()
    simulation.run()
    assert nested.session.pipe.heard == (1 if goes_on else 0)
    nested.say(ClientResting(1, nested.session.pipe.heard))
    simulation.run()
    assert news(agent) == [(7, 1, 0)]


def test_a_root_client_that_reports_rest_is_ignored(simulation: Simulation, agent: SimulatedAgent) -> None:
    client = simulation.client()
    client.say(ClientResting(1, len(client.heard)))
    simulation.run()
    assert news(agent) == []
    assert len(simulation.sessions(ClientSession)) == 1


def accounts(agent: SimulatedAgent) -> list[int]:
    return [run.account for slot in agent.slots for run in slot.queue]


def test_nested_tasks_are_charged_to_the_account_that_their_parent_names(
    simulation: Simulation, agent: SimulatedAgent, nested: SimulatedClient
) -> None:
    agent.execute = lambda _run: Outcome(seconds=5.0)
    nested.submit(1, account=3)
    nested.submit(1, account=4)
    (node,) = nested.graphs[nested.submit_graph([()], [0], account=3)]
    simulation.advance(1.0)
    agent.execute = lambda _run: Outcome()
    runs = [run for slot in agent.slots for run in slot.queue]
    for number in range(100, 300):
        nested.submit(1, account=number)
    simulation.run()
    assert sorted(run.account for run in runs) == [3, 4]
    (session,) = simulation.sessions(NestedSession)
    assert len(session._contexts) <= ACCOUNTS_REMEMBERED
    simulation.advance(10.0)
    assert [run.account for run in agent.started if run.task_id == node.task_id] == [3]


def test_a_root_client_has_its_own_account_whatever_its_tasks_name(
    simulation: Simulation, agent: SimulatedAgent
) -> None:
    first, second = simulation.client(), simulation.client()
    first.submit(1, account=9)
    simulation.run()
    second.submit(1, account=9)
    simulation.run()
    assert sorted(accounts(agent)) == [0, 1]
    simulation.close_connection(second.connection)
    second.connect()
    second.submit(1)
    first.leave()
    simulation.run()
    third = simulation.client()
    third.submit(1)
    simulation.advance(1001.0)
    assert sorted(run.account for run in agent.started) == [0, 0, 1, 1]


def test_nested_tasks_left_by_a_client_are_not_charged_to_the_next_client(
    simulation: Simulation, agent: SimulatedAgent, nested: SimulatedClient
) -> None:
    first = simulation.client()
    first.submit(1)
    nested.submit(1, account=0)
    first.leave()
    simulation.run()
    second = simulation.client()
    second.submit(1)
    simulation.advance(1001.0)
    assert sorted(run.account for run in agent.started) == [0, 0, 1]
