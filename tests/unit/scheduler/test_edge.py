"""The edge counts messages; a bad peer loses only its own connection."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from scaler.actors.sessions.agent_session import AgentSession
from scaler.actors.sessions.client_session import ClientSession
from scaler.actors.sessions.nested_session import NestedSession
from scaler.endpoint import Endpoint
from scaler.ids import ClientId, Connection, ObjectId
from scaler.process import shell as shell_module
from scaler.process.shell import Shell
from scaler.scheduler import edge
from scaler.scheduler.edge import FIRST_BYTES, MESSAGES_MOST, REMEMBERED, SchedulerEdge, UnknownConnections
from scaler.transport.opening import open_transport
from scaler.transport.streams import StreamListener
from scaler.wire.codec.codec import encode, encode_message
from scaler.wire.messages.client import ClientDisconnect, ClientHeartbeat, ClientHello, GoodbyeKind
from scaler.wire.messages.common import (
    PROTOCOL_VERSION,
    HelloRequest,
    InstructionKind,
    ObjectInstruction,
    ObjectRequest,
    ObjectResponse,
    TaskStatus,
)
from scaler.wire.messages.directions import AGENT_TO_SCHEDULER, CLIENT_TO_SCHEDULER, Direction
from scaler.wire.messages.worker import DisconnectRequest, WorkerHello
from scaler.wire.session.pipe import Message
from scaler.wire.session.transfer import WINDOW_BYTES
from tests.support.configs import scheduler_config
from tests.support.processes import wait_until
from tests.support.simulation import SimulatedClient, Simulation


@pytest.fixture
def simulation() -> Simulation:
    return Simulation(scheduler_config(client_timeout_seconds=10.0, worker_timeout_seconds=6.0, crash_limit=1))


def say(simulation: Simulation, client: SimulatedClient, hello: ClientHello | WorkerHello) -> None:
    """Send another hello on the connection of a client."""
    direction = CLIENT_TO_SCHEDULER if isinstance(hello, ClientHello) else AGENT_TO_SCHEDULER
    ((header, frames),) = encode(direction, [hello])
    simulation.router.deliver(client.connection, header, frames)
    simulation.run()


def test_messages_are_sent_before_the_scheduler_handles_its_own_mail(simulation: Simulation) -> None:
    client, agent = simulation.client(), simulation.agent(2)
    to, there_is_more = list[Connection](), list[bool]()

    def flush() -> None:
        simulation.edge.flush()
        to.extend(connection for connection, *_ in simulation.router.outgoing)
        there_is_more.append(simulation.dispatcher.has_mail)
        simulation._deliver()

    client.submit(1)
    simulation.advance(1.0)  # the agent has the function now
    client.submit(1)
    simulation.edge.receive()
    simulation.dispatcher.run(flush=flush)
    assert to == [agent.connection]
    assert there_is_more == [True, True, False], "the balancer is to place; the task is to hear where it is; nothing"
    to.clear()
    there_is_more.clear()
    simulation.clock.advance(0.1)
    agent.on_time(simulation.clock())
    simulation.edge.receive()
    simulation.dispatcher.run(flush=flush)
    assert to == [client.connection]
    assert there_is_more == [True, False], "the balancer is to hear that a place is free; nothing"


def test_tasks_assigned_in_one_turn_to_workers_of_one_agent_are_one_message(simulation: Simulation) -> None:
    client, agent = simulation.client(), simulation.agent(4)
    client.submit(1)
    simulation.advance(1.0)  # the agent has the function now
    client.submit(12)
    simulation.edge.receive()
    simulation.dispatcher.run(flush=simulation.edge.flush)
    assert [connection for connection, *_ in simulation.router.outgoing] == [agent.connection]
    simulation.advance(1.0)
    assert client.statuses() == [TaskStatus.SUCCESS] * 13


def test_a_message_that_cannot_be_written_ends_only_the_connection_of_its_peer(
    simulation: Simulation, caplog: pytest.LogCaptureFixture
) -> None:
    bad, good = simulation.client(), simulation.client()
    (task_id,) = good.submit()
    before = bad.connection
    with caplog.at_level(logging.ERROR):
        simulation.tree.outbox.put(simulation.tree.directory.connected[bad.connection], object())
        simulation.agent()
        simulation.advance(1.0)
    assert good.statuses() == [TaskStatus.SUCCESS]
    assert good.results[task_id].status == TaskStatus.SUCCESS
    assert bad.said(HelloRequest)[-1].reason == "the scheduler could not encode a message to you"
    assert bad.connection != before
    assert "cannot be encoded" in caplog.text
    bad.submit()
    simulation.advance(1.0)
    assert bad.statuses() == [TaskStatus.SUCCESS]


def test_a_message_that_cannot_be_read_ends_only_the_connection_of_its_peer(
    simulation: Simulation, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_message: object) -> None:
        raise MemoryError

    bad, good = simulation.client(), simulation.client()
    before = bad.connection
    with monkeypatch.context() as patch:
        patch.setattr(simulation.tree.directory.connected[before].pipe, "receive", fails)
        bad.submit()
        (task_id,) = good.submit()
        simulation.run()
    assert "a message from you cannot be read" in bad.said(HelloRequest)[-1].reason
    assert "MemoryError" in caplog.text
    simulation.agent()
    simulation.advance(1.0)
    assert good.results[task_id].status == TaskStatus.SUCCESS
    assert bad.connection != before
    assert bad.statuses() == [TaskStatus.SUCCESS]


def test_a_broken_connection_is_handled_while_other_peers_keep_sending(simulation: Simulation) -> None:
    gone, busy = simulation.client(), simulation.client()
    ((header, frames),) = encode(CLIENT_TO_SCHEDULER, [ClientHeartbeat(1)])
    router, listener, connected = simulation.router, simulation.edge, simulation.tree.directory.connected
    simulation.close_connection(gone.connection)
    simulation.tree.outbox.put(connected[gone.connection], ObjectResponse(ObjectId(b"o" * 16), 0, ()))
    listener.flush()
    for _ in range(3):
        for _ in range(2 * edge.MESSAGES_PER_RECEIVE):
            router.deliver(busy.connection, header, frames)
        assert listener.receive()  # more messages wait
        simulation.clock.advance(edge.UNREAD_SECONDS)
    assert gone.connection not in connected
    assert busy.connection in connected


def test_a_goodbye_that_has_arrived_counts_before_the_end_of_its_connection(
    simulation: Simulation, caplog: pytest.LogCaptureFixture
) -> None:
    client = simulation.client()
    ((header, frames),) = encode(CLIENT_TO_SCHEDULER, [ClientDisconnect(GoodbyeKind.DISCONNECT)])
    simulation.router.deliver(client.connection, header, frames)
    simulation.router.open_connections.discard(client.connection)
    sent = simulation.edge.sent.n_messages
    assert simulation.edge.probe([client.connection]) == []
    assert simulation.edge.undeliverable == 1
    assert simulation.edge.sent.n_messages == sent
    simulation.run()
    assert simulation.sessions(ClientSession) == []
    assert "its connection broke" not in caplog.text


def test_a_goodbye_of_which_the_scheduler_was_not_told_counts_before_the_end_of_its_connection(
    simulation: Simulation, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The connection has ended between two looks of the event loop, and a message to it cannot be sent."""
    client, router, expected = simulation.client(), simulation.router, []
    ((header, frames),) = encode(CLIENT_TO_SCHEDULER, [ClientDisconnect(GoodbyeKind.DISCONNECT)])
    router.deliver(client.connection, header, frames)
    router.open_connections.discard(client.connection)
    receive = router.receive
    monkeypatch.setattr(router, "receive", lambda: receive() if expected else None)
    monkeypatch.setattr(router, "expect", lambda: expected.append(True))
    assert simulation.edge.probe([client.connection]) == []
    simulation.run()
    assert simulation.sessions(ClientSession) == []
    assert "its connection broke" not in caplog.text


