"""The scheduler's end of a session, and its connections."""

from __future__ import annotations

from scaler.actors.peer import Peer
from scaler.ids import NO_CONNECTION, Connection
from scaler.wire.messages.directions import CLIENT_TO_SCHEDULER, SCHEDULER_TO_CLIENT


def test_a_peer_has_no_connection_before_its_first_one() -> None:
    peer = Peer(("client", b"1"), CLIENT_TO_SCHEDULER, SCHEDULER_TO_CLIENT)
    assert (peer.connection, peer.visit) == (NO_CONNECTION, 0)


def test_on_a_new_connection_nothing_has_been_said() -> None:
    peer = Peer(("client", b"1"), CLIENT_TO_SCHEDULER, SCHEDULER_TO_CLIENT)
    peer.connect(Connection(b"one"))
    peer.said, peer.results_received, peer.results_acknowledged, peer.is_awaited = 3, 2, 1, True
    peer.connect(Connection(b"other"))
    assert (peer.connection, peer.visit) == (b"other", 2)
    assert (peer.said, peer.results_received, peer.results_acknowledged, peer.is_awaited) == (0, 0, 0, False)


def test_what_was_put_for_a_peer_is_taken_once() -> None:
    peer = Peer(("client", b"1"), CLIENT_TO_SCHEDULER, SCHEDULER_TO_CLIENT)
    peer.items.append("item")
    assert peer.take() == ["item"]
    assert peer.take() == []
