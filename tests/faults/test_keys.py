"""Strangers at the door of a scheduler with keys: nobody gets in, and nobody else notices."""

from __future__ import annotations

import contextlib
import logging
import random
import signal
import socket
import time
from collections.abc import Sequence

import psutil
import pytest
import zmq

from scaler import Client
from scaler.endpoint import Endpoint
from scaler.transport.admission.listener_probe import mechanism_at
from tests.support.fresh import fresh_seed
from tests.support.processes import Command, command, scheduler, wait_until
from tests.support.strangers import GREETING, garble, knock, knocking
from tests.support.tap import Tap
from tests.support.timing import at_best

pytestmark = pytest.mark.faults

GROWTH_BYTES_MOST, BYTES_MOST = 10 * 1024 * 1024, 250 * 1024 * 1024


def ends_in_order(running: Command) -> None:
    running.signal(signal.SIGTERM)
    assert running.end() == 0
    ended = running.wait_for("scheduler: ended")
    assert ", 0 of its actors' handlers failed" in ended
    assert logging.getLevelName(logging.ERROR) not in running.output


@pytest.mark.parametrize("handshakes", [300, pytest.param(10_000, marks=[pytest.mark.soak, pytest.mark.timeout(1200)])])
def test_of_many_wrong_keys_none_gets_in_and_nothing_is_kept(handshakes: int) -> None:
    with scheduler() as (address, running), command("cluster", address, "-n", "1"), Client(address) as client:
        assert client.submit(pow, 2, 10).result(60) == 1024
        process = psutil.Process(running.pid)
        with zmq.Context() as context:
            for number in range(handshakes):
                knock(address, context)
                if number == 50:
                    before = process.memory_info().rss
            assert client.info().clients == 1
        wait_until(lambda: process.memory_info().rss - before < GROWTH_BYTES_MOST, "what they took is given back", 60)
        assert client.submit(pow, 2, 10).result(60) == 1024
        refusals = running.output.count("refused a connection from 127.0.0.1: its key is not on the list")
        assert 1 <= refusals < handshakes  # the others are counted
        ends_in_order(running)


@pytest.mark.thorough
def test_fifty_wrong_handshakes_a_second_fail_no_task() -> None:
    with scheduler() as (address, running), command("cluster", address, "-n", "2"), Client(address) as client:
        client.wait_for_workers(2, 60)
        with knocking(address, 50) as count:
            wait_until(lambda: count() > 5, "strangers come")
            assert client.map(abs, [(-number,) for number in range(20_000)]) == list(range(20_000))
            wait_until(lambda: count() > 20, "more strangers come")
        assert client.info().clients == 1
        ends_in_order(running)


@pytest.mark.thorough
def test_silent_connections_are_closed_in_some_ten_seconds() -> None:
    with scheduler() as (address, running), contextlib.ExitStack() as stack:
        endpoint = Endpoint.parse(address)
        peers = [stack.enter_context(socket.create_connection(("127.0.0.1", int(endpoint.port)))) for _ in range(300)]
        wait_until(lambda: connections(running) >= 300, "they are taken")
        began = time.monotonic()
        wait_until(lambda: connections(running) == 0, "they are closed")
        assert time.monotonic() - began < 30  # 10 s, on a machine that has time for it
        assert all(peer.recv(100, socket.MSG_DONTWAIT)[:1] == b"\xff" for peer in peers[:1])
        assert mechanism_at(endpoint) == "CURVE"
        ends_in_order(running)


OTHER_PROTOCOLS = {
    "ZMTP 1": b"\x01\x00\x06\x00hello",
    "ZMTP 2": b"\xff" + bytes(7) + b"\x01\x7f\x01\x05\x00\x00\x00\x05hello",
    "NULL": GREETING.replace(b"CURVE", b"NULL\0") + b"\x04\x26\x05READY\x0bSocket-Type\x00\x00\x00\x06DEALER",
    "PLAIN": GREETING.replace(b"CURVE", b"PLAIN") + b"\x04\x10\x05HELLO\x04user\x04pass",
    "a web page": b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello",
}