@pytest.mark.parametrize("direction", [CLIENT_TO_SCHEDULER, AGENT_TO_SCHEDULER])
def test_a_goodbye_counts_although_it_is_read_long_after_the_end_of_its_connection(
    simulation: Simulation, direction: Direction
) -> None:
    """Other peers have sent so many messages that the scheduler has already closed the connection."""
    agent, busy = simulation.agent(), simulation.client()
    nested = simulation.nested_client(agent)
    is_client = direction is CLIENT_TO_SCHEDULER
    gone = nested if is_client else agent
    goodbye = ClientDisconnect(GoodbyeKind.DISCONNECT) if is_client else DisconnectRequest("end")
    ((beat, _),), ((header, _),) = encode(CLIENT_TO_SCHEDULER, [ClientHeartbeat(1)]), encode(direction, [goodbye])
    object_id = nested.create(b"content")
    simulation.run()
    simulation.close_connection(gone.connection)
    for _ in range(2 * edge.MESSAGES_PER_RECEIVE):
        simulation.router.deliver(busy.connection, beat, [])
    simulation.router.deliver(gone.connection, header, [])
    simulation.clock.advance(edge.UNREAD_SECONDS)
    simulation.run()
    assert simulation.sessions(NestedSession) == []
    assert len(simulation.sessions(AgentSession)) == is_client
    assert object_id not in simulation.tree.objects.objects


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:*", "ipc://*"])
def test_a_goodbye_on_a_real_socket_counts_before_the_end_of_its_connection(
    simulation: Simulation, address: str
) -> None:
    """A client in a task sends many messages at once, and disconnects. Streams report the end after the last one."""
    token = simulation.agent().agent_token
    transport = open_transport(Endpoint.parse(address))
    listener = transport.listen(60)
    scheduler, peer = SchedulerEdge(listener, simulation.tree), open_transport(listener.endpoint)
    dialer = peer.dial()

    def turn() -> list[NestedSession]:
        listener.expect()
        scheduler.receive()
        simulation.dispatcher.run(flush=scheduler.flush)
        return simulation.sessions(NestedSession)

    hello = ClientHello(PROTOCOL_VERSION, "9.9.9", "3.11.1", "3.1.1", ClientId(b"c" * 16), token, 1)
    dialer.send(*encode_message(CLIENT_TO_SCHEDULER, [hello]))
    wait_until(turn, "a session")
    wait_until(dialer.receive, "its answer")  # TCP drops sent bytes if the sender closes with unread ones
    for number in range(edge.MESSAGES_PER_RECEIVE + 9):
        dialer.send(*encode_message(CLIENT_TO_SCHEDULER, [ObjectRequest(ObjectId(b"o" * 16))], number + 1))
    dialer.send(*encode_message(CLIENT_TO_SCHEDULER, [ClientDisconnect(GoodbyeKind.DISCONNECT)], number + 2))
    dialer.close(10.0)
    lost: list[Connection] = []

    def has_ended() -> list[Connection]:
        if isinstance(listener, StreamListener):
            turn()
        lost.extend(listener.lost())
        return lost

    wait_until(has_ended, "the end of the connection")
    wait_until(lambda: not scheduler.probe(lost), "a refusal to send there")
    simulation.clock.advance(edge.UNREAD_SECONDS)
    wait_until(lambda: not turn(), "the end of the session")
    peer.close()
    listener.close()
    transport.close()


