"""Which peers an authenticator accepts, over real sockets, and what is known of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import zmq

from scaler.endpoint import Endpoint
from scaler.keys.folder import KeyPair
from scaler.keys.key_file import KeyFile
from scaler.transport.admission.authenticator import AdmissionKeys
from scaler.transport.admission.keyring import NO_LONGER_LISTED, NOT_LISTED
from scaler.transport.interface import Dialer
from scaler.transport.opening import open_listening_transport
from scaler.transport.publisher import Publisher
from scaler.transport.zeromq import ZeroMQ
from tests.support.processes import free_address, wait_until

SERVER, ACCEPTED, REVOKED, UNKNOWN = (KeyPair.new() for _ in range(4))
CODES = {ACCEPTED.public: 200, REVOKED.public: NO_LONGER_LISTED}
LOCK = AdmissionKeys(
    SERVER.secret,
    lambda public, _address: CODES.get(public, NOT_LISTED),
    lambda public: CODES.get(public) == 200,
)


def key(pair: KeyPair, server: KeyPair = SERVER) -> KeyFile:
    return KeyFile("client", "alice", (), (server.public,), pair.public, pair.secret, Path("/keys/alice.json"))


class Place:
    """A listener with keys, and the peers that connect to it."""

    def __init__(self) -> None:
        endpoint = Endpoint.parse(free_address())
        self.transport = open_listening_transport(endpoint, 1, 64 << 20, 128 << 20, LOCK)
        self.listener = self.transport.listen(60)
        self.peers: list[ZeroMQ] = []
        self.dialers: list[list[Dialer]] = []
        """those of each, of which the last one is open"""

    def connect_peer(self, *keys: KeyFile) -> tuple[ZeroMQ, Callable[[], None]]:
        """Have a peer connect and send its hello repeatedly. Return the peer, and a function that lets both sides
        progress.
        """
        peer = ZeroMQ(self.listener.endpoint, keys=lambda: keys)
        self.peers.append(peer)
        dialers = [peer.dial()]
        dialers[0].send(b"hello", [])

        def move() -> None:
            self.listener.authenticate()
            if dialers[-1].was_cut() and not peer.refusal:
                dialers[-1].close()
                dialers.append(peer.dial())
                dialers[-1].send(b"hello", [])

        self.dialers.append(dialers)
        return peer, move

    def close(self) -> None:
        for peer, dialers in zip(self.peers, self.dialers, strict=True):
            dialers[-1].close()
            peer.close()
        self.listener.close()
        self.transport.close()


@pytest.fixture
def place() -> Iterator[Place]:
    place = Place()
    yield place
    place.close()


def test_a_registered_key_is_accepted_and_known_by_its_connection(place: Place) -> None:
    peer, move = place.connect_peer(key(ACCEPTED))
    received = wait_until(lambda: (move(), place.listener.receive())[1], "its hello")
    assert received[1] == b"hello"
    assert place.listener.key_of(received[0]) == ACCEPTED.public
    place.listener.forget(received[0])
    assert place.listener.key_of(received[0]) == ""
    assert not peer.refusal


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ([key(UNKNOWN)], "is not on the list"),
        ([key(REVOKED)], "it was revoked"),
        ([key(ACCEPTED, server=UNKNOWN)], "is not the scheduler that the key"),
        ([key(KeyPair(ACCEPTED.public, UNKNOWN.secret))], "is not the scheduler that the key"),
        ([], "accepts only peers with a key"),
    ],
)
def test_a_refused_peer_gets_the_reason_and_none_of_its_messages_is_received(
    place: Place, keys: list[KeyFile], text: str
) -> None:
    peer, move = place.connect_peer(*keys)
    refusal = wait_until(lambda: (move(), peer.refusal)[1], "a refusal", seconds=10)
    assert text in refusal
    assert place.listener.receive() is None


def test_of_several_keys_the_matching_one_is_found(place: Place) -> None:
    peer, move = place.connect_peer(key(UNKNOWN), key(ACCEPTED, server=UNKNOWN), key(ACCEPTED))
    received = wait_until(lambda: (move(), place.listener.receive())[1], "its hello", seconds=10)
    assert place.listener.key_of(received[0]) == ACCEPTED.public
    assert not peer.refusal


def test_a_peer_with_a_key_does_not_connect_to_a_listener_without_keys() -> None:
    transport = open_listening_transport(Endpoint.parse(free_address()), 1, 64 << 20, 128 << 20, None)
    listener = transport.listen(60)
    assert listener.authenticator_descriptor is None
    peer = ZeroMQ(listener.endpoint, keys=lambda: [key(ACCEPTED)])
    dialer = peer.dial()
    dialer.send(b"hello", [])
    wait_until(lambda: (dialer.was_cut(), peer.refusal)[1], "a refusal", seconds=10)
    assert "has no keys" in peer.refusal
    assert listener.receive() is None
    dialer.close()
    peer.close()
    listener.close()
    transport.close()


def test_viewers_are_accepted_by_their_keys_and_disconnected_when_these_end() -> None:
    publisher = Publisher(Endpoint.parse(free_address()), LOCK)
    with zmq.Context() as context:
        viewers = {}
        for name, pair in (("good", ACCEPTED), ("unknown", UNKNOWN)):
            viewer = viewers[name] = context.socket(zmq.SUB)
            viewer.setsockopt(zmq.LINGER, 0)
            viewer.setsockopt(zmq.RECONNECT_IVL, -1)
            viewer.setsockopt_string(zmq.CURVE_SERVERKEY, SERVER.public)
            viewer.setsockopt_string(zmq.CURVE_PUBLICKEY, pair.public)
            viewer.setsockopt_string(zmq.CURVE_SECRETKEY, pair.secret)
            viewer.setsockopt(zmq.SUBSCRIBE, name.encode())
        with viewers["unknown"].get_monitor_socket(zmq.EVENT_HANDSHAKE_FAILED_AUTH) as refusals:
            for viewer in viewers.values():
                viewer.connect(publisher.endpoint.address)
            changes: list[tuple[bool, bytes]] = []

            def both_arrived() -> bool:
                publisher.authenticate()
                changes.extend(publisher.changes(100))
                return bool(changes) and bool(refusals.poll(0))

            wait_until(both_arrived, "one subscription and one refusal")
            viewers["unknown"].disable_monitor()
        assert changes == [(True, b"good")]
        publisher.send(b"good", b"news")
        assert viewers["good"].recv_multipart() == [b"good", b"news"]
        with viewers["good"].get_monitor_socket(zmq.EVENT_DISCONNECTED) as ends:
            publisher.hang_up(frozenset({UNKNOWN.public}))
            assert not ends.poll(50)
            publisher.hang_up(frozenset({ACCEPTED.public}))
            assert ends.poll(10_000)
            viewers["good"].disable_monitor()
        for viewer in viewers.values():
            viewer.close()
    publisher.close()