def hung_up_after(address: str, said: Sequence[bytes], pause_seconds: float = 0.0) -> float:
    """Say something on a new connection. Return after how many seconds it was ended."""
    endpoint = Endpoint.parse(address)
    with socket.create_connection((endpoint.host, int(endpoint.port)), 30) as peer:
        began = time.monotonic()
        with contextlib.suppress(OSError):
            for each in said:
                peer.sendall(each)
                time.sleep(pause_seconds)
            while peer.recv(4096):
                pass
        return time.monotonic() - began - pause_seconds * len(said)


@pytest.mark.parametrize("protocol", OTHER_PROTOCOLS)
def test_other_protocols_are_hung_up_on_within_a_second(protocol: str) -> None:
    with scheduler() as (address, running), Client(address) as client:
        assert client.info().clients == 1
        seconds = at_best(lambda: hung_up_after(address, [OTHER_PROTOCOLS[protocol]]), 1.0)
        assert seconds < 1.0
        assert client.info().clients == 1
        ends_in_order(running)


def test_a_recorded_handshake_cannot_be_replayed() -> None:
    with scheduler() as (address, running), command("cluster", address, "-n", "1"), Client(address) as watcher:
        with contextlib.closing(Tap(address)) as tap:
            with Client(tap.address) as client:
                assert client.submit(pow, 2, 10).result(60) == 1024
            heard = list(tap.heard)
        wait_until(lambda: watcher.info().clients == 1, "the client has left")
        assert len(heard) > 3  # greeting, hello, initiation, and what it had to say
        assert b"pow" not in b"".join(heard)
        assert hung_up_after(address, heard, 0.05) < 20
        assert watcher.info().clients == 1
        ends_in_order(running)


def test_one_bit_that_flips_on_the_way_ends_the_connection_and_changes_no_result() -> None:
    chance, flips = random.Random(1), [0]

    def flip(data: bytes, n_heard: int) -> bytes:
        """One bit of what a client says once it is in, of which there are many small messages."""
        if flips[0] < 3 and n_heard > 8 * (flips[0] + 1):
            flips[0] += 1
            spoilt = bytearray(data)
            spoilt[chance.randrange(9, len(spoilt))] ^= 1 << chance.randrange(8)
            return bytes(spoilt)
        return data

    with scheduler() as (address, running), command("cluster", address, "-n", "1"):
        with contextlib.closing(Tap(address, flip)) as tap, Client(tap.address) as client:
            for number in range(300):
                assert client.submit(pow, number, 2).result(60) == number**2
            assert flips[0] == 3
            assert tap.connections >= 4  # a handshake that takes long on a busy machine begins anew
        ends_in_order(running)


def connections(running: Command) -> int:
    found = psutil.Process(running.pid).net_connections("tcp")
    return sum(each.status == psutil.CONN_ESTABLISHED for each in found)


@pytest.mark.parametrize(
    ("seed", "n"),
    [(1, 1_000), pytest.param(None, 100_000, marks=[pytest.mark.soak, pytest.mark.timeout(3000)])],
)
def test_invalid_handshakes_affect_no_other_connection(seed: int | None, n: int) -> None:
    seed = fresh_seed() if seed is None else seed
    print(f"seed {seed}")
    with scheduler() as (address, running), command("cluster", address, "-n", "1"), Client(address) as client:
        assert client.submit(pow, 2, 10).result(60) == 1024
        futures = [client.submit(pow, 2, 10) for _ in range(100)]
        assert garble(address, n, random.Random(seed)) > 2 * n
        assert [future.result(60) for future in futures] == [1024] * 100
        assert client.submit(pow, 2, 11).result(60) == 2048
        assert client.info().clients == 1
        assert psutil.Process(running.pid).memory_info().rss < BYTES_MOST
        ends_in_order(running)
