"""The census: workers are counted when a client requests it, and again while the client waits for workers."""

from __future__ import annotations

from typing import Any

import pytest

from scaler.actors.insight.census import DESCRIPTIONS_MOST, UNACKNOWLEDGED_MOST, WAITING_MOST
from scaler.actors.tree import CENSUS
from scaler.wire.messages.client import OBJECTS, InfoRequest, InfoResponse, ObjectDetails, WorkerDetails
from scaler.wire.messages.worker import LeaveRequest, RestartRequest, RunTask
from tests.support.simulation import Outcome, SimulatedAgent, SimulatedClient, Simulation


def slow(_run: RunTask) -> Outcome:
    return Outcome(seconds=2.0)


def ask(simulation: Simulation, client: SimulatedClient, *requests: InfoRequest) -> None:
    client.say(*requests)
    simulation.run()


def names(agent: SimulatedAgent, count: int) -> list[str]:
    return [f"{agent.agent_id[-1]}-{index}" for index in range(count)]


def waiting(simulation: Simulation) -> int:
    return sum(map(len, simulation.actor(CENSUS)._waiting.values()))


def test_a_request_is_answered_with_counts(simulation: Simulation) -> None:
    client, _other = simulation.client(), simulation.client()
    simulation.agent(2)
    simulation.agent(1)
    ask(simulation, client, InfoRequest(7))
    assert client.said(InfoResponse) == [InfoResponse(7, workers=3, clusters=2, clients=2, waiting_tasks=0)]
    assert client.said(WorkerDetails) == []


def test_waiting_tasks_are_counted_and_tasks_at_workers_are_listed_by_worker() -> None:
    simulation = Simulation()
    client = simulation.client()
    client.submit(3)
    simulation.run()
    ask(simulation, client, InfoRequest(1))
    assert client.said(InfoResponse)[-1].waiting_tasks == 3
    agent = simulation.agent(2, slow)
    simulation.run()
    ask(simulation, client, InfoRequest(2, detailed=1))
    described = client.said(WorkerDetails)
    assert [info.name for info in described] == names(agent, 2)
    assert sum(info.tasks for info in described) + client.said(InfoResponse)[-1].waiting_tasks == 3
    assert {(info.number, info.cluster, info.python_version, info.package_version) for info in described} == {
        (2, 0, agent.python_version, "9.9.9")
    }


def test_a_detailed_answer_waits_until_earlier_ones_are_acknowledged(simulation: Simulation) -> None:
    """Otherwise, small requests of a client that reads nothing would make the scheduler keep a large answer to each."""
    client = simulation.client()
    simulation.agent(2)
    ask(simulation, client, *(InfoRequest(number, detailed=1) for number in range(1, 10)), InfoRequest(99))
    assert [response.number for response in client.said(InfoResponse)] == [1, 99]
    assert len(client.said(WorkerDetails)) == 2 * UNACKNOWLEDGED_MOST
    simulation.advance(10.0)
    assert sorted(response.number for response in client.said(InfoResponse)) == [*range(1, 10), 99]
    assert len(client.said(WorkerDetails)) == 2 * 9


