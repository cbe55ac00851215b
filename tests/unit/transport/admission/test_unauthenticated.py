"""Unauthenticated peers are bounded, in bytes and in number."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator

import pytest
import zmq

from scaler.endpoint import Endpoint
from scaler.keys.folder import KeyPair
from scaler.transport.admission import unauthenticated
from scaler.transport.admission.authenticator import AdmissionKeys
from scaler.transport.admission.unauthenticated import UnauthenticatedPeers
from scaler.transport.sockets import RouterSocket
from scaler.transport.unread import IS_SUPPORTED

SERVER, CLIENT = KeyPair.new(), KeyPair.new()


@pytest.fixture
def router() -> Iterator[RouterSocket]:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    admission_keys = AdmissionKeys(
        SERVER.secret, lambda public, _address: 200 if public == CLIENT.public else 400, bool
    )
    router = RouterSocket(context, Endpoint.parse("tcp://127.0.0.1:*"), admission_keys=admission_keys)
    yield router
    router.close()
    context.term()


def connected(router: RouterSocket, stack: contextlib.ExitStack) -> socket.socket:
    peer = socket.create_connection(("127.0.0.1", int(router.endpoint.port)), 30)
    return stack.enter_context(peer)


def serve(router: RouterSocket, until: float) -> int:
    """Look as a scheduler does, until a time. Return the number of peers that were disconnected."""
    count = 0
    while time.monotonic() < until:
        router.authenticate()
        router.lost()
        count += router.look(0)
        time.sleep(0.005)
    return count


def is_closed(peer: socket.socket) -> bool:
    peer.settimeout(0.05)
    try:
        while True:
            if not peer.recv(4096):
                return True
    except TimeoutError:
        return False
    except OSError:
        return True


@pytest.mark.skipif(not IS_SUPPORTED, reason="the system does not count what comes")
def test_an_unauthenticated_peer_that_sends_too_much_is_disconnected(
    router: RouterSocket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unauthenticated, "BYTES_MOST", 100_000)
    greeting = b"\xff" + bytes(8) + b"\x7f\x03\x01" + b"CURVE".ljust(20, b"\0") + bytes(32)
    endless = b"\x06" + (1 << 40).to_bytes(8, "big")  # a command that is too long to ever end
    with contextlib.ExitStack() as stack:
        talker, silent = connected(router, stack), connected(router, stack)
        with contextlib.suppress(OSError):
            talker.sendall(greeting + endless + bytes(200_000))
        serve(router, time.monotonic() + 0.5)
        assert is_closed(talker)
        assert not is_closed(silent)


def test_unauthenticated_peers_per_address_are_bounded_and_the_first_stay(
    router: RouterSocket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unauthenticated, "FROM_ONE_ADDRESS_MOST", 5)
    with contextlib.ExitStack() as stack:
        peers = []
        for _ in range(8):
            peers.append(connected(router, stack))
            serve(router, time.monotonic() + 0.05)
        serve(router, time.monotonic() + 0.2)
        assert [is_closed(peer) for peer in peers] == [False] * 5 + [True] * 3


def test_an_authenticated_peer_no_longer_counts_as_unauthenticated(
    router: RouterSocket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unauthenticated, "FROM_ONE_ADDRESS_MOST", 1)
    monkeypatch.setattr(unauthenticated, "BYTES_MOST", 50_000)
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    dealers = []
    try:
        for _ in range(3):
            dealer = context.socket(zmq.DEALER)
            dealer.setsockopt_string(zmq.CURVE_SERVERKEY, SERVER.public)
            dealer.setsockopt_string(zmq.CURVE_PUBLICKEY, CLIENT.public)
            dealer.setsockopt_string(zmq.CURVE_SECRETKEY, CLIENT.secret)
            dealer.connect(router.endpoint.address)
            dealers.append(dealer)
            for size in (10, 100_000):
                dealer.send(bytes(size))
                message, deadline = None, time.monotonic() + 30
                while message is None and time.monotonic() < deadline:
                    router.authenticate()
                    message = router.receive()
                assert message is not None
            router.lost()
            assert router.look(0) == 0
        assert router._unauthenticated is not None
        assert len(router._unauthenticated) == 0
    finally:
        for dealer in dealers:
            dealer.close(0)
        context.term()


def test_a_reused_descriptor_is_counted_once() -> None:
    known = UnauthenticatedPeers()
    with socket.socket() as one:
        for _ in range(3):
            known.open(one.fileno())
        assert len(known) == 1
        known.close(one.fileno())
        known.close(one.fileno())
        assert len(known) == 0
        assert known.over(lambda _descriptor: False) == []
