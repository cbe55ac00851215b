"""Peers that speak ZMTP by themselves, and send what no socket of ZeroMQ would: each costs itself, and nobody else."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading
from collections.abc import Iterator

import psutil
import pytest

from scaler import Client
from scaler.ids import random_id
from scaler.scheduler import scheduler as scheduler_module
from scaler.scheduler.scheduler import SchedulerProcess
from scaler.settings import SchedulerConfig
from scaler.transport.unread import IS_SUPPORTED
from scaler.wire.codec.codec import encode
from scaler.wire.messages.client import ClientHeartbeat, ClientHello
from scaler.wire.messages.common import PROTOCOL_VERSION
from scaler.wire.messages.directions import CLIENT_TO_SCHEDULER
from tests.support.keys import OPEN
from tests.support.processes import command, scheduler

pytestmark = [pytest.mark.faults, pytest.mark.skipif(not IS_SUPPORTED, reason="the system does not count what comes")]

GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x01" + b"NULL".ljust(20, b"\0") + bytes(32)
MORE, COMMAND = 1, 4
MIB = 1024 * 1024


def frame(body: bytes, flags: int = 0) -> bytes:
    """Return a frame of ZMTP 3."""
    if len(body) < 256:
        return bytes([flags, len(body)]) + body
    return bytes([flags | 2]) + len(body).to_bytes(8, "big") + body


READY = frame(b"\x05READY\x0bSocket-Type" + struct.pack(">I", 6) + b"DEALER", COMMAND)
PING = frame(b"\x04PING\0\0", COMMAND)


@contextlib.contextmanager
def raw_peer(address: str) -> Iterator[socket.socket]:
    """A TCP connection whose handshake as a DEALER is done."""
    host, port = address.removeprefix("tcp://").split(":")
    with socket.create_connection((host, int(port)), 30) as peer:
        peer.sendall(GREETING + READY)
        came = b""
        while b"READY" not in came:
            more = peer.recv(4096)
            if not more:
                raise ConnectionError("the scheduler has hung up")
            came += more
        yield peer


HELLO, BEAT = (
    frame(encode(CLIENT_TO_SCHEDULER, [item])[0][0])
    for item in (ClientHello(PROTOCOL_VERSION, "0", "", "", random_id()), ClientHeartbeat(1))
)


@contextlib.contextmanager
def scheduler_of_this_process() -> Iterator[str]:
    """A scheduler in a thread: its address."""
    process = SchedulerProcess(SchedulerConfig("tcp://127.0.0.1:*", insecure_let_everybody_run_code=True))
    lifeline, end = os.pipe()
    thread = threading.Thread(target=process.run, kwargs={"lifeline": lifeline})
    thread.start()
    try:
        yield process.endpoint.address
    finally:
        os.close(end)
        thread.join()
        os.close(lifeline)


def fill(peer: socket.socket, data: bytes, most_bytes: int) -> int:
    """Send something again and again until the other side hangs up. Return how many bytes that were."""
    sent = 0
    with contextlib.suppress(OSError):
        while sent < most_bytes:
            peer.sendall(data)
            sent += len(data)
    return sent


class Highest:
    """The most memory that a process has had while this was watched."""

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)
        self.before = self.bytes = self._process.memory_info().rss
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def _watch(self) -> None:
        while not self._end.wait(0.01):
            self.bytes = max(self.bytes, self._process.memory_info().rss)

    def end(self) -> int:
        """Return by how much it has grown."""
        self._end.set()
        self._thread.join()
        return self.bytes - self.before


def test_a_peer_that_resets_its_connection_behind_unread_messages_and_a_ping_ends_nothing() -> None:
    """With a bound on unread messages, libzmq 4.3.5 would end the scheduler: `Assertion failed: !_io_error`."""
    burst = (frame(b"x") * 20 + PING) * 200
    with scheduler(None, OPEN) as (address, running), command("cluster", address, "-n", "1"), Client(address) as client:
        assert client.submit(pow, 2, 2).result(60) == 4
        for _ in range(40):
            with contextlib.suppress(OSError), raw_peer(address) as peer:
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # close() resets
                peer.sendall(burst)
        assert client.submit(pow, 2, 3).result(60) == 8
        assert running.process.poll() is None


def test_a_scheduler_closes_silent_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler_module, "IDLE_SECONDS", 0.2)
    with (
        scheduler_of_this_process() as address,
        raw_peer(address) as silent,
        raw_peer(address) as garbled,
        raw_peer(address) as peer,
    ):
        peer.sendall(HELLO)
        assert peer.recv(4096), "a reply"
        garbled.sendall(frame(b"no hello"))
        for other in (silent, garbled):
            while other.recv(4096):
                pass  # until it is closed
        peer.sendall(BEAT)
        assert peer.recv(4096), "an echo"


@pytest.mark.more
@pytest.mark.parametrize("kind", ["a message without an end", "messages of a peer"])
def test_a_peer_that_sends_far_more_than_is_read_is_hung_up_on(kind: str) -> None:
    with (
        scheduler(None, OPEN, "--frame-bytes", str(4 * MIB)) as (address, running),
        command("cluster", address, "-n", "1"),
        Client(address) as client,
        raw_peer(address) as peer,
    ):
        assert client.submit(pow, 2, 2).result(60) == 4
        data = frame(bytes(64 * 1024), MORE) * 16
        if kind == "messages of a peer":
            peer.sendall(HELLO)
            data = BEAT * 10_000
        highest = Highest(running.pid)
        sent = fill(peer, data, 8 * 1024 * MIB)
        grown = highest.end()
        print(f"{kind}: {sent / MIB:.0f} MiB sent, the scheduler has grown by {grown / MIB:.0f} MiB")
        assert sent < 8 * 1024 * MIB
        assert client.submit(pow, 2, 3).result(60) == 8
        running.wait_for("closed 1 connections that flooded the receive queue")
