"""Strangers at the socket file of a scheduler: whatever they say, or do not read, its peers go on."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import struct
from pathlib import Path

import psutil
import pytest
import zmq

from scaler import Client
from scaler.transport.framing import GREETING
from scaler.transport.streams import ARE_SUPPORTED
from tests.support.processes import command, scheduler, wait_until

pytestmark = [
    pytest.mark.faults,
    pytest.mark.skipif(not ARE_SUPPORTED, reason="there are no streams here"),
]

MIB = 1024 * 1024
FRAME_BYTES = 60 * MIB


def resident_bytes(pid: int) -> int:
    return int(psutil.Process(pid).memory_info().rss)


def test_strangers_that_send_garbage_or_half_a_message_do_no_harm(tmp_path: Path) -> None:
    with (
        scheduler(f"ipc://{tmp_path}/s") as (address, running),
        command("cluster", address, "-n", "1"),
        Client(address) as client,
        contextlib.ExitStack() as stack,
    ):
        assert client.submit(pow, 2, 3).result(60) == 8
        before = resident_bytes(running.pid)
        words = (b"GET / HTTP/1.1\r\n\r\n", os.urandom(100), GREETING + b"\xff" * 100, GREETING[:5])
        for number in range(100):
            stranger = stack.enter_context(socket.socket(socket.AF_UNIX))
            stranger.connect(f"{tmp_path}/s")
            stranger.sendall(words[number % len(words)])
            half = stack.enter_context(socket.socket(socket.AF_UNIX))
            half.connect(f"{tmp_path}/s")
            half.sendall(GREETING + struct.pack("<II", 1, FRAME_BYTES) + bytes(1000))
        for number in range(100):
            assert client.submit(pow, number, 2).result(60) == number * number
        assert resident_bytes(running.pid) - before < 50 * MIB, "100 halves of 60 MiB"
        running.signal(signal.SIGTERM)
        assert running.end() == 0


def test_a_flood_of_valid_messages_is_slowed_down_and_other_peers_continue(tmp_path: Path) -> None:
    """What is no hello ends the connection; until then, and behind it, no more is taken than is read."""
    message = struct.pack("<II", 1, 100_000) + bytes(100_000)
    with (
        scheduler(f"ipc://{tmp_path}/s") as (address, running),
        command("cluster", address, "-n", "1"),
        Client(address) as client,
    ):
        assert client.submit(pow, 2, 3).result(60) == 8
        before = resident_bytes(running.pid)
        with socket.socket(socket.AF_UNIX) as flood:
            flood.connect(f"{tmp_path}/s")
            with contextlib.suppress(ConnectionError):  # it is hung up on after 64 messages
                flood.sendall(GREETING + 1000 * message)
            assert client.map(pow, [(number, 2) for number in range(100)]) == [number**2 for number in range(100)]
        assert resident_bytes(running.pid) - before < 50 * MIB


def test_a_peer_of_zeromq_at_a_file_is_hung_up_on(tmp_path: Path) -> None:
    """It may try again and again; TCP is the way for other languages."""
    with (
        scheduler(f"ipc://{tmp_path}/s") as (address, _),
        zmq.Context() as context,
        context.socket(zmq.DEALER) as peer,
        Client(address) as client,
    ):
        peer.setsockopt(zmq.LINGER, 0)
        monitor = peer.get_monitor_socket(zmq.EVENT_DISCONNECTED | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL)
        peer.connect(address)
        peer.send(b"hello")
        assert monitor.poll(60_000)
        assert client.info() is not None
        peer.disable_monitor()
        monitor.close()


def test_a_scheduler_that_was_killed_is_followed_by_another_at_the_same_file(tmp_path: Path) -> None:
    large = os.urandom(30 * MIB)
    with contextlib.ExitStack() as stack:
        address, first = stack.enter_context(scheduler(f"ipc://{tmp_path}/s"))
        stack.enter_context(command("cluster", address, "-n", "2"))
        client = stack.enter_context(Client(address))
        assert client.submit(len, large).result(60) == len(large)
        futures = [client.submit(bytes.__add__, large, b"%d" % number) for number in range(4)]
        os.kill(first.pid, signal.SIGKILL)
        wait_until(lambda: first.process.poll() is not None, "it has ended")
        stack.enter_context(scheduler(address))
        assert [future.result(120)[-1:] for future in futures] == [b"0", b"1", b"2", b"3"]
