"""ClientConnection: batches over a real socket, wake-ups, and lost connections."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Iterator

import pytest
import zmq

from scaler.client.link.connection import ClientConnection
from scaler.endpoint import Endpoint
from scaler.errors import ProtocolError
from scaler.transport.opening import open_transport
from scaler.transport.sockets import RouterSocket
from scaler.wire.codec.codec import decode, encode
from scaler.wire.messages.client import ClientHeartbeat, ClientHeartbeatEcho
from scaler.wire.messages.directions import CLIENT_TO_SCHEDULER, SCHEDULER_TO_CLIENT

SECONDS = 10.0


class Ends:
    """A connection, a router for it, and a pipe that wakes it."""

    def __init__(self) -> None:
        self.wake_read, self.wake_write = os.pipe()
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.router = RouterSocket(self._context, Endpoint.parse("tcp://127.0.0.1:0"))
        self.connection = ClientConnection(open_transport(self.router.endpoint), self.wake_read)

    def arrived_at_router(self) -> tuple[bytes, list[object]]:
        poller = zmq.Poller()
        poller.register(self.router._socket, zmq.POLLIN)
        assert poller.poll(SECONDS * 1000)
        received = self.router.receive()
        assert received is not None
        return received[0], list(decode(CLIENT_TO_SCHEDULER, received[1], received[2]))

    def wait_for_message(self) -> list[object]:
        while (batches := self.connection.receive()) is None:
            ready = self.connection.wait(SECONDS)
            assert self.connection.look(ready) != (False, True)
        return list(batches)

    def close(self) -> None:
        self.connection.end()
        self.router.close()
        self._context.term()
        os.close(self.wake_read)
        os.close(self.wake_write)


@pytest.fixture
def ends() -> Iterator[Ends]:
    ends = Ends()
    yield ends
    ends.close()


def test_a_connection_sends_items_and_receives_batches(ends: Ends) -> None:
    ends.connection.open()
    ends.connection.send_unnumbered(ClientHeartbeat(7))
    peer, batches = ends.arrived_at_router()
    assert batches == [[ClientHeartbeat(7)]]
    for header, frames in encode(SCHEDULER_TO_CLIENT, [ClientHeartbeatEcho(7)]):
        ends.router.send(peer, header, frames)  # type: ignore[arg-type]
    assert ends.wait_for_message() == [[ClientHeartbeatEcho(7)]]
    assert ends.connection.receive() is None
    assert not ends.connection.has_message()


def test_another_thread_ends_a_wait(ends: Ends) -> None:
    os.write(ends.wake_write, b"x")
    assert set(ends.connection.wait(SECONDS)) == {ends.wake_read}  # also without a connection
    ends.connection.open()
    assert ends.wake_read in ends.connection.wait(SECONDS)


def test_a_malformed_message_raises_a_protocol_error(ends: Ends) -> None:
    ends.connection.open()
    ends.connection.send_unnumbered(ClientHeartbeat(7))
    peer, _ = ends.arrived_at_router()
    ends.router.send(peer, b"garbage", [])  # type: ignore[arg-type]
    with pytest.raises(ProtocolError):
        ends.wait_for_message()


def test_any_error_while_reading_a_message_is_a_protocol_error(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_message: object) -> None:
        raise RuntimeError("a mistake of the codec")

    ends.connection.open()
    ends.connection.send_unnumbered(ClientHeartbeat(7))
    peer, _ = ends.arrived_at_router()
    monkeypatch.setattr(ends.connection.session.pipe, "receive", fails)
    for header, frames in encode(SCHEDULER_TO_CLIENT, [ClientHeartbeatEcho(7)]):
        ends.router.send(peer, header, frames)  # type: ignore[arg-type]
    with pytest.raises(ProtocolError, match="a mistake of the codec"):
        ends.wait_for_message()
    assert not ends.connection.session.may_resume(resumed=1)


def test_a_lost_connection_is_noticed(ends: Ends) -> None:
    ends.connection.open()
    ends.connection.send_unnumbered(ClientHeartbeat(7))
    ends.arrived_at_router()
    ends.router.close()
    while not ends.connection.look(ready := ends.connection.wait(SECONDS))[1]:
        assert ready
        ends.connection.receive()


def test_a_closed_connection_is_silent_and_can_be_opened_again(ends: Ends) -> None:
    ends.connection.open()
    ends.connection.close()
    assert not ends.connection.is_open
    ends.connection.send_unnumbered(ClientHeartbeat(1))
    assert ends.connection.receive() is None
    assert ends.connection.look({0}) == (False, False)
    ends.connection.open()
    ends.connection.send_unnumbered(ClientHeartbeat(2))
    assert ends.arrived_at_router()[1] == [[ClientHeartbeat(2)]]


def test_a_connection_that_was_set_aside_is_neither_read_nor_closed(ends: Ends) -> None:
    ends.connection.open()
    ends.connection.send_unnumbered(ClientHeartbeat(7))
    first, _ = ends.arrived_at_router()
    ends.connection.set_aside()
    ends.router.send(first, b"into the air", [])  # type: ignore[arg-type]
    assert not ends.connection.is_open
    ends.connection.open()
    ends.connection.send_unnumbered(ClientHeartbeat(8))
    ends.arrived_at_router()
    assert ends.connection.receive() is None
    assert ends.router.lost() == []
    ends.connection.close_aside()
    deadline = time.monotonic() + SECONDS
    while not (lost := ends.router.lost()):
        assert time.monotonic() < deadline
        select.select([ends.router.monitor_descriptor], [], [], 0.02)
    assert first in lost


def test_an_address_that_cannot_be_connected_to_is_an_error(ends: Ends) -> None:
    connection = ClientConnection(open_transport(Endpoint.parse("nonsense")), ends.wake_read)
    with pytest.raises(OSError):
        connection.open()
    assert not connection.is_open
    connection.end()


def test_the_end_of_a_scheduler_in_this_process_is_noticed_at_the_next_send() -> None:
    wake, other_end = os.pipe()
    transport = open_transport(Endpoint.parse("inproc://scheduler"))
    connection = ClientConnection(open_transport(Endpoint.parse("inproc://scheduler")), wake)
    for _ in range(2):
        router = transport.listen(60)
        connection.open()
        connection.send_unnumbered(ClientHeartbeat(1))
        assert connection.look(set()) == (False, False)
        router.close()
        deadline = time.monotonic() + SECONDS
        while not connection.look(set())[1]:
            assert time.monotonic() < deadline
            connection.send_unnumbered(ClientHeartbeat(2))
        connection.close()
    connection.end()
    transport.close()
    os.close(wake)
    os.close(other_end)
