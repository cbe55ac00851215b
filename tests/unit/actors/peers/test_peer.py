"""The scheduler's end of a session, its connections and its pipe."""

from __future__ import annotations

from scaler.actors.peers.peer import Peer
from scaler.ids import NO_CONNECTION, Connection
from scaler.wire.messages.client import TaskResult
from scaler.wire.messages.directions import CLIENT_TO_SCHEDULER, SCHEDULER_TO_CLIENT
from scaler.wire.messages.worker import RunTask
from scaler.wire.session.pipe import Pipe
from tests.support.bench import Bench, connected_peer

RESULT = TaskResult(b"t" * 16, 0, b"done", 0)


def make(connection: bytes = b"one") -> Peer:
    peer = Peer(("client", b"1"), CLIENT_TO_SCHEDULER, SCHEDULER_TO_CLIENT, Pipe)
    peer.connect(Connection(connection))
    return peer


def test_a_new_peer_has_no_connection() -> None:
    peer = Peer(("client", b"1"), CLIENT_TO_SCHEDULER, SCHEDULER_TO_CLIENT, Pipe)
    assert (peer.connection, peer.connection_number) == (NO_CONNECTION, 0)


def test_items_for_one_connection_are_not_sent_on_the_next() -> None:
    peer = make()
    peer.unnumbered.append("echo")
    peer.is_awaited = True
    peer.connect(Connection(b"other"))
    assert (peer.connection, peer.connection_number, peer.unnumbered, peer.is_awaited) == (b"other", 2, [], False)


def test_a_session_is_notified_of_an_order_sent_after_smaller_later_ones(bench: Bench) -> None:
    peer = connected_peer(b"agent")
    heard, peer.session = bench.recorder()
    large, small = (RunTask(bytes([size % 7]) * 16, 0, 1, b"f" * 16, bytes(size), b"") for size in (100_000, 10))
    peer.put(large)
    peer.put(small)
    peer.pipe.take()
    bench.run()
    assert heard.take() == [[large]]


def test_a_resumed_session_resends_unacknowledged_items() -> None:
    peer = make()
    peer.put(RESULT)
    (last_sent,) = peer.pipe.take()
    peer.connect(Connection(b"other"))
    assert peer.resume(0)
    assert peer.resends == [last_sent]
    peer.connect(Connection(b"third"))
    assert peer.resume(1)
    assert peer.resends == []


def test_a_session_is_not_resumed_if_its_peer_counts_more_items_than_were_sent() -> None:
    peer = make()
    assert not peer.resume(7)


def test_a_reset_peer_has_no_unacknowledged_items() -> None:
    peer = make()
    peer.put(RESULT)
    peer.pipe.take()
    peer.resume(0)
    peer.reset()
    assert (peer.resends, list(peer.pipe.unacknowledged()), peer.pipe.last_sent) == ([], [], 0)
    assert peer.resume(0)


def test_a_spoilt_session_drops_its_items_and_is_not_resumed() -> None:
    peer = make()
    peer.put(RESULT)
    peer.invalidate()
    assert list(peer.pipe.unacknowledged()) == []
    assert not peer.resume(0)
    peer.reset()
    assert peer.resume(0)
