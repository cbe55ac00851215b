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

from tests.faults.test_garbage import flip_bits, genuine

PEERS = 50
HUGE_BYTES = 200 << 20
GARBAGE_AT_ONCE = 500


def garbage(address: str, amount: int, chance: random.Random) -> None:
    """Fifty peers say bad and good messages in any order; some begin with a genuine hello of a client or an agent."""
    samples = genuine()
    with zmq.Context() as context:
        peers = [context.socket(zmq.DEALER) for _ in range(PEERS)]
        for number, peer in enumerate(peers):
            peer.setsockopt(zmq.LINGER, 0)
            peer.connect(address)
            if number % 2:
                peer.send(samples[0])
        for number in range(amount):
            peer = chance.choice(peers)
            sort = chance.randrange(4)
            if sort == 0:
                parts = [chance.randbytes(chance.randrange(1, 300))]
            elif sort == 1:
                parts = [flip_bits(chance.choice(samples), chance)]
            elif sort == 2:
                parts = [chance.choice(samples), *(chance.randbytes(20) for _ in range(chance.randrange(4)))]
            else:
                parts = [chance.choice(samples)]
            try:
                peer.send_multipart(parts, zmq.DONTWAIT)
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
            peer.connect(address)
            peer.send(bytes(HUGE_BYTES))
            time.sleep(1.0)
            peer.close()


if __name__ == "__main__":
    _, _what, _address, _amount, _seed = sys.argv
    {"garbage": garbage, "flood": flood, "huge": huge}[_what](_address, int(_amount), random.Random(_seed))
    os._exit(0)  # a message that can never be sent keeps nobody
