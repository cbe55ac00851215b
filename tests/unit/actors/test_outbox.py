"""What the actors say, gathered per peer."""

from __future__ import annotations

from itertools import count

from scaler.actors.messages.peers import NewsSaid
from scaler.actors.outbox import Directory, Outbox
from scaler.ids import Connection
from scaler.wire.messages.directions import (
    AGENT_TO_SCHEDULER,
    CLIENT_TO_SCHEDULER,
    SCHEDULER_TO_AGENT,
    SCHEDULER_TO_CLIENT,
)
from tests.support.bench import Bench

ONE, OTHER = Connection(b"one"), Connection(b"other")


def make(bench: Bench) -> tuple[Directory, Outbox]:
    directory = Directory(count(1).__next__)
    _, session = bench.recorder()
    directory.bind(ONE, session, CLIENT_TO_SCHEDULER, SCHEDULER_TO_CLIENT)
    directory.bind(OTHER, session, AGENT_TO_SCHEDULER, SCHEDULER_TO_AGENT)
    return directory, Outbox(directory)


def test_items_leave_per_peer_in_order_and_once(bench: Bench) -> None:
    _, outbox = make(bench)
    outbox.put(ONE, 1)
    outbox.put(OTHER, 2)
    outbox.put(ONE, 3)
    assert outbox.take() == [(ONE, SCHEDULER_TO_CLIENT, [1, 3]), (OTHER, SCHEDULER_TO_AGENT, [2])]
    assert outbox.take() == []


def test_the_last_words_to_a_peer_that_was_unbound_still_leave(bench: Bench) -> None:
    directory, outbox = make(bench)
    outbox.put(ONE, "goodbye")
    directory.unbind(ONE)
    assert outbox.take() == [(ONE, SCHEDULER_TO_CLIENT, ["goodbye"])]
    outbox.put(ONE, "too late")
    assert outbox.take() == [(ONE, None, ["too late"])]


def test_a_stranger_can_be_answered(bench: Bench) -> None:
    _, outbox = make(bench)
    outbox.put_to_stranger(Connection(b"who"), SCHEDULER_TO_AGENT, "no")
    assert outbox.take() == [(Connection(b"who"), SCHEDULER_TO_AGENT, ["no"])]


def test_unbinding_what_is_not_bound_is_no_mistake(bench: Bench) -> None:
    directory, _ = make(bench)
    directory.unbind(Connection(b"who"))
    assert directory.departed == {}


def test_a_session_hears_once_of_the_next_item_if_its_peer_has_heard_all(bench: Bench) -> None:
    directory = Directory(count(1).__next__)
    recorder, session = bench.recorder()
    directory.bind(ONE, session, CLIENT_TO_SCHEDULER, SCHEDULER_TO_CLIENT)
    outbox = Outbox(directory)

    def news() -> int:
        outbox.take()
        bench.run()
        return [type(mail) for mail in recorder.take()].count(NewsSaid)

    outbox.put(ONE, 1)
    outbox.put(ONE, 2)
    assert not outbox.await_news(ONE, 0)  # both are on the way
    assert news() == 0
    assert not outbox.await_news(ONE, 1)
    assert outbox.await_news(ONE, 2)
    assert news() == 0
    outbox.put(ONE, 3)
    assert news() == 1
    outbox.put(ONE, 4)
    assert news() == 0
    directory.unbind(ONE)
    assert not outbox.await_news(ONE, 4)