def test_a_second_hello_ends_a_connection(simulation: Simulation) -> None:
    client = simulation.client()
    before = client.connection
    say(simulation, client, client.hello())
    assert "a second hello on one connection" in client.said(HelloRequest)[-1].reason
    assert client.connection != before
    assert len(simulation.sessions(ClientSession)) == 1


def test_a_connection_that_was_a_client_is_never_an_agent(simulation: Simulation) -> None:
    """Otherwise messages for the client would reach the agent, which cannot read them."""
    client = simulation.client()
    client.is_gone = True  # it receives nothing from here on
    own = (client.protocol_version, "9.9.9", client.python_version, "3.1.1", b"a" * 16, "worker", b"")
    for _ in range(2):
        simulation.router.deliver(client.connection, b"garbage", [])
        say(simulation, client, WorkerHello(*own))
    assert simulation.sessions(AgentSession) == []
    assert simulation.tree.directory.connected == {}
    good = simulation.client()
    good.submit(20)
    simulation.agent()
    simulation.advance(5.0)
    assert good.statuses() == [TaskStatus.SUCCESS] * 20


def test_two_hellos_in_one_turn_are_one_peer(simulation: Simulation) -> None:
    client = simulation.client()
    client.comes_back = False
    client.cut()
    simulation.run()
    connection = simulation.open_connection(client)
    simulation.router.deliver(
        Connection(b"stranger"), b"garbage", []
    )  # while there is little traffic, messages are taken one at a time
    for identity in (b"1" * 16, b"2" * 16):
        own = (client.protocol_version, "9.9.9", client.python_version, "3.1.1", identity)
        ((header, frames),) = encode(CLIENT_TO_SCHEDULER, [ClientHello(*own)])
        simulation.router.deliver(connection, header, frames)
    simulation.run()
    assert [peer.session._actor for peer in simulation.tree.directory.connected.values()] == [
        session for session in simulation.sessions(ClientSession) if session._client_id == b"1" * 16
    ]


