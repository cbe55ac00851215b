"""Quotas of tasks and bytes: tasks over the quota wait, or are refused, whatever the clients of their owner do."""

from __future__ import annotations

import pytest

from scaler.actors.sessions.task_bounds import TASKS_BEYOND_WINDOW
from scaler.actors.vocabulary.owners import Owner
from scaler.ids import ClientId, TaskId
from scaler.keys.allowed import OwnerTerms
from scaler.wire.messages.client import ExplainRequest, ExplainResponse
from scaler.wire.messages.common import FOUND, NOT_FOUND, HelloReply, ObjectResponse, TaskStatus
from scaler.wire.messages.vocabulary import QUOTA
from scaler.wire.messages.worker import RunTask
from tests.support.simulation import Outcome, SimulatedClient, Simulation


def long(_run: RunTask) -> Outcome:
    return Outcome(seconds=30.0)


def alice(simulation: Simulation, **terms: int) -> Owner:
    return simulation.tree.directory.owners.of("alice", OwnerTerms(**terms))


def pretender(simulation: Simulation) -> SimulatedClient:
    """Return a client of alice whose hello falsely claims that it was connected to another scheduler."""
    client = SimulatedClient(simulation, ClientId(simulation.new_id(b"client")))
    client.user, client.was_welcome = "alice", True
    simulation.peers.append(client)
    client.connect()
    simulation.run()
    return client


def explanation_of(simulation: Simulation, client: SimulatedClient, task_id: TaskId) -> ExplainResponse:
    client.say(ExplainRequest(task_id))
    simulation.run()
    found: ExplainResponse = client.said(ExplainResponse)[-1]
    return found


def test_tasks_of_an_owner_start_within_its_quota_and_all_end(simulation: Simulation) -> None:
    owner, agent = alice(simulation, tasks=3), simulation.agent(8)
    clients = [simulation.client(user="alice") for _ in range(2)]
    for client in clients:
        simulation.tree.directory.peers["client", client.client_id].tasks_announced = 1000
        client.submit(4)
    other = simulation.client(user="bob")
    other.submit(4)
    simulation.run()
    assert (owner.tasks, owner.held) == (3, 5)
    assert len(agent.started) == 3 + 4  # no task of another owner waits for that
    for _ in range(10):
        assert owner.tasks <= 3
        simulation.advance(0.1)
    assert [client.statuses() for client in (*clients, other)] == [[TaskStatus.SUCCESS] * 4] * 3
    assert (owner.tasks, owner.held) == (0, 0)
    for client in (*clients, other):
        client.leave()
    simulation.run()
    simulation.check_empty()


def test_sessions_of_an_owner_share_its_quota(simulation: Simulation) -> None:
    alice(simulation, tasks=2)
    simulation.agent(2)
    first, second = (simulation.client(user="alice") for _ in range(2))
    simulation.tree.directory.peers["client", first.client_id].tasks_announced = 1000
    first.submit(40)
    second.submit(2)
    simulation.advance(1.0)
    assert second.statuses() == [TaskStatus.SUCCESS] * 2
    assert None in first.statuses()


def test_the_explanation_of_a_held_task_names_the_quota(simulation: Simulation) -> None:
    alice(simulation, tasks=1)
    simulation.agent(1, long)
    client = simulation.client(user="alice")
    _, second = client.submit(2)
    answer = explanation_of(simulation, client, second)
    assert (answer.state, answer.waits_for) == ("inactive", QUOTA)
    assert answer.sentence == (
        "its owner, alice, has 1 open tasks, and may have 1; it starts when other tasks end or values are dropped"
    )


def test_a_client_that_ignores_its_window_is_refused(simulation: Simulation) -> None:
    owner, agent = alice(simulation, tasks=10), simulation.agent(100, long)
    client = simulation.client(user="alice")
    assert client.said(HelloReply)[0].window_tasks == 10
    client.submit(1000)
    simulation.run()
    assert len(agent.started) == owner.tasks == 10
    statuses = client.statuses()
    assert statuses.count(TaskStatus.NO_WORKER) == 1000 - TASKS_BEYOND_WINDOW * 10
    refused = client.results[client.submitted[-1]]
    assert refused.payload == b"its client has 20 open tasks, as many as the scheduler accepts"


def test_clients_of_one_owner_share_the_bytes_and_each_may_use_the_whole_quota_of_tasks(simulation: Simulation) -> None:
    alice(simulation, tasks=90, n_bytes=900)
    clients = [simulation.client(user="alice") for _ in range(3)]
    windows = [client.said(HelloReply)[0] for client in clients]
    assert [(reply.window_tasks, reply.window_bytes) for reply in windows] == [(90, 900), (90, 450), (90, 300)]
    clients[0].leave()
    simulation.run()
    clients[1].connect()
    simulation.run()
    assert clients[1].said(HelloReply)[-1].window_bytes == 450


