"""The network model itself: order, rates, holes and resets are what they say."""

from __future__ import annotations

from typing import Any

import pytest

from scaler.transport.interface import PeerGoneError
from tests.simulation.lanes import OVERHEAD_BYTES, Way
from tests.simulation.network import DialerModel, Network, TransportModel
from tests.simulation.world import Party, World


class Peer(Party):
    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name, name)
        self.woken = 0

    def wake(self, _descriptor: int) -> None:
        self.woken += 1


class Bench:
    def __init__(self, **way: Any) -> None:
        self.world = World(0)
        self.network = Network(self.world)
        self.network.ways["peer"] = Way(**{"delay": 0.1, **way})
        scheduler = Peer(self.world, "scheduler")
        self.peer = Peer(self.world, "peer")
        self.listener = TransportModel(self.network, scheduler).listen(60.0)
        self.dialer: DialerModel = TransportModel(self.network, self.peer).dial()
        self.dialer.send(b"hello", [])
        self.world.run(0.35)

    def arrived(self) -> list[bytes]:
        arrived = []
        while (message := self.listener.receive()) is not None:
            arrived.append(message[1])
        return arrived

    def connection(self) -> Any:
        message = self.listener.receive()
        assert message is not None
        return message[0]


def test_messages_arrive_after_the_delay_and_in_order() -> None:
    bench = Bench(jitter=1.0)
    for number in range(10):
        bench.dialer.send(b"%d" % number, [])
    bench.world.run(3.0)
    assert bench.arrived()[-10:] == [b"%d" % number for number in range(10)]


def test_a_large_message_takes_as_long_as_the_rate_says() -> None:
    bench = Bench(rate=1000.0)
    bench.world.run(1.0)
    bench.arrived()
    bench.dialer.send(b"", [bytes(5000 - OVERHEAD_BYTES)])
    bench.world.run(5.0)
    assert bench.arrived() == []
    bench.world.run(0.2)
    assert bench.arrived() == [b""]


def test_messages_sent_into_a_network_hole_arrive_after_it() -> None:
    bench = Bench()
    connection = bench.connection()
    bench.network.hole("peer", up=True, down=False)
    bench.dialer.send(b"up", [])
    bench.listener.send(connection, b"down", [])
    bench.world.run(10.0)
    assert bench.arrived() == []
    assert bench.dialer.receive() == (b"down", [])
    bench.network.heal("peer")
    bench.world.run(2.0)
    assert bench.arrived() == [b"up"]


def test_after_a_reset_both_ends_know() -> None:
    bench = Bench()
    connection = bench.connection()
    bench.network.reset("peer")
    assert bench.dialer.was_cut()
    assert bench.listener.lost() == [connection]
    with pytest.raises(PeerGoneError):
        bench.listener.send(connection, b"x", [])


def test_an_endpoint_learns_of_a_reset_when_it_sends() -> None:
    bench = Bench()
    connection = bench.connection()
    bench.network.reset("peer", tells_listener=False)
    assert bench.listener.lost() == []
    bench.listener.send(connection, b"x", [])
    bench.world.run(1.0)
    assert bench.listener.lost() == [connection]
    assert bench.dialer.receive() is None


def test_the_socket_gives_up_a_silent_connection_and_not_before_its_time() -> None:
    bench = Bench()
    bench.network.hole("peer", up=True, down=True)
    bench.world.run(70.0)
    assert bench.listener.lost() == []
    bench.world.run(20.0)
    assert len(bench.listener.lost()) == 1


def test_messages_for_a_stopped_process_wait() -> None:
    bench = Bench()
    connection = bench.connection()
    bench.peer.pause()
    bench.listener.send(connection, b"one", [])
    bench.world.run(1.0)
    assert bench.dialer.receive() is None
    bench.peer.go_on()
    bench.world.run(0.1)
    assert bench.dialer.receive() == (b"one", [])


def test_a_stopped_process_accepts_connections_when_it_continues() -> None:
    bench = Bench()
    bench.arrived()
    bench.listener.party.pause()
    dialer = TransportModel(bench.network, bench.peer).dial()
    dialer.send(b"hello again", [])
    bench.world.run(10.0)
    assert dialer.line.listener is None
    bench.listener.party.go_on()
    bench.world.run(0.2)
    assert bench.arrived() == [b"hello again"]
