"""Hostile peers, as a program of its own: garbage among genuine messages, half connections, and huge frames.

Arguments: what to do, the scheduler's address, how much, and a seed. It ends by itself.
"""

from __future__ import annotations

import os
import random
import socket
import sys
import time
from urllib.parse import urlparse

import zmq

from scaler.ids import random_id
from scaler.keys.key_file import CLIENT, WORKER
from scaler.wire.codec.codec import encode
from scaler.wire.messages.client import ClientHello
from scaler.wire.messages.common import PROTOCOL_VERSION
from scaler.wire.messages.directions import AGENT_TO_SCHEDULER, CLIENT_TO_SCHEDULER
from scaler.wire.messages.worker import WorkerHello
from tests.faults.test_garbage import flip_bits, genuine
from tests.support.keys import connect

PEERS = 50
HUGE_BYTES = 200 << 20
GARBAGE_AT_ONCE = 500


def hello(number: int) -> bytes:
    """Return a genuine hello: of a client or of an agent whose workers will never work."""
    if number % 2:
        [(header, _)] = encode(CLIENT_TO_SCHEDULER, [ClientHello(PROTOCOL_VERSION, "0", "", "", random_id())])
    else:
        agent = WorkerHello(PROTOCOL_VERSION, "0", "", "", random_id(), f"phantom{number}", b"")
        [(header, _)] = encode(AGENT_TO_SCHEDULER, [agent])
    return header


def message(samples: list[bytes], chance: random.Random) -> list[bytes]:
    """Return noise, a message with some bits flipped, a good one with frames too many, or just a good one."""
    sample = chance.choice(samples)
    return chance.choice(
        [
            [chance.randbytes(chance.randrange(1, 300))],
            [flip_bits(sample, chance)],
            [sample, *(chance.randbytes(20) for _ in range(chance.randrange(4)))],
            [sample],
        ]
    )


def garbage(address: str, amount: int, chance: random.Random) -> None:
    """Fifty peers say bad and good messages in any order; half of them begin with a genuine hello."""
    with zmq.Context() as context:
        peers = [context.socket(zmq.DEALER) for _ in range(PEERS)]
        hellos = [hello(number) for number in range(PEERS)]
        for number, peer in enumerate(peers):
            peer.setsockopt(zmq.LINGER, 0)
            connect(peer, address, CLIENT if number % 2 else WORKER)
            if number % 4 < 2:
                peer.send(hellos[number])
        samples = [*genuine(), *hellos]
        for number in range(amount):
            try:
                chance.choice(peers).send_multipart(message(samples, chance), zmq.DONTWAIT)
            except zmq.Again:
                time.sleep(0.01)  # the scheduler takes no more from this peer at present
            if number % GARBAGE_AT_ONCE == 0:
                time.sleep(0.05)
        time.sleep(1.0)  # what waits in the sockets goes out
        for peer in peers:
            peer.close()


def flood(address: str, amount: int, chance: random.Random) -> None:
    """Many connections that say nothing, half of a greeting, or one byte at a time."""
    where = urlparse(address)
    target = (where.hostname, where.port)
    found = []
    for _ in range(amount):
        try:
            found.append(socket.create_connection(target, timeout=2))
        except OSError:
            time.sleep(0.01)
    greeting = b"\xff\0\0\0\0\0\0\0\1\x7f\3\0NULL"
    for step in range(10):
        for number, each in enumerate(found):
            try:
                if number % 3:
                    each.send(greeting[step : step + 1] if number % 3 == 1 else chance.randbytes(100))
            except OSError:
                pass  # the scheduler has hung up, as it may
        time.sleep(0.5)
    for each in found:
        each.close()


def huge(address: str, amount: int, _chance: random.Random) -> None:
    """Frames that are larger than any that is allowed, of peers that have said no hello."""
    with zmq.Context() as context:
        for _ in range(amount):
            peer = context.socket(zmq.DEALER)
            peer.setsockopt(zmq.LINGER, 2000)
            connect(peer, address)
            peer.send(bytes(HUGE_BYTES))
            time.sleep(1.0)
            peer.close()


if __name__ == "__main__":
    _, _what, _address, _amount, _seed = sys.argv
    {"garbage": garbage, "flood": flood, "huge": huge}[_what](_address, int(_amount), random.Random(_seed))
    os._exit(0)  # a message that can never be sent keeps nobody
