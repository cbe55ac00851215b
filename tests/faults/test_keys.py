"""Strangers at the door of a scheduler with keys: nobody gets in, and nobody else notices."""

from __future__ import annotations

import contextlib
import logging
import random
import signal
import socket
import time

import psutil
import pytest
import zmq

from scaler import Client
from scaler.endpoint import Endpoint
from scaler.transport.admission.greeting import mechanism_at
from tests.support.fresh import fresh_seed
from tests.support.processes import Command, command, scheduler, wait_until
from tests.support.strangers import garble, knock, knocking

pytestmark = pytest.mark.faults

GROWTH_BYTES_MOST = 10 * 1024 * 1024


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
def test_fifty_wrong_handshakes_a_second_fail_no_task_of_others() -> None:
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


def connections(running: Command) -> int:
    found = psutil.Process(running.pid).net_connections("tcp")
    return sum(each.status == psutil.CONN_ESTABLISHED for each in found)


@pytest.mark.parametrize(
    ("seed", "n"),
    [(1, 1_000), pytest.param(None, 100_000, marks=[pytest.mark.soak, pytest.mark.timeout(3000)])],
)
def test_what_is_no_handshake_costs_nobody_else_anything(seed: int | None, n: int) -> None:
    seed = fresh_seed() if seed is None else seed
    print(f"seed {seed}")
    with scheduler() as (address, running), command("cluster", address, "-n", "1"), Client(address) as client:
        assert client.submit(pow, 2, 10).result(60) == 1024
        futures = [client.submit(pow, 2, 10) for _ in range(100)]
        assert garble(address, n, random.Random(seed)) > 2 * n
        assert [future.result(60) for future in futures] == [1024] * 100
        assert client.submit(pow, 2, 11).result(60) == 2048
        assert client.info().clients == 1
        assert psutil.Process(running.pid).memory_info().rss < 250 * 1024 * 1024
        ends_in_order(running)
