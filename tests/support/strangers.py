"""Strangers: peers without a valid key, for tests that measure what they cost other peers."""

from __future__ import annotations

import contextlib
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator

import zmq

from scaler.endpoint import Endpoint
from scaler.keys.finding import keys_for
from scaler.keys.folder import KeyPair
from scaler.keys.key_file import CLIENT

GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x01" + b"CURVE".ljust(20, b"\0") + bytes(32)
HELLO = b"\x05HELLO\x01\x00" + bytes(72)
FRAME = b"\x04" + bytes([len(HELLO) + 114])
COMMANDS = [
    FRAME + HELLO + bytes(114),
    b"\x04\x06\x05READY",
    b"\x04\x0b\x08INITIATE\x00\x00",
    b"\x06" + (1 << 62).to_bytes(8, "big"),
    b"\x00\x05hello",
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
]


def knock(address: str, context: zmq.Context[zmq.Socket[bytes]]) -> None:
    """Connect with an unknown key, send a message, and wait until the connection is refused."""
    stranger = KeyPair.new()
    with context.socket(zmq.DEALER) as peer:
        peer.setsockopt(zmq.LINGER, 0)
        peer.setsockopt_string(zmq.CURVE_SERVERKEY, keys_for(Endpoint.parse(address), CLIENT)[0].servers[0])
        peer.setsockopt_string(zmq.CURVE_PUBLICKEY, stranger.public)
        peer.setsockopt_string(zmq.CURVE_SECRETKEY, stranger.secret)
        with peer.get_monitor_socket(zmq.EVENT_HANDSHAKE_FAILED_AUTH | zmq.EVENT_HANDSHAKE_SUCCEEDED) as events:
            peer.connect(address)
            with contextlib.suppress(zmq.Again):  # it was refused before
                peer.send(b"anything", zmq.NOBLOCK)
            assert events.poll(30_000)
            assert int.from_bytes(events.recv_multipart()[0][:2], "little") == zmq.EVENT_HANDSHAKE_FAILED_AUTH
            peer.disable_monitor()


@contextlib.contextmanager
def knocking(address: str, per_second: float) -> Iterator[Callable[[], int]]:
    """Let strangers connect as long as the block lasts. Yield a function that returns their number."""
    end, count = threading.Event(), 0

    def run() -> None:
        nonlocal count
        with zmq.Context() as context:
            due = time.monotonic()
            while not end.wait(max(0.0, due - time.monotonic())):
                knock(address, context)
                count += 1
                due += 1 / per_second

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield lambda: count
    finally:
        end.set()
        thread.join()


def garble(address: str, connections: int, chance: random.Random) -> int:
    """Send handshakes with random mistakes on `connections` connections. Return the number of their commands."""
    endpoint, n_sent = Endpoint.parse(address), 0
    for _ in range(connections):
        with contextlib.suppress(OSError), socket.create_connection((endpoint.host, int(endpoint.port)), 30) as peer:
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            peer.sendall(_spoilt(GREETING, chance) if chance.random() < 0.3 else GREETING)
            for _ in range(5):
                n_sent += 1
                peer.sendall(_spoilt(chance.choice(COMMANDS), chance))
    return n_sent


def _spoilt(data: bytes, chance: random.Random) -> bytes:
    """Return data with some bytes changed, cut off or appended."""
    spoilt = bytearray(data)
    for _ in range(chance.randrange(4)):
        spoilt[chance.randrange(len(spoilt))] = chance.randrange(256)
    if chance.random() < 0.2:
        del spoilt[chance.randrange(len(spoilt)) :]
    return bytes(spoilt) + (chance.randbytes(chance.randrange(300)) if chance.random() < 0.2 else b"")