def test_received_and_sent_items_are_counted_by_the_name_of_the_message() -> None:
    simulation = Simulation()
    client, _ = simulation.client(), simulation.agent()
    client.submit(3)
    simulation.advance(5.0)
    received, sent = simulation.edge.received.by_name(), simulation.edge.sent.by_name()
    assert (received["Task"], received["RunResult"], received["ClientHello"], received["WorkerHello"]) == (3, 3, 1, 1)
    assert (sent["RunTask"], sent["TaskResult"], sent["HelloReply"]) == (3, 3, 2)
    assert received["ClientHeartbeat"] == sent["ClientHeartbeatEcho"] > 0


def test_counted_messages_and_bytes_are_those_of_the_socket() -> None:
    simulation = Simulation()
    client, _ = simulation.client(), simulation.agent()
    client.create(b"an object")
    simulation.router.deliver(client.connection, b"garbage", [b"more"])
    simulation.advance(1.0)
    ways = {"in": (0, 0), "out": (0, 0)}
    for _, way, _, header, frames in simulation.router.log:
        count, size = ways[way]
        ways[way] = count + 1, size + len(header) + sum(map(len, frames))
    counts = simulation.edge.statistics()
    assert (counts["messages_received"], counts["bytes_received"]) == ways["in"]
    assert (counts["messages_sent"], counts["bytes_sent"]) == ways["out"]
    assert counts["bad_messages"] == 1


def test_the_scheduler_keeps_nothing_of_a_refused_client(simulation: Simulation) -> None:
    """Its Python version must not become the one that other peers are compared with."""
    stranger = simulation.client()
    stranger.die()
    simulation.advance(20.0)
    connection = simulation.open_connection(stranger)
    hello = ClientHello(stranger.protocol_version, "9.9.9", "9.9.9", "3.1.1", b"1" * 16, b"no such agent...")
    ((header, frames),) = encode(CLIENT_TO_SCHEDULER, [hello])
    simulation.router.deliver(connection, header, frames)
    simulation.run()
    assert simulation.tree.directory.pythons == {}
    client = simulation.client()
    simulation.agent()
    client.submit()
    simulation.advance(1.0)
    assert client.statuses() == [TaskStatus.SUCCESS]


def test_the_loss_of_a_connection_sends_nothing_to_other_clients(simulation: Simulation) -> None:
    others = [simulation.client() for _ in range(3)]
    lost = simulation.client()
    lost.comes_back = False
    before = [len(other.heard) for other in others]
    lost.cut()
    simulation.run()
    assert lost.connection not in simulation.tree.directory.connected
    assert [len(other.heard) for other in others] == before


def test_a_stranger_that_sends_more_than_a_hello_is_disconnected(simulation: Simulation) -> None:
    connection = simulation.open_connection(simulation.client())
    for _ in range(MESSAGES_MOST):
        simulation.router.deliver(connection, b"garbage", [])
    simulation.run()
    assert connection in simulation.router.open_connections
    for _ in range(10):
        simulation.router.deliver(connection, b"garbage", [])
    simulation.run()
    assert connection not in simulation.router.open_connections
    assert simulation.edge.statistics()["bad_messages"] == MESSAGES_MOST + 10


def test_a_first_message_that_is_too_large_for_a_hello_is_not_read_and_ends_its_connection(
    simulation: Simulation,
) -> None:
    client = simulation.client()
    for extra, is_there in ((0, True), (1, False)):
        connection = simulation.open_connection(client)
        simulation.router.deliver(connection, bytes(FIRST_BYTES - 100), [memoryview(bytes(100 + extra))])
        simulation.run()
        assert (connection in simulation.router.open_connections) is is_there


def test_a_turn_is_bounded_in_items(simulation: Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edge, "ITEMS_PER_RECEIVE", 10)
    client = simulation.client()
    for _ in range(5):
        simulation.router.deliver(client.connection, *encode(CLIENT_TO_SCHEDULER, [ClientHeartbeat(1)] * 4)[0])
    assert simulation.edge.receive()
    assert len(simulation.router._incoming) == 4  # until now, messages were taken one at a time
    assert simulation.edge.receive()
    assert len(simulation.router._incoming) == 1


def test_a_single_message_is_answered_before_the_next_receive(simulation: Simulation) -> None:
    client, asked = simulation.client(), []
    receive = simulation.router.receive

    def counted() -> Any:
        message = receive()
        asked.append(message is not None)
        return message

    simulation.router.receive = counted  # type: ignore[method-assign]
    for _ in range(2):
        simulation.router.deliver(client.connection, *encode(CLIENT_TO_SCHEDULER, [ClientHeartbeat(1)])[0])
        simulation.run()
    assert asked == [True, False] * 2


