"""Fifty peers, most of whose messages are spoiled, beside one honest client: it gets all of its results."""

from __future__ import annotations

import logging
import random
import signal
from typing import Any

import psutil
import pytest
import zmq

from scaler import Client
from scaler.keys.key_file import CLIENT, WORKER
from scaler.wire.codec.codec import encode_message
from scaler.wire.messages.client import ClientHello
from scaler.wire.messages.common import PROTOCOL_VERSION
from scaler.wire.messages.directions import AGENT_TO_SCHEDULER, CLIENT_TO_SCHEDULER, Direction
from scaler.wire.messages.worker import WorkerHello
from tests.support.fresh import fresh_seed
from tests.support.keys import connect
from tests.support.make_vectors import sample
from tests.support.processes import Command, command, scheduler, wait_until

pytestmark = pytest.mark.faults

PEERS = 50
GROWTH_BYTES_MOST = 64 * 1024 * 1024
KNOWN_MOST = 2_000
"""Peers that the scheduler takes for connected, of some 10,000 that come in the long test; 50 are there at a time. It
may learn late that one has gone, for what has arrived from it is read first."""
GIVES_BACK_SECONDS = 180.0
"""The scheduler looks every 5 s whether there is memory to give back, and pauses longer after each vain attempt."""
CALLS = [(number, 2) for number in range(50)]
RESULTS = [number * number for number in range(50)]


def spoiled(message: list[Any], chance: random.Random) -> list[Any]:
    """A message with some bits flipped, a piece cut out, or one frame too many or too few."""
    parts = list(message)
    way = chance.randrange(8)
    if way == 0:
        parts.append(chance.randbytes(20))
    elif way == 1:
        parts[0] = parts[0][: chance.randrange(len(parts[0]))]
    elif way == 2 and len(parts) > 1:
        parts.pop()
    else:
        place = 0 if chance.random() < 0.9 else chance.randrange(len(parts))
        data = bytearray(parts[place] or b"\0")
        for _ in range(chance.randrange(1, 9)):
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        parts[place] = bytes(data)
    return parts


class Peer:
    """A client or an agent that says all that its kind can say, and little of it as it should."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], address: str, chance: random.Random, name: int) -> None:
        self._context, self._address, self._chance = context, address, chance
        self._is_client = bool(name % 2)
        self._direction: Direction = CLIENT_TO_SCHEDULER if self._is_client else AGENT_TO_SCHEDULER
        not_said = (ClientHello, WorkerHello)
        self._kinds = [batch.item for batch in self._direction.batches if batch.item not in not_said]
        self._connect()

    def _connect(self) -> None:
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.setsockopt(zmq.LINGER, 1000)
        connect(self._socket, self._address, CLIENT if self._is_client else WORKER)
        self._number = 0
        peer_id = self._chance.randbytes(16)
        if self._is_client:
            hello: Any = ClientHello(PROTOCOL_VERSION, "0", "", "", peer_id)
        else:
            hello = WorkerHello(PROTOCOL_VERSION, "0", "", "", peer_id, "one,two\n\x1b[2J", b"")
        header, frames = encode_message(self._direction, [hello])
        if self._chance.random() < 0.1:
            self._socket.send_multipart(spoiled([header, *frames], self._chance))
        self._socket.send_multipart([header, *frames])

    def say(self) -> None:
        chance = self._chance
        items = [sample(chance.choice(self._kinds), chance.randrange(3)) for _ in range(chance.randrange(1, 4))]
        self._number += 1
        header, frames = encode_message(self._direction, items, self._number)
        message = [header, *frames]
        is_good = chance.random() < 0.3
        self._socket.send_multipart(message if is_good else spoiled(message, chance))
        if not is_good and chance.random() < 0.3:
            self.close()
            self._connect()

    def close(self) -> None:
        self._socket.close()


@pytest.mark.parametrize(
    ("seed", "messages"),
    [(1, 2_000), pytest.param(None, 50_000, marks=[pytest.mark.soak, pytest.mark.timeout(600)])],
    ids=["some", "many"],
)
def test_spoiled_messages_cost_their_senders_only(seed: int | None, messages: int) -> None:
    seed = fresh_seed() if seed is None else seed
    print(f"seed {seed}")
    chance = random.Random(seed)
    with (
        # Workers that never work get tasks, too, and each that is lost counts as a death of the task it was given.
        scheduler(None, "-wt", "1", "-ct", "1", "--crash-limit", "100000") as (address, running),
        command("cluster", address, "-n", "2", "-hi", "0.3") as cluster,
        zmq.Context() as context,
        Client(address) as client,
    ):
        context.set(zmq.MAX_SOCKETS, 4096)
        assert client.map(pow, CALLS) == RESULTS
        before = psutil.Process(running.pid).memory_info().rss
        peers = [Peer(context, address, chance, number) for number in range(PEERS)]
        futures = []
        for number in range(messages):
            chance.choice(peers).say()
            if number % (messages // 20) == 0:
                futures += [client.submit(pow, *call) for call in CALLS]
                there = client.info()
                assert there.clients + there.clusters < KNOWN_MOST
        for peer in peers:
            peer.close()
        assert [future.result(60) for future in futures] == RESULTS * 20, running.output[-3000:]
        nothing_is_kept(running, client, before)
        assert logging.getLevelName(logging.ERROR) not in cluster.output
        ends_in_order(running)


def nothing_is_kept(running: Command, client: Client, before: int) -> None:
    """Of the peers that are gone nothing is left.

    A scheduler that gets less of the processors than its peers has messages of theirs before it. ZeroMQ keeps them, and
    some 30 KiB for each connection, closed or not, until they are read. So the memory is compared when all is read, and
    when the C library was asked to give back what is free.
    """

    def who_is_there() -> tuple[int, int, int]:
        there = client.info()
        return there.clients, there.clusters, there.workers

    wait_until(lambda: who_is_there() == (1, 1, 2), "only the honest ones are there", GIVES_BACK_SECONDS)
    process = psutil.Process(running.pid)

    def has_given_back() -> bool:
        return process.memory_info().rss - before < GROWTH_BYTES_MOST

    wait_until(has_given_back, "the memory of the others is given back", GIVES_BACK_SECONDS, pause_seconds=0.1)


def ends_in_order(running: Command) -> None:
    """Nothing has reached the handler of last resort, and no actor has failed."""
    running.signal(signal.SIGTERM)
    assert running.end() == 0
    ended = running.wait_for("scheduler: ended")
    usual = tuple(f"[{logging.getLevelName(level)}]" for level in (logging.INFO, logging.WARNING))
    unusual = "\n".join(line for line in running.lines if not line.startswith(usual))
    assert not unusual, unusual[:5000]
    assert ", 0 of its actors' handlers failed" in ended
    assert "\x1b" not in running.output