def test_a_held_task_can_be_cancelled_and_its_arguments_are_removed(simulation: Simulation) -> None:
    owner = alice(simulation, tasks=1)
    simulation.agent(1, long)
    client = simulation.client(user="alice")
    task_ids = client.submit(2, for_task=b"argument")
    simulation.run()
    client.cancel(task_ids[1])
    simulation.run()
    assert client.statuses() == [None, TaskStatus.CANCELED]
    assert (owner.held, owner.n_bytes) == (0, len(b"argument") + 0)
    assert not owner._waiting, "other sessions get their part of the quota that becomes free"


def test_a_larger_quota_holds_at_once(simulation: Simulation) -> None:
    owner, agent = alice(simulation, tasks=1), simulation.agent(8, long)
    client = simulation.client(user="alice")
    client.submit(2)
    simulation.run()
    assert len(agent.started) == 1
    simulation.edge.terms_changed({"alice": OwnerTerms(tasks=5)})
    simulation.run()
    assert len(agent.started) == owner.tasks == 2
    simulation.edge.terms_changed({"alice": OwnerTerms()})
    client.submit(4)
    simulation.run()
    assert len(agent.started) == 6


def test_a_held_task_that_is_resubmitted_runs_once(simulation: Simulation) -> None:
    alice(simulation, tasks=1)
    agent = simulation.agent(1)
    client = simulation.client(user="alice")
    client.submit(2)
    simulation.run()
    client.connect()  # and resubmits all
    simulation.advance(2.0)
    assert client.statuses() == [TaskStatus.SUCCESS] * 2
    assert len(agent.started) == 2


def test_tasks_that_are_submitted_long_after_a_restart_start(simulation: Simulation) -> None:
    alice(simulation, tasks=2)
    client, _agent = pretender(simulation), simulation.agent(1)
    simulation.advance(2 * simulation.limits.client_timeout_seconds)
    client.submit(3)
    simulation.advance(1.0)
    assert client.statuses() == [TaskStatus.SUCCESS] * 3
    client.leave()


def test_after_a_restart_all_open_tasks_continue_within_the_quota(simulation: Simulation) -> None:
    """Tasks with runs at agents do not wait; otherwise, the runs would be cancelled."""
    owner, agent = alice(simulation, tasks=2), simulation.agent(2, long)
    client = simulation.client(user="alice")
    client.submit(3)
    simulation.run()
    assert (owner.tasks, owner.held) == (2, 1)
    simulation.restart()
    alice(simulation, tasks=2)
    client.connect()
    agent.connect()
    simulation.advance(40.0)
    assert set(client.statuses()) <= {TaskStatus.SUCCESS, None}
    simulation.advance(40.0)
    assert client.statuses() == [TaskStatus.SUCCESS] * 3
    assert len(agent.started) == 3


def test_false_claims_of_a_client_about_its_past_do_not_exceed_the_quota(simulation: Simulation) -> None:
    """Checked before a restart, in the minute after it, and later, with several new sessions each."""
    owner, agent = alice(simulation, tasks=5), simulation.agent(20, long)
    for seconds in (0.0, 3.0, 10.0, 100.0, 100.0):
        simulation.advance(seconds)
        for _ in range(3):
            liar = pretender(simulation)
            liar.submit(5)
            simulation.run()
            assert owner.tasks <= 5
            assert len([run for slot in agent.slots for run in slot.queue]) <= 5
    assert owner.tasks == 5


@pytest.mark.parametrize("n_others", [0, 3])
def test_after_a_restart_runs_at_agents_continue_in_whatever_order_clients_reconnect(
    simulation: Simulation, n_others: int
) -> None:
    owner, agent = alice(simulation, tasks=3), simulation.agent(3, long)
    first = simulation.client(user="alice")
    first.submit(3)
    simulation.run()
    others = [simulation.client(user="alice") for _ in range(n_others)]
    for other in others:
        other.submit(4)
    simulation.run()
    assert (owner.tasks, owner.held) == (3, 4 * n_others)
    simulation.restart()
    owner = alice(simulation, tasks=3)
    for client in (*others, first):
        client.connect()
        simulation.run()
    assert (owner.tasks, owner.held) == (0, 3 + 4 * n_others), "until the agents have reconnected"
    agent.connect()
    simulation.run()
    assert (owner.tasks, owner.held) == (3, 4 * n_others)
    for _ in range(3 + 4 * n_others):
        simulation.advance(40.0)
        assert owner.tasks <= 3
    assert len(agent.started) == 3 + 4 * n_others, "none has run twice"
    for client in (first, *others):
        assert set(client.statuses()) == {TaskStatus.SUCCESS}


def test_only_one_task_starts_for_a_run_that_several_sessions_claim(simulation: Simulation) -> None:
    owner, agent = alice(simulation, tasks=2), simulation.agent(2, long)
    client = simulation.client(user="alice")
    client.submit(2)
    simulation.run()
    simulation.restart()
    owner = alice(simulation, tasks=2)
    client.connect()
    copies = [pretender(simulation) for _ in range(5)]
    agent.connect()
    simulation.run()
    for copy in copies:
        copy.say(*client.open.values())
        simulation.run()
        assert owner.tasks <= 2
    assert len(agent.started) == 2


