"""The socket of the monitor stream, with real viewers."""

from __future__ import annotations

import os
import socket
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import zmq

from scaler.endpoint import Endpoint
from scaler.transport import unread
from scaler.transport.interface import AddressInUseError
from scaler.transport.publisher import MESSAGES_KEPT, VIEWER_BYTES_MOST, Publisher
from tests.support.processes import free_address


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "monitor"


@pytest.fixture
def publisher(place: Path) -> Iterator[Publisher]:
    publisher = Publisher(Endpoint.parse(f"ipc://{place}"))
    yield publisher
    publisher.close()


@pytest.fixture
def context() -> Iterator[zmq.Context[zmq.Socket[bytes]]]:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    yield context
    context.destroy(linger=0)


def viewer(context: zmq.Context[zmq.Socket[bytes]], publisher: Publisher, topic: bytes) -> zmq.Socket[bytes]:
    socket = context.socket(zmq.SUB)
    socket.setsockopt(zmq.RCVTIMEO, 5000)
    socket.setsockopt(zmq.RCVHWM, 1)
    socket.connect(publisher.endpoint.address)
    socket.setsockopt(zmq.SUBSCRIBE, topic)
    return socket


def changes(publisher: Publisher, count: int) -> list[tuple[bool, bytes]]:
    found: list[tuple[bool, bytes]] = []
    deadline = time.monotonic() + 5
    while len(found) < count and time.monotonic() < deadline:
        found += publisher.changes(100)
        time.sleep(0.001)
    return found


def test_the_socket_of_a_publisher_is_accessible_to_its_user_only(publisher: Publisher, place: Path) -> None:
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    publisher.close()
    publisher.close()
    assert not place.exists()


def test_publisher_reports_each_new_viewer_and_the_end_of_the_last(
    publisher: Publisher, context: zmq.Context[zmq.Socket[bytes]]
) -> None:
    first = viewer(context, publisher, b"workers")
    assert changes(publisher, 1) == [(True, b"workers")]
    second = viewer(context, publisher, b"workers")
    assert changes(publisher, 1) == [(True, b"workers")]
    publisher.send(b"tasks", b"nobody wants it")
    publisher.send(b"workers", b"header")
    for each in (first, second):
        assert each.recv_multipart() == [b"workers", b"header"]
        each.close(linger=0)
    assert changes(publisher, 1) == [(False, b"workers")]


def test_messages_that_are_not_subscriptions_are_ignored(
    publisher: Publisher, context: zmq.Context[zmq.Socket[bytes]]
) -> None:
    stranger = context.socket(zmq.XSUB)
    stranger.connect(publisher.endpoint.address)
    stranger.send(b"rubbish")
    stranger.send_multipart([b"\2two", b"frames"])
    stranger.send(b"\1workers")
    assert changes(publisher, 1) == [(True, b"workers")]
    stranger.close(linger=0)


def test_a_slow_viewer_loses_messages_and_delays_no_other_viewer(
    publisher: Publisher, context: zmq.Context[zmq.Socket[bytes]]
) -> None:
    slow = viewer(context, publisher, b"")
    changes(publisher, 1)
    sent = 20 * MESSAGES_KEPT
    for number in range(sent):
        publisher.send(b"topic", number.to_bytes(4, "big") + bytes(10_000))
    fast = viewer(context, publisher, b"last")
    changes(publisher, 1)
    publisher.send(b"last", b"for all")
    assert fast.recv_multipart() == [b"last", b"for all"]
    got = 0
    while slow.poll(200):
        got += slow.recv_multipart()[0] == b"topic"
    assert 0 < got < sent
    for each in (slow, fast):
        each.close(linger=0)


def test_a_socket_file_left_by_a_dead_process_is_replaced(place: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(place))
    assert place.exists()
    Publisher(Endpoint.parse(f"ipc://{place}")).close()


def test_a_living_socket_is_not_replaced(place: Path, publisher: Publisher) -> None:
    with pytest.raises(AddressInUseError, match="is in use"):
        Publisher(publisher.endpoint)
    assert place.is_socket()


def test_a_file_is_not_replaced(place: Path) -> None:
    place.write_text("mine")
    with pytest.raises(FileExistsError, match="not a socket"):
        Publisher(Endpoint.parse(f"ipc://{place}"))
    assert place.read_text() == "mine"


def test_the_socket_of_another_user_is_not_replaced(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(place))
    another = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: another)
    with pytest.raises(PermissionError, match="belongs to another user"):
        Publisher(Endpoint.parse(f"ipc://{place}"))
    assert place.is_socket()


def test_a_private_place_is_a_folder_that_only_its_user_can_enter() -> None:
    publisher = Publisher(None)
    file = Path(publisher.endpoint.address.removeprefix("ipc://"))
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    publisher.close()
    assert not file.parent.exists()


@pytest.mark.skipif(not unread.IS_SUPPORTED, reason="the system does not tell how much has come")
def test_a_viewer_on_tcp_that_sends_too_much_is_disconnected_and_other_viewers_are_not(
    context: zmq.Context[zmq.Socket[bytes]],
) -> None:
    publisher = Publisher(Endpoint.parse(free_address()))
    honest = viewer(context, publisher, b"workers")
    assert changes(publisher, 1) == [(True, b"workers")]
    talker = context.socket(zmq.XSUB)
    talker.setsockopt(zmq.SNDHWM, 0)
    talker.setsockopt(zmq.RECONNECT_IVL, -1)
    with talker.get_monitor_socket(zmq.EVENT_DISCONNECTED) as events:
        talker.connect(publisher.endpoint.address)
        for number in range(10_000):
            talker.send(b"\1%d" % number + b"x" * 190)
        received = 0
        deadline = time.monotonic() + 60
        while not events.poll(0) and time.monotonic() < deadline:
            received += len(publisher.changes(100))
        assert events.poll(0)
        talker.disable_monitor()
    assert received < 2 * VIEWER_BYTES_MOST / 190
    publisher.send(b"workers", b"header")
    assert honest.recv_multipart() == [b"workers", b"header"]
    for each in (honest, talker):
        each.close(linger=0)
    publisher.close()
