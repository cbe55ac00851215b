"""Garbage and strangers on the scheduler's socket: counted, and nothing else happens."""

from __future__ import annotations

import logging
import os
import random
import signal
import socket

import psutil
import pytest
import zmq

from scaler import Client
from scaler.ids import random_id
from scaler.keys.key_file import WORKER
from scaler.wire.codec.codec import decode, encode
from scaler.wire.codec.schemas import SCHEMAS
from scaler.wire.messages.client import ClientHeartbeat, ClientHello, Task, TaskCancel
from scaler.wire.messages.common import PROTOCOL_VERSION, HelloRequest
from scaler.wire.messages.directions import AGENT_TO_SCHEDULER, CLIENT_TO_SCHEDULER, SCHEDULER_TO_CLIENT
from scaler.wire.messages.worker import RunResult, WorkerHello
from tests.support.keys import connect
from tests.support.processes import command, scheduler

pytestmark = pytest.mark.faults

BYTES_MOST = 250 * 1024 * 1024


def flip_bits(data: bytes, chance: random.Random) -> bytes:
    flipped = bytearray(data)
    for _ in range(chance.randrange(1, 9)):
        flipped[chance.randrange(len(flipped))] ^= 1 << chance.randrange(8)
    return bytes(flipped)


def genuine() -> list[bytes]:
    """Return some good messages to be spoiled."""
    ids = [random_id() for _ in range(3)]
    client = [
        ClientHello(PROTOCOL_VERSION, "0", "3", "3", random_id()),
        *[Task(i, ids[0], b"payload", b"") for i in ids],
        TaskCancel(ids[0]),
        ClientHeartbeat(1),
    ]
    agent = [
        *[RunResult(i, 0, 1, 0, b"x", 1, ()) for i in ids],
    ]
    return [
        header
        for direction, items in ((CLIENT_TO_SCHEDULER, client), (AGENT_TO_SCHEDULER, agent))
        for item in items
        for header, _ in encode(direction, [item])
    ]


@pytest.mark.parametrize(
    "messages", [10_000, pytest.param(500_000, marks=[pytest.mark.soak, pytest.mark.timeout(3000)])]
)
def test_bad_messages_of_peers_with_a_key_stop_nothing(messages: int) -> None:
    chance = random.Random(1)
    samples = genuine()
    with scheduler(None, "-ll", "DEBUG") as (address, running), command("cluster", address, "-n", "1"):
        context = zmq.Context()
        peers = [context.socket(zmq.DEALER) for _ in range(4)]
        try:
            for peer in peers:
                peer.setsockopt(zmq.LINGER, 5000)
                connect(peer, address)
            peers[1].send(samples[0])  # one of them says hello first: garbage from a known peer
            with Client(address) as client:
                for i in range(messages):
                    kind = i % 3
                    if kind == 0:
                        parts = [os.urandom(chance.randrange(1, 300))]
                    elif kind == 1:
                        parts = [flip_bits(chance.choice(samples), chance)]
                    else:
                        parts = [chance.choice(samples), b"", os.urandom(20)]
                    chance.choice(peers).send_multipart(parts)
                    if i % 1000 == 0:
                        assert client.submit(pow, i, 2).result(60) == i * i, running.output[-3000:]
                assert client.map(pow, [(i, 2) for i in range(100)]) == [i * i for i in range(100)]
                assert psutil.Process(running.pid).memory_info().rss < BYTES_MOST
        finally:
            for peer in peers:
                peer.close()
            context.term()
        running.signal(signal.SIGTERM)
        assert running.end() == 0
        ended = running.wait_for("scheduler: ended")
        assert ", 0 of its actors' handlers failed;" in ended
        assert "; 0 could not be read," not in ended
        errors = [line for line in running.output.splitlines() if line.startswith("[ERROR]")]
        assert all("is ended: 5 times in a row" in line for line in errors), errors  # the one that had said hello


def test_spoiled_hellos_of_workers_that_never_work_delay_tasks_and_lose_none() -> None:
    """Some of them can be read after all: the scheduler then gives tasks to workers that do not exist, for a while."""
    chance = random.Random(2)
    with (
        # Each phantom that is lost counts as a death of the task it was given first.
        scheduler(None, "-wt", "2", "--crash-limit", "1000") as (address, _),
        command("cluster", address, "-n", "1", "-hi", "0.5"),
        zmq.Context() as context,
        context.socket(zmq.DEALER) as peer,
        Client(address) as client,
    ):
        connect(peer, address, WORKER)
        for _ in range(200):
            hello = WorkerHello(PROTOCOL_VERSION, "0", "3", "3", random_id(), "phantom", b"")
            for header, _ in encode(AGENT_TO_SCHEDULER, [hello]):
                peer.send(header)
                peer.send(flip_bits(header, chance))
        assert client.map(pow, [(i, 2) for i in range(100)], timeout=60) == [i * i for i in range(100)]


def test_malformed_task_costs_its_sender_only() -> None:
    """Its object ids are no ids. An agent that asked for them could not even say so."""
    hello = ClientHello(PROTOCOL_VERSION, "0", "", "", random_id())
    task = {"count": 1, "taskId": random_id(), "functionId": random_id(), "payload": [b""], "objectIds": [b"abc"]}
    spoiled = SCHEMAS["client"].ClientToScheduler.new_message(direction=1, number=1, batches=[{"task": task}])
    with (
        scheduler() as (address, running),
        command("cluster", address, "-n", "1") as cluster,
        zmq.Context() as context,
        context.socket(zmq.DEALER) as peer,
        Client(address) as client,
    ):
        assert client.submit(pow, 1, 2).result(30) == 1
        connect(peer, address)
        peer.send(encode(CLIENT_TO_SCHEDULER, [hello])[0][0])
        assert decode(SCHEDULER_TO_CLIENT, peer.recv(), [])[0][0].accepted
        peer.send(spoiled.to_bytes())
        asked = decode(SCHEDULER_TO_CLIENT, peer.recv(), [])[0][0]
        assert isinstance(asked, HelloRequest), asked
        assert "rows" in asked.reason
        assert client.map(pow, [(i, 2) for i in range(100)]) == [i * i for i in range(100)]
        assert "down" not in cluster.output
        assert logging.getLevelName(logging.ERROR) not in running.output


def test_raw_bytes_on_the_port_stop_nothing() -> None:
    with scheduler() as (address, _), command("cluster", address, "-n", "1"), Client(address) as client:
        host, port = address.removeprefix("tcp://").split(":")
        for _ in range(50):
            with socket.create_connection((host, int(port))) as raw:
                raw.sendall(os.urandom(1000))
        assert client.submit(pow, 2, 3).result(30) == 8