def test_messages_for_a_peer_that_acknowledges_nothing_are_bounded_and_it_is_disconnected(
    caplog: pytest.LogCaptureFixture,
) -> None:
    simulation = Simulation(scheduler_config(kept_bytes=1_000_000))
    deaf, good = simulation.client(), simulation.client()
    object_ids = [client.create(bytes(5_000_000)) for client in (deaf, good)]
    simulation.run()
    deaf.receive = lambda *_: None  # type: ignore[method-assign]
    for client, object_id in zip((deaf, good), object_ids, strict=True):
        client.fetch(object_id)
    peer, connection = simulation.tree.directory.connected[deaf.connection], good.connection
    simulation.advance(edge.UNACKNOWLEDGED_SECONDS - 1.0)
    assert peer.pipe.size_bytes() > 4_000_000
    simulation.advance(3.0)
    assert peer.pipe.size_bytes() == 0
    assert "more than 1000000 bytes wait, and nothing was acknowledged for 10 s" in caplog.text
    assert list(simulation.tree.directory.connected) == [connection]
    assert good.said(ObjectResponse)


def test_messages_for_a_slow_peer_are_not_dropped() -> None:
    """A slow peer acknowledges some messages."""
    simulation = Simulation(scheduler_config(kept_bytes=1_000_000))
    slow = simulation.client()
    object_id = slow.create(bytes(5_000_000))
    simulation.run()
    take, waiting = slow.receive, []
    slow.receive = lambda *message: waiting.append(message)  # type: ignore[method-assign]
    slow.fetch(object_id)
    for _ in range(5):
        simulation.advance(edge.UNACKNOWLEDGED_SECONDS - 2.0)
        for _ in range(10):  # echoes of heartbeats among them
            take(*waiting.pop(0))
    assert not slow.said(ObjectResponse)
    assert list(simulation.tree.directory.connected) == [slow.connection]


def test_chunks_that_arrive_while_other_peers_are_answered_are_acknowledged_in_the_same_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise the window of a large value stays closed until another peer sends a message."""
    monkeypatch.setattr(shell_module, "TURNS_SECONDS", 60.0)
    simulation = Simulation(scheduler_config())
    client, other = simulation.client(), simulation.client()
    shell = Shell("builtin")
    shell.dispatcher, shell._edge = simulation.dispatcher, simulation.edge
    flush = simulation.edge.flush
    waiting: list[Message] = []
    monkeypatch.setattr(client, "_send", lambda *messages: waiting.extend(messages))
    client.say(ObjectInstruction(InstructionKind.CREATE, ObjectId(b"o" * 16), "", (bytes(10 * WINDOW_BYTES),)))
    assert sum(len(frame) for _, frames in waiting for frame in frames) == WINDOW_BYTES

    def answer() -> bool:
        """Deliver all that the window allows while the scheduler answers another peer."""
        for header, frames in waiting:
            simulation.router.deliver(client.connection, header, frames)
        waiting.clear()
        return flush()

    monkeypatch.setattr(simulation.edge, "flush", answer)
    turns = 0
    while waiting:
        turns += 1
        ((header, frames),) = encode(CLIENT_TO_SCHEDULER, [ClientHeartbeat(turns)])
        simulation.router.deliver(other.connection, header, frames)
        shell.turn()
        simulation._deliver()
    assert not client.session.pipe.has_pending
    assert turns <= 12, "each turn opens the window"
    shell.loop.close()


ONE = Connection(b"one")


def test_messages_of_unknown_connections_are_counted_for_each() -> None:
    strangers = UnknownConnections()
    assert [strangers.add_message(ONE), strangers.add_message(Connection(b"other")), strangers.add_message(ONE)] == [
        1,
        1,
        2,
    ]
    strangers.remove(ONE)
    strangers.remove(ONE)
    assert strangers.add_message(ONE) == 1


def test_only_the_latest_unknown_connections_are_remembered() -> None:
    strangers = UnknownConnections()
    strangers.add_message(Connection(b"silent"))
    strangers.add_message(ONE)
    for number in range(REMEMBERED - 1):
        strangers.add_message(Connection(b"%d" % number))
        strangers.add_message(ONE)
    assert len(strangers) == REMEMBERED
    assert strangers.add_message(ONE) == REMEMBERED + 1
    assert strangers.add_message(Connection(b"silent")) == 1
