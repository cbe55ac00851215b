"""The scheduler's end of a session, its connections and its pipe."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scaler.actors.vocabulary import peer as peer_module
from scaler.actors.vocabulary.peer import Peer
from scaler.ids import NO_CONNECTION, Connection
from scaler.wire.messages.client import ExplainResponse, TaskResult
from scaler.wire.messages.common import LOST, ObjectResponse
from scaler.wire.messages.directions import CLIENT_TO_SCHEDULER, SCHEDULER_TO_CLIENT
from scaler.wire.messages.worker import RunTask
from scaler.wire.session.pipe import Pipe
from tests.support.bench import Bench, connected_peer

RESULT = TaskResult(b"t" * 16, 0, b"done", 0)
OTHER = ExplainResponse(b"t" * 16, "running", 0, "")


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


def test_a_peer_that_starts_over_has_no_unacknowledged_items_and_returns_results() -> None:
    peer = make()
    peer.put(RESULT)
    peer.put(OTHER)
    peer.pipe.take()
    peer.resume(0)
    assert peer.start_over(dial=3) == [RESULT]
    assert (peer.resends, list(peer.pipe.unacknowledged()), peer.pipe.last_sent, peer.begun) == ([], [], 0, 3)
    assert peer.resume(0)
    assert peer.start_over(dial=4) == []


def test_a_result_that_was_reported_as_lost_is_not_kept_for_a_new_session() -> None:
    peer = make()
    for item in (RESULT, replace(RESULT, task_id=b"o" * 16), ObjectResponse(RESULT.task_id, LOST, (), reason="why")):
        peer.put(item)
    assert peer.start_over(dial=1) == [replace(RESULT, task_id=b"o" * 16)]


def test_an_invalid_session_keeps_results_up_to_a_bound_and_is_not_resumed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_module, "RESULT_BYTES_MOST", 3 * peer_module.RESULT_BYTES)
    peer, results = make(), [replace(RESULT, task_id=bytes([number]) * 16) for number in range(4)]
    for pair in (results[:2], results[2:]):
        for result in pair:
            peer.put(result)
        peer.invalidate()
        assert list(peer.pipe.unacknowledged()) == []
        assert not peer.resume(0)
    assert peer.start_over(dial=1) == results[:2]
    assert peer.resume(0)
