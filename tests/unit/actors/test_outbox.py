"""What the actors say, gathered per peer."""

from __future__ import annotations

from typing import Any

from scaler.actors.messages.peers import NewsSaid
from scaler.actors.outbox import Outbox
from scaler.ids import NO_CONNECTION, Connection
from scaler.wire.messages.directions import SCHEDULER_TO_AGENT
from tests.support.bench import Bench, connected_peer

WHO = Connection(b"who")


def said(outbox: Outbox) -> list[tuple[Connection, list[Any]]]:
    return [(parcel.connection, parcel.items) for parcel in outbox.take()]


def test_items_leave_per_peer_in_order_and_once() -> None:
    one, other, outbox = connected_peer(b"one"), connected_peer(b"other"), Outbox()
    outbox.put(one, 1)
    outbox.put(other, 2)
    outbox.put(one, 3)
    parcels = outbox.take()
    assert [(parcel.peer, parcel.connection, parcel.items) for parcel in parcels] == [
        (one, b"one", [1, 3]),
        (other, b"other", [2]),
    ]
    assert all(parcel.direction is SCHEDULER_TO_AGENT for parcel in parcels)
    assert outbox.take() == []


def test_the_last_words_to_a_peer_that_parts_with_its_connection_still_leave() -> None:
    one, outbox = connected_peer(b"one"), Outbox()
    outbox.put(one, "goodbye")
    outbox.part(one)
    one.connect(Connection(b"new"))
    outbox.put(one, "hello")
    assert said(outbox) == [(b"one", ["goodbye"]), (b"new", ["hello"])]
    assert said(outbox) == []


def test_what_is_for_a_peer_without_a_connection_is_counted() -> None:
    one, outbox = connected_peer(b"one"), Outbox()
    one.connection = NO_CONNECTION
    outbox.put(one, "too late")
    assert said(outbox) == []
    assert outbox.undeliverable == 1
    outbox.put(one, "too late again")
    outbox.part(one)
    one.connect(Connection(b"new"))
    assert said(outbox) == []
    assert outbox.undeliverable == 2


def test_a_stranger_can_be_answered() -> None:
    outbox = Outbox()
    outbox.put_to_stranger(WHO, SCHEDULER_TO_AGENT, "no")
    outbox.put_to_stranger(WHO, SCHEDULER_TO_AGENT, "never")
    (parcel,) = outbox.take()
    assert (parcel.peer, parcel.connection, parcel.items) == (None, WHO, ["no", "never"])


def test_a_session_hears_once_of_the_next_item_if_its_peer_has_heard_all(bench: Bench) -> None:
    peer, outbox = connected_peer(b"one"), Outbox()
    recorder, peer.session = bench.recorder()

    def news() -> int:
        outbox.take()
        bench.run()
        return [type(mail) for mail in recorder.take()].count(NewsSaid)

    outbox.put(peer, 1)
    outbox.put(peer, 2)
    assert not outbox.await_news(peer, 0)  # both are on the way
    assert news() == 0
    assert not outbox.await_news(peer, 1)
    assert outbox.await_news(peer, 2)
    assert news() == 0
    outbox.put(peer, 3)
    assert news() == 1
    outbox.put(peer, 4)
    assert news() == 0
    peer.connection = NO_CONNECTION
    assert not outbox.await_news(peer, 4)