def test_of_very_many_requests_of_one_client_the_latest_are_deferred_and_answered(
    simulation: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scaler.actors.insight.census.DEFERRED_MOST", 3)
    client = simulation.client()
    simulation.agent(2)
    ask(simulation, client, *(InfoRequest(number, detailed=1) for number in range(1, 10)))
    simulation.advance(10.0)
    assert sorted(response.number for response in client.said(InfoResponse)) == [1, 7, 8, 9]


def test_the_number_of_detailed_answers_made_at_a_time_is_limited(simulation: Simulation) -> None:
    clients = [simulation.client() for _ in range(DESCRIPTIONS_MOST + 3)]
    simulation.agent(2)
    for client in clients:
        ask(simulation, client, InfoRequest(1, detailed=1))
    assert sum(len(client.said(InfoResponse)) for client in clients) == DESCRIPTIONS_MOST
    simulation.advance(1.0)
    assert [len(client.said(WorkerDetails)) for client in clients] == [2] * len(clients)


def test_a_client_that_requests_again_after_an_answer_does_not_wait(simulation: Simulation) -> None:
    client = simulation.client()
    simulation.agent(2)
    for number in range(1, DESCRIPTIONS_MOST):
        ask(simulation, client, InfoRequest(number, detailed=1))
        assert client.said(InfoResponse)[-1].number == number


def test_a_client_that_waits_for_workers_receives_only_counts(simulation: Simulation) -> None:
    client = simulation.client()
    ask(simulation, client, InfoRequest(1, detailed=1, workers=4))
    simulation.agent(2)
    simulation.agent(2)
    simulation.run()
    assert [response.workers for response in client.said(InfoResponse)] == [0, 2, 4]
    assert client.said(WorkerDetails) == []


def test_workers_are_listed_cluster_by_cluster(simulation: Simulation) -> None:
    client = simulation.client()
    first, second = simulation.agent(2), simulation.agent(1)
    ask(simulation, client, InfoRequest(1, detailed=1))
    said = [(info.name, info.cluster) for info in client.said(WorkerDetails)]
    assert said == [*((name, 0) for name in names(first, 2)), *((name, 1) for name in names(second, 1))]


def test_a_client_that_waits_for_workers_receives_counts_until_there_are_enough(simulation: Simulation) -> None:
    client = simulation.client()
    ask(simulation, client, InfoRequest(1, workers=3))
    for _ in range(3):
        simulation.agent(2)
        simulation.run()
    assert [info.workers for info in client.said(InfoResponse)] == [0, 2, 4]
    assert waiting(simulation) == 0


def test_a_lost_cluster_is_not_counted(simulation: Simulation) -> None:
    client = simulation.client()
    agent = simulation.agent(2)
    agent.die()
    simulation.run()
    ask(simulation, client, InfoRequest(1))
    (info,) = client.said(InfoResponse)
    assert (info.workers, info.clusters) == (0, 0)
    simulation.advance(70.0)
    ask(simulation, client, InfoRequest(2, detailed=1))
    assert client.said(InfoResponse)[-1].workers == 0
    assert client.said(WorkerDetails) == []


def test_a_request_with_the_same_number_withdraws_a_wait_for_workers(simulation: Simulation) -> None:
    client = simulation.client()
    ask(simulation, client, InfoRequest(1, workers=1), InfoRequest(1))
    assert waiting(simulation) == 0
    simulation.agent()
    simulation.run()
    assert len(client.said(InfoResponse)) == 2


def test_waits_for_workers_end_with_their_client(simulation: Simulation) -> None:
    client = simulation.client()
    ask(simulation, client, InfoRequest(1, workers=1))
    assert waiting(simulation) == 1
    client.leave()
    simulation.run()
    assert waiting(simulation) == 0


def test_the_number_of_waits_of_one_client_is_limited(simulation: Simulation) -> None:
    client = simulation.client()
    ask(simulation, client, *(InfoRequest(number, workers=9) for number in range(WAITING_MOST + 5)))
    assert waiting(simulation) == WAITING_MOST
    assert len(client.said(InfoResponse)) == WAITING_MOST + 5
    client.leave()
    simulation.run()


def test_all_agents_are_requested_to_restart_their_processes_before_the_answer(simulation: Simulation) -> None:
    client = simulation.client()
    agents = [simulation.agent(2), simulation.agent(1)]
    ask(simulation, client, InfoRequest(1, restart=1))
    assert [agent.restarts for agent in agents] == [1, 1]
    assert [response.number for response in client.said(InfoResponse)] == [1]


def test_only_the_agents_of_named_workers_are_requested_to_leave(simulation: Simulation) -> None:
    client = simulation.client()
    one, other = simulation.agent(2), simulation.agent(2)
    ask(simulation, client, InfoRequest(1, leave=f"{names(one, 2)[1]},nobody"))
    assert (one.leave_requests, other.leave_requests) == (1, 0)
    assert [response.number for response in client.said(InfoResponse)] == [1]


def test_the_pending_restart_requests_of_one_client_are_limited(simulation: Simulation) -> None:
    client, agent = simulation.client(), simulation.agent(2)
    ask(simulation, client, *(InfoRequest(number, restart=1) for number in range(1, 30)))
    assert agent.restarts == UNACKNOWLEDGED_MOST
    simulation.advance(60.0)
    assert agent.restarts == len(client.said(InfoResponse)) == 29


def test_a_restart_request_that_waits_for_workers_restarts_them_once(simulation: Simulation) -> None:
    client, agent = simulation.client(), simulation.agent(1)
    ask(simulation, client, InfoRequest(1, workers=2, restart=1))
    simulation.agent(1)
    simulation.run()
    assert agent.restarts == 1


@pytest.mark.parametrize("wish", [{"restart": 1}, {"leave": "{name}"}])
def test_only_an_admin_may_replace_worker_processes_and_make_clusters_leave(
    simulation: Simulation, wish: dict[str, Any]
) -> None:
    client, agent = simulation.client(), simulation.agent(1)
    simulation.run()
    wish = {key: value.format(name=names(agent, 1)[0]) if value != 1 else 1 for key, value in wish.items()}
    [peer] = [each for each in simulation.tree.directory.connected.values() if each.key == ("client", client.client_id)]
    peer.is_admin = False
    ask(simulation, client, InfoRequest(1, **wish))
    assert "only an admin may replace worker processes" in client.said(InfoResponse)[-1].refused
    assert agent.said(RestartRequest) == agent.said(LeaveRequest) == []
    peer.is_admin = True
    ask(simulation, client, InfoRequest(2, **wish))
    assert client.said(InfoResponse)[-1].refused == ""
    assert len(agent.said(RestartRequest)) + len(agent.said(LeaveRequest)) == 1


def test_objects_are_listed_to_their_own_client_only_and_the_largest_first(simulation: Simulation) -> None:
    client, other = simulation.client(), simulation.client()
    small, large = client.create(b"1" * 10, "small"), client.create(b"2" * 1000, "large")
    other.create(b"3" * 5000, "of another")
    ask(simulation, client, InfoRequest(7, detailed=OBJECTS))
    assert client.said(ObjectDetails) == [
        ObjectDetails(7, large, "large", kind=0, place=0, size_bytes=1000, copies=0, users=0),
        ObjectDetails(7, small, "small", kind=0, place=0, size_bytes=10, copies=0, users=0),
        ObjectDetails(7, client.function_id, "function", kind=1, place=0, size_bytes=4, copies=0, users=0),
    ]
    assert [response.number for response in client.said(InfoResponse)] == [7]


def test_of_very_many_objects_the_largest_are_listed(simulation: Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scaler.actors.insight.census.OBJECTS_MOST", 2)
    client = simulation.client()
    for size in (3, 5, 1, 4):
        client.create(bytes(size), f"of {size}")
    ask(simulation, client, InfoRequest(1, detailed=OBJECTS))
    assert [info.size_bytes for info in client.said(ObjectDetails)] == [5, 4]