def test_after_a_restart_a_graph_within_the_quota_continues_after_earlier_clients(simulation: Simulation) -> None:
    owner, agent = alice(simulation, tasks=5), simulation.agent(2, long)
    first, other = simulation.client(user="alice"), simulation.client(user="alice")
    first.submit_graph([(), (), ()], [0, 1, 2])
    simulation.run()
    other.submit(6)
    simulation.run()
    assert (owner.tasks, owner.held) == (5, 4)
    simulation.restart()
    owner = alice(simulation, tasks=5)
    other.connect()
    first.connect()
    simulation.run()
    agent.connect()
    simulation.run()
    assert owner.tasks <= 5
    for _ in range(10):
        simulation.advance(40.0)
    assert first.statuses() == [TaskStatus.SUCCESS] * 3


def test_a_graph_over_the_quota_is_refused_whatever_its_client_claims(simulation: Simulation) -> None:
    owner = alice(simulation, tasks=2)
    simulation.agent(4, long)
    liar = pretender(simulation)
    liar.submit_graph([(), (), ()], [0, 1, 2])
    simulation.run()
    assert owner.tasks == 0
    assert liar.statuses() == [TaskStatus.NO_WORKER] * 3


def test_a_value_over_the_quota_is_refused_and_requests_for_it_name_the_reason(simulation: Simulation) -> None:
    owner = alice(simulation, n_bytes=1000)
    client = simulation.client(user="alice")
    fits, too_large = client.create(bytes(600)), client.create(bytes(401))
    simulation.run()
    assert owner.n_bytes == 600
    for object_id in (fits, too_large):
        client.fetch(object_id)
    simulation.run()
    there, refused = client.said(ObjectResponse)
    assert (there.found, refused.found) == (FOUND, NOT_FOUND)
    assert refused.reason == (
        "its 401 bytes are over the quota of its owner: the values of alice take 600 bytes, and may take 1,000; "
        "delete objects or drop futures whose results you no longer need"
    )
    client.delete(fits)
    again = client.create(bytes(900))
    simulation.run()
    assert owner.n_bytes == 900
    client.delete(again)
    client.delete(too_large)
    simulation.run()
    assert owner.n_bytes == 0


def test_results_that_fill_the_quota_hold_later_tasks(simulation: Simulation) -> None:
    owner = alice(simulation, n_bytes=1000)
    agent = simulation.agent(1, lambda _run: Outcome(frames=(bytes(1000),)))
    client = simulation.client(user="alice")
    (first,) = client.submit(1)
    simulation.advance(1.0)
    assert (owner.n_bytes, client.results[first].status) == (1000, TaskStatus.SUCCESS)
    (second,) = client.submit(1)
    simulation.advance(1.0)
    assert len(agent.started) == 1
    assert (
        "the values of its owner, alice, take 1,000 bytes, and may take 1,000"
        in explanation_of(simulation, client, second).sentence
    )
    client.delete(first)  # type: ignore[arg-type] - a result has the id of its task
    simulation.advance(1.0)
    assert client.results[second].status == TaskStatus.SUCCESS


def test_a_graph_is_taken_as_a_whole_or_refused(simulation: Simulation) -> None:
    owner = alice(simulation, tasks=3)
    simulation.agent(1)
    client = simulation.client(user="alice")
    client.submit_graph([(), (0,), (1,)], [2])
    simulation.run()
    assert owner.tasks == 3
    client.submit_graph([(), (0,)], [0, 1])
    simulation.run()
    refused = [client.results[task_id] for task_id in client.submitted[-2:]]
    assert [result.status for result in refused] == [TaskStatus.NO_WORKER] * 2
    assert refused[0].payload == (
        b"its owner, alice, has 3 open tasks, and may have 3; its graph has 2 tasks: submit it again later"
    )
    simulation.advance(5.0)
    assert owner.tasks == 0
    client.submit_graph([(), (0,)], [1])
    simulation.advance(5.0)
    assert client.results[client.submitted[-1]].status == TaskStatus.SUCCESS


def test_nested_tasks_are_not_held_by_a_quota(simulation: Simulation) -> None:
    owner, agent = alice(simulation, tasks=1), simulation.agent(2, long)
    client = simulation.client(user="alice")
    client.submit(1)
    nested = simulation.nested_client(agent)
    nested.submit(1)
    simulation.run()
    assert len(agent.started) == 2
    assert owner.tasks == 1


@pytest.mark.parametrize("leaves", [True, False])
def test_a_client_that_leaves_while_its_tasks_are_held_leaves_no_entries(simulation: Simulation, leaves: bool) -> None:
    owner = alice(simulation, tasks=1)
    client, other = simulation.client(user="alice"), simulation.client(user="alice")
    client.submit(2)
    other.submit(2)
    simulation.run()
    assert (owner.tasks, owner.held) == (1, 3)
    client.leave() if leaves else client.cut()
    simulation.advance(70.0)
    assert (owner.clients, owner.tasks, owner.held) == (1, 1, 1)
