"""Unread bytes of real connections, counted by the system."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from scaler.transport.unread import GROWN_BYTES, IS_SUPPORTED, Unread, received_bytes, size_on_its_way

pytestmark = pytest.mark.skipif(not IS_SUPPORTED, reason="the system does not count what comes")

SMALL, LARGE = 1, 1 + GROWN_BYTES + 1
MOST = 2_000_000


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    """A connection: the sending end, the receiving end."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sender = socket.create_connection(listener.getsockname())
        taker, _ = listener.accept()
        with sender, taker:
            yield sender, taker


def send(ends: tuple[socket.socket, socket.socket], n_bytes: int) -> None:
    sender, taker = ends
    for _ in range(n_bytes // 1000):
        sender.sendall(bytes(1000))
        left = 1000
        while left:
            left -= len(taker.recv(left))


def counting(ends: tuple[socket.socket, socket.socket]) -> tuple[Unread, int]:
    """Return an `Unread` that counts what arrives at the second end, and the descriptor of that end."""
    unread, descriptor = Unread(MOST), ends[1].fileno()
    unread.open(descriptor)
    unread.look(SMALL)
    unread.look(LARGE)
    return unread, descriptor


def test_the_system_counts_the_received_bytes_of_a_connection(ends: tuple[socket.socket, socket.socket]) -> None:
    send(ends, 50_000)
    assert received_bytes(ends[1].fileno()) == 50_000


def test_a_descriptor_without_a_connection_has_no_count_of_received_bytes() -> None:
    assert received_bytes(10**6) is None


def test_the_size_of_a_frame_includes_its_head() -> None:
    assert [size_on_its_way(n_bytes) for n_bytes in (0, 255, 256)] == [2, 257, 265]


def test_a_connection_with_too_many_unread_bytes_is_found(ends: tuple[socket.socket, socket.socket]) -> None:
    unread, descriptor = Unread(MOST), ends[1].fileno()
    unread.open(descriptor)
    send(ends, 3 * MOST)
    assert unread.look(SMALL) == []
    assert unread.look(LARGE) == []  # counting starts here
    assert unread.counts
    send(ends, MOST)
    assert unread.look(LARGE) == []
    send(ends, MOST)
    assert unread.look(LARGE) == [descriptor]
    unread.close(descriptor)
    assert unread.look(LARGE) == []
    assert not unread.counts


def test_bytes_that_were_read_do_not_count_as_unread(ends: tuple[socket.socket, socket.socket]) -> None:
    unread, descriptor = counting(ends)
    send(ends, 2 * MOST)
    unread.read(descriptor, iter([1000 - 9] * (2 * MOST // 1000)))
    assert unread.look(LARGE) == []
    assert not unread.counts
    assert unread.look(LARGE) == []  # its size is the measure now
    assert not unread.counts


def test_short_frames_count_with_their_memory(ends: tuple[socket.socket, socket.socket]) -> None:
    unread, descriptor = counting(ends)
    send(ends, MOST * 3 // 4)
    assert unread.look(LARGE) == []
    unread.read(descriptor, iter([3] * 1000))
    assert unread.look(LARGE) == [descriptor]


def test_unread_bytes_are_not_counted_while_memory_does_not_grow(ends: tuple[socket.socket, socket.socket]) -> None:
    unread = Unread(MOST)
    unread.open(ends[1].fileno())
    for resident_bytes in (LARGE, LARGE + GROWN_BYTES, LARGE // 2, 0):
        assert unread.look(resident_bytes) == []
        assert not unread.counts
