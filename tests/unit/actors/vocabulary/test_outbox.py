"""The outbox: which peer the edge serves next, and with which items."""

from __future__ import annotations

from scaler.actors.vocabulary.outbox import Outbox
from scaler.actors.vocabulary.peer import Peer
from scaler.ids import NO_CONNECTION, Connection
from scaler.wire.messages.directions import SCHEDULER_TO_AGENT
from scaler.wire.messages.worker import RecallRequest
from tests.support.bench import connected_peer

WHO = Connection(b"who")
ITEM = RecallRequest(b"t" * 16, 1, 2)


def test_peers_are_due_once_in_the_order_of_their_first_items() -> None:
    one, other, outbox = connected_peer(b"one"), connected_peer(b"other"), Outbox()
    outbox.put(one, 1)
    outbox.put(other, 2)
    outbox.put(one, 3)
    outbox.serve(other)
    assert outbox.take_due() == [one, other]
    assert outbox.take_due() == []
    assert list(one.pipe.unacknowledged()) == [1, 3]
    outbox.serve(one)
    assert outbox.take_due() == [one]


def test_several_items_are_sent_in_order_and_an_empty_list_sends_nothing() -> None:
    one, other, outbox = connected_peer(b"one"), connected_peer(b"other"), Outbox()
    outbox.put(one, 1)
    outbox.put_all(one, [2, 3])
    outbox.put_all(other, [])
    assert outbox.take_due() == [one]
    assert list(one.pipe.unacknowledged()) == [1, 2, 3]


def test_items_for_a_disconnected_peer_wait_in_its_pipe() -> None:
    peer, outbox = connected_peer(b"one"), Outbox()
    peer.connection = NO_CONNECTION
    outbox.put(peer, "item")
    outbox.put_unnumbered(peer, "echo")
    assert outbox.take_due() == [peer]
    assert list(peer.pipe.unacknowledged()) == ["item"]
    assert peer.unnumbered == []


def test_uncounted_items_do_not_enter_the_pipe() -> None:
    peer, outbox = connected_peer(b"one"), Outbox()
    outbox.put_unnumbered(peer, "echo")
    assert outbox.take_due() == [peer]
    assert (peer.unnumbered, list(peer.pipe.unacknowledged())) == (["echo"], [])


def test_parting_closes_the_present_connection_of_a_peer() -> None:
    one, other, outbox = connected_peer(b"one"), connected_peer(b"other"), Outbox()
    other.connection = NO_CONNECTION
    outbox.close(one)
    outbox.close(other)
    assert outbox.take_closing() == [(one, b"one")]
    assert outbox.take_closing() == []


def test_a_connection_without_a_session_can_be_answered() -> None:
    outbox = Outbox()
    outbox.put_to_stranger(WHO, SCHEDULER_TO_AGENT, "no")
    outbox.put_to_stranger(WHO, SCHEDULER_TO_AGENT, "never")
    (parcel,) = outbox.take_parcels()
    assert (parcel.connection, parcel.direction, parcel.items) == (WHO, SCHEDULER_TO_AGENT, ["no", "never"])
    assert outbox.take_parcels() == []


def test_a_session_waits_for_new_items_only_if_its_peer_has_received_all() -> None:
    peer, outbox = connected_peer(b"one"), Outbox()

    def awaits(heard: int) -> bool:
        peer.is_awaited = False
        return outbox.notify_of_next(peer, heard) and peer.is_awaited

    assert awaits(0)
    outbox.put(peer, ITEM)
    assert not awaits(0)  # the item has not been sent
    send(peer)
    assert not awaits(0)  # the item has been sent and not acknowledged
    assert awaits(1)
    peer.connection = NO_CONNECTION
    assert not awaits(1)


def send(peer: Peer) -> None:
    assert len(peer.pipe.take()) == 1
