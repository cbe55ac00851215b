from __future__ import annotations

import os
import socket

from scaler.ids import Connection
from scaler.transport.descriptors import Descriptors, IdleConnections, OpenConnections


def test_a_reused_descriptor_may_refer_to_both_connections() -> None:
    """A loss may be reported after the first message of the connection that has the descriptor now."""
    one, other, third = (Connection(name) for name in (b"one", b"other", b"third"))
    descriptors = Descriptors()
    descriptors.add(one, 7)
    descriptors.add(third, 8)
    descriptors.add(other, 7)
    assert descriptors.of(7) == [one, other]
    descriptors.remove(one)
    descriptors.remove(one)
    assert descriptors.of(7) == [other]
    descriptors.remove(other)
    assert descriptors.of(7) == []
    assert descriptors.known == {third: 8}


def test_a_connection_loses_its_closed_descriptor_even_if_that_is_reused() -> None:
    """The messages of the first connection may still be read, and closing it must not close the next one."""
    one, other = Connection(b"one"), Connection(b"other")
    descriptors = Descriptors()
    assert descriptors.present(one) is None
    descriptors.add(one, 7)
    assert descriptors.present(one) == 7
    descriptors.end(7)
    assert descriptors.present(one) is None
    descriptors.add(other, 7)
    assert descriptors.present(other) == 7
    descriptors.end(7)
    assert descriptors.present(other) is None
    descriptors.end(7)
    descriptors.remove(one)
    descriptors.add(one, 8)
    assert descriptors.present(one) == 8


def test_a_connection_without_a_peer_at_two_successive_looks_is_idle() -> None:
    idle = IdleConnections()
    idle.open(5)
    idle.open(6)
    assert idle.look({6}.__contains__) == []
    assert idle.look({6}.__contains__) == [5]
    assert idle.look({6}.__contains__) == [], "it is about to be closed"


def test_a_connection_that_got_a_peer_between_two_looks_is_not_idle() -> None:
    idle = IdleConnections()
    idle.open(5)
    assert idle.look({}.__contains__) == []
    assert idle.look({5}.__contains__) == []
    assert idle.look({}.__contains__) == []
    assert idle.look({}.__contains__) == [5]


def test_a_reused_descriptor_is_a_new_connection() -> None:
    idle = IdleConnections()
    idle.open(5)
    assert idle.look({}.__contains__) == []
    idle.close(5)
    idle.open(5)
    assert idle.look({}.__contains__) == []
    idle.close(5)
    assert idle.look({}.__contains__) == []


def test_a_forked_process_closes_its_copies_of_open_connections() -> None:
    ours, theirs = socket.socketpair()
    ended, other = socket.socketpair()
    standing = OpenConnections()
    with ours, theirs, ended, other:
        for one in (ours, ended):
            standing.open(one.fileno())
        standing.close(ended.fileno())
        standing.close_after_fork()
        assert theirs.recv(1) == b"", "the connection is closed"
        ended.send(b"x")
        assert other.recv(1) == b"x"
        ours.detach()


def test_a_descriptor_reused_by_another_file_is_not_closed() -> None:
    ours, theirs = socket.socketpair()
    one, other = socket.socketpair()
    standing = OpenConnections()
    with theirs, one, other:
        descriptor = ours.fileno()
        standing.open(descriptor)
        os.dup2(one.fileno(), descriptor)  # as when it was closed and is used again
        standing.close_after_fork()
        assert ours.send(b"x") == 1
        assert other.recv(1) == b"x"
        ours.close()
