"""Hellos: which peers are accepted, resumed or refused, and which of them may shut the scheduler down."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from scaler.actors.sessions.agent_session import AgentSession
from scaler.actors.sessions.client_session import ClientSession
from scaler.ids import AgentId
from scaler.settings.scheduler import FAIR, FIFO
from scaler.wire.codec.codec import decode, encode_message
from scaler.wire.messages.accounts import number_of
from scaler.wire.messages.client import ClientShutdownResponse, GoodbyeKind
from scaler.wire.messages.common import PROTOCOL_VERSION, HelloReply, HelloRequest
from scaler.wire.messages.worker import DisconnectResponse
from tests.support.configs import scheduler_config
from tests.support.simulation import Simulation


def test_a_hello_is_answered_with_the_identity_of_the_scheduler(simulation: Simulation) -> None:
    client, agent = simulation.client(), simulation.agent()
    for peer, window in ((client, (250_000, 128 * 1024 * 1024, 500)), (agent, (0, 0, 0))):
        (reply,) = peer.said(HelloReply)
        own = (1, "", b"scheduler-------", PROTOCOL_VERSION, "1.2.3")
        names = ("timeout_milliseconds", "window_tasks", "window_bytes", "rows")
        assert reply == HelloReply(*own, **dict(zip(names, (60_000, *window), strict=True)))
    assert len(simulation.sessions(ClientSession)) == 1
    assert len(simulation.proxies()) == 1


def test_a_known_peer_keeps_its_session_on_a_new_connection_and_the_old_one_is_released(simulation: Simulation) -> None:
    client, agent = simulation.client(), simulation.agent()
    before = (*simulation.sessions(ClientSession), *simulation.sessions(AgentSession))
    old = (client.connection, agent.connection)
    client.connect()
    agent.connect()
    simulation.run()
    assert (*simulation.sessions(ClientSession), *simulation.sessions(AgentSession)) == before
    assert set(simulation.tree.directory.connected) == {client.connection, agent.connection}
    assert not set(old) & set(simulation.tree.directory.connected)


@pytest.mark.parametrize("role", ["client", "agent"])
def test_a_hello_that_arrives_after_a_later_one_is_ignored(simulation: Simulation, role: str) -> None:
    """A peer without an answer repeats its hello on a second connection and on a third; the second arrives last."""
    peer = getattr(simulation, role)()
    peer.goes_on = True
    overtaken = peer.session.hello(peer.hello())
    peer.connect()
    simulation.run()
    replies, present = len(peer.said(HelloReply)), peer.connection
    second = simulation.open_connection(peer)
    simulation.router.deliver(second, *overtaken)
    simulation.run()
    assert set(simulation.tree.directory.connected) == {present}
    assert len(peer.said(HelloReply)) == replies
    simulation.close_connection(second)
    simulation.advance(10.0)
    assert set(simulation.tree.directory.connected) == {present}


@pytest.mark.parametrize("role", ["client", "agent"])
def test_a_session_whose_first_reply_was_lost_is_not_resumed(simulation: Simulation, role: str) -> None:
    """The first reply of the session is lost with its connection; the peer still refers to the earlier session."""
    peer = getattr(simulation, role)()
    peer.goes_on = True
    earlier = peer.session.hello(peer.hello())  # would resume the first session
    peer.session.spoil()
    peer.connect()  # starts the second session
    simulation.run()
    peer.session._dials += 1
    item = replace(decode(peer.outgoing, *earlier)[0][0], dial=peer.session._dials)
    simulation.router.deliver(simulation.open_connection(peer), *encode_message(peer.outgoing, [item]))
    simulation.run()
    assert [reply.resumed for reply in peer.said(HelloReply)][-2:] == [0, 0]
    simulation.advance(10.0)  # the first session ends


@pytest.mark.parametrize(("role", "name"), [("client", "client"), ("agent", "cluster")])
def test_a_peer_with_another_protocol_is_refused_and_the_reason_names_both_versions(
    simulation: Simulation, role: str, name: str
) -> None:
    peer = getattr(simulation, role)()
    peer.die()
    simulation.advance(70.0)
    peer.is_gone, peer.protocol_version = False, 99
    peer.connect()
    simulation.run()
    reply = peer.said(HelloReply)[-1]
    assert reply.accepted == 0
    assert reply.reason == (
        f"this {name} (scaler 9.9.9) speaks protocol 99, the scheduler (scaler 1.2.3) speaks protocol "
        f"{PROTOCOL_VERSION}: install the same version of scaler on both sides"
    )
    assert simulation.tree.directory.peers == simulation.tree.directory.connected == {}


def test_a_protected_scheduler_refuses_to_shut_down(simulation: Simulation) -> None:
    client = simulation.client()
    client.leave(GoodbyeKind.SHUTDOWN)
    simulation.run()
    (response,) = client.said(ClientShutdownResponse)
    assert response.accepted == 0
    assert "--no-protected" in response.reason
    assert simulation.shut_downs == 0
    assert len(simulation.sessions(ClientSession)) == 1


def test_an_unprotected_scheduler_sends_the_agents_away_and_shuts_down() -> None:
    simulation = Simulation(scheduler_config(protected=False))
    client, agent = simulation.client(), simulation.agent(2)
    client.leave(GoodbyeKind.SHUTDOWN)
    simulation.run()
    assert client.said(ClientShutdownResponse) == [ClientShutdownResponse(1, "")]
    assert agent.said(DisconnectResponse) == [DisconnectResponse("a client shut the scheduler down")]
    assert simulation.shut_downs == 1


def test_a_peer_that_sends_garbage_repeats_its_hello_and_keeps_its_session(simulation: Simulation) -> None:
    client = simulation.client()
    (session,) = simulation.sessions(ClientSession)
    simulation.router.deliver(client.connection, b"garbage", [])
    simulation.run()
    assert client.said(HelloRequest)
    assert simulation.sessions(ClientSession) == [session]
    assert simulation.edge.statistics()["bad_messages"] == 1


def test_an_acceptor_that_fails_is_restarted_and_knows_its_peers() -> None:
    simulation = Simulation()
    client, agent = simulation.client(), simulation.agent()
    before = set(simulation.tree.directory.connected)
    simulation.fail(simulation.tree.acceptor)
    client.submit(3)
    simulation.advance(5.0)
    assert set(simulation.tree.directory.connected) == before
    assert len(client.results) == 3
    assert agent.said(HelloRequest) == []
    client.connect()
    simulation.run()
    assert len(simulation.sessions(ClientSession)) == 1


def newcomer(simulation: Simulation, role: str, python: str) -> Any:
    """Return a peer with another Python that has sent its hello."""
    peer = getattr(simulation, role)()
    peer.leave()
    simulation.run()
    peer.is_gone, peer.python_version = False, python
    peer.connect()
    simulation.run()
    return peer


REASON = (
    "runs Python 3.12, the connected workers run Python 3.11: functions cannot travel between them; run both "
    "with the same minor version of Python"
)


@pytest.mark.parametrize(("role", "name"), [("client", "client"), ("agent", "cluster")])
def test_a_peer_with_another_python_than_the_workers_is_refused(simulation: Simulation, role: str, name: str) -> None:
    agent = simulation.agent()
    other = newcomer(simulation, role, "3.12.1")
    reply = other.said(HelloReply)[-1]
    assert (reply.accepted, reply.reason) == (0, f"this {name} {REASON}")
    agent.leave()
    simulation.run()
    assert simulation.tree.directory.pythons == {}
    other.connect()
    simulation.run()
    assert other.said(HelloReply)[-1].accepted == 1


def test_a_waiting_client_of_another_python_is_refused_when_workers_join(simulation: Simulation) -> None:
    """The client is refused when workers join, and its tasks do not run there."""
    odd, plain, good = newcomer(simulation, "client", "3.12.1"), newcomer(simulation, "client", ""), simulation.client()
    for client in (odd, good):
        client.submit(2)
    simulation.run()
    agent = simulation.agent(2)
    simulation.advance(5.0)
    assert agent.said(HelloReply)[-1].accepted == 1
    assert [request.reason for request in odd.said(HelloRequest)] == [f"this client {REASON}"]
    assert (odd.said(HelloReply)[-1].accepted, odd.said(HelloReply)[-1].reason) == (0, f"this client {REASON}")
    assert len(good.results) == 2
    assert plain.said(HelloRequest) == []
    assert {run.task_id for run in agent.started} == set(good.results)
    assert simulation.tree.directory.pythons == {("3.11", "client"): 1, ("3.11", "cluster"): 1}


def test_a_refused_peer_is_forgotten(simulation: Simulation) -> None:
    simulation.agent()
    for _ in range(5):
        newcomer(simulation, "client", "3.12.1")
    assert simulation.tree.directory.pythons == {("3.11", "cluster"): 1}


def test_a_client_and_an_agent_with_the_same_id_are_two_peers(simulation: Simulation) -> None:
    client, agent = simulation.client(), simulation.agent()
    agent.agent_id = AgentId(client.client_id)
    agent.connect()
    simulation.run()
    assert len(simulation.sessions(ClientSession)) == 1
    assert len(simulation.sessions(AgentSession)) == 2


def test_a_client_that_reconnects_has_the_account_that_its_tasks_name(simulation: Simulation) -> None:
    first, second = simulation.client(), simulation.client()
    assert [client.said(HelloReply)[-1].account for client in (first, second)] == [0, 1]
    simulation.restart()
    for client in (second, first):
        client.connect()
        simulation.run()
    assert [client.said(HelloReply)[-1].account for client in (first, second)] == [0, 1]


@pytest.mark.parametrize(("policy", "accounts"), [("fair", [0, 1]), ("fifo", [0, 0])])
def test_clients_have_accounts_of_their_own_only_if_they_take_turns(policy: str, accounts: list[int]) -> None:
    simulation = Simulation(scheduler_config(policy=policy))
    clients, agent = [simulation.client(), simulation.client()], simulation.agent(2)
    for client in clients:
        client.submit(1)
        simulation.run()
    assert [run.account for run in agent.started] == accounts


def test_clients_share_the_limits_of_open_tasks_and_bytes() -> None:
    simulation = Simulation(scheduler_config(client_tasks=100, client_bytes=1000, open_tasks=240, open_bytes=3000))
    replies = [simulation.client().said(HelloReply)[0] for _ in range(4)]
    assert [(reply.window_tasks, reply.window_bytes) for reply in replies] == [
        (100, 1000),
        (100, 1000),
        (80, 1000),
        (60, 750),
    ]


def test_only_the_owner_of_a_session_can_resume_it(simulation: Simulation) -> None:
    client = simulation.client(user="alice")
    [session] = simulation.sessions(ClientSession)
    thief = simulation.client(user="bob")
    thief.client_id, own = client.client_id, thief.client_id
    thief.is_welcome = False
    thief.connect()
    simulation.run()
    assert thief.said(HelloReply)[-1].reason == "its id is in use by a peer that does not belong to bob"
    assert not thief.is_welcome
    assert simulation.tree.directory.connected[client.connection].session is session.actor_ref
    thief.client_id = own
    client.connect()
    simulation.run()
    assert simulation.tree.directory.connected[client.connection].session is session.actor_ref
    simulation.advance(10.0)  # that of the refused client ends


@pytest.mark.parametrize("policy", [FAIR, FIFO])
def test_an_account_belongs_to_the_user_of_the_connection(policy: str) -> None:
    simulation = Simulation(scheduler_config(policy=policy))
    for user in ("alice", "bob", "alice"):
        simulation.client(user=user)
    accounts = simulation.tree.directory.accounts
    numbers = [session._account for session in simulation.sessions(ClientSession)]
    assert sorted(map(number_of, numbers)) == ([0, 0, 1] if policy == FAIR else [0, 0, 0])
    owners = sorted(accounts.owner_of(number).name for number in set(numbers))
    assert owners == (["alice", "alice", "bob"] if policy == FAIR else ["alice", "bob"])
