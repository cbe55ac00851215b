from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from scaler.monitor import subscriber as module
from scaler.monitor.model.model import News
from scaler.monitor.subscriber import Subscriber
from scaler.wire.messages.monitor import StateClient, StateEvent
from tests.support.another_user import NOBODY, Stranger, needs_root
from tests.support.monitored import Publisher, scheduler


@pytest.fixture
def address(tmp_path: Path) -> str:
    return f"ipc://{tmp_path}/stream"


@pytest.fixture
def publisher(address: str) -> Iterator[Publisher]:
    publisher = Publisher(address)
    yield publisher
    publisher.close()


def hear(subscriber: Subscriber, count: int, seconds: float = 10) -> list[News]:
    heard: list[News] = []
    ends_at = time.monotonic() + seconds
    while len(heard) < count and time.monotonic() < ends_at:
        subscriber.wait(0.1)
        heard += subscriber.receive()
    return heard


def look_until_subscribed(publisher: Publisher, subscriber: Subscriber) -> None:
    ends_at = time.monotonic() + 10
    while not publisher.topics["events"]:
        assert time.monotonic() < ends_at, "it has not connected"
        subscriber.wait(0.05)
        assert subscriber.receive() == []
        publisher.look()


def test_a_subscriber_receives_only_its_topics(address: str, publisher: Publisher) -> None:
    subscriber = Subscriber(address, ["scheduler"])
    try:
        publisher.await_topic("scheduler")
        publisher.say("clients", StateClient(b"c" * 8))
        publisher.say("scheduler", scheduler(waiting=3))
        (news,) = hear(subscriber, 1)
        assert (news.topic, news.head.scheduler, news.missed) == ("scheduler", publisher.scheduler, 0)
        assert news.batches[0][0].waiting == 3
        subscriber.set_topics(["clients"])
        publisher.await_topic("clients")
        publisher.say("scheduler", scheduler())
        publisher.say("clients", StateClient(b"d" * 8))
        (news,) = hear(subscriber, 1)
        assert news.batches[0][0].client == b"d" * 8
    finally:
        subscriber.close()


def test_missed_messages_are_counted_for_each_topic(address: str, publisher: Publisher) -> None:
    subscriber = Subscriber(address, ["events", "clients"])
    try:
        publisher.await_topic("events")
        publisher.await_topic("clients")
        publisher.skip("events", 7)  # before its first message: there was no subscriber
        publisher.say("events", StateEvent(1))
        publisher.skip("events", 2)
        publisher.say("clients")
        publisher.say("events", StateEvent(2))
        publisher.scheduler = b"another!"
        publisher.skip("events", 5)
        publisher.say("events", StateEvent(3))
        assert [(news.topic, news.missed) for news in hear(subscriber, 4)] == [
            ("events", 0),
            ("clients", 0),
            ("events", 2),
            ("events", 0),
        ]
    finally:
        subscriber.close()


def test_unreadable_messages_of_the_stream_are_counted_and_left_out(address: str, publisher: Publisher) -> None:
    subscriber = Subscriber(address, ["events"])
    try:
        publisher.await_topic("events")
        publisher.send_raw(b"events", b"not a message")
        publisher.send_raw(b"events")
        publisher.say("events", StateEvent(1))
        assert len(hear(subscriber, 1)) == 1
        assert subscriber.refused == 2
    finally:
        subscriber.close()


@pytest.mark.thorough
def test_a_subscriber_connects_to_the_next_scheduler_at_its_address(address: str) -> None:
    first = Publisher(address)
    subscriber = Subscriber(address, ["events"])
    try:
        first.await_topic("events")
        first.say("events", StateEvent(1))
        assert len(hear(subscriber, 1)) == 1
        first.close()
        assert hear(subscriber, 1, 0.7) == []
        assert not subscriber.is_connected
        second = Publisher(address)
        try:
            look_until_subscribed(second, subscriber)
            second.say("events", StateEvent(2))
            (news,) = hear(subscriber, 1)
            assert news.head.scheduler == second.scheduler
            assert subscriber.is_connected
        finally:
            second.close()
    finally:
        subscriber.close()


def test_a_subscriber_may_start_before_its_scheduler(address: str) -> None:
    subscriber = Subscriber(address, ["events"])
    try:
        assert hear(subscriber, 1, 0.2) == []
        publisher = Publisher(address)
        try:
            look_until_subscribed(publisher, subscriber)
        finally:
            publisher.close()
    finally:
        subscriber.close()


def test_news_can_be_awaited_in_asyncio(address: str, publisher: Publisher) -> None:
    async def first_news() -> list[News]:
        subscriber = Subscriber(address, ["events"])
        try:
            assert await subscriber.news(0.01) == []
            publisher.await_topic("events")
            asyncio.get_running_loop().call_later(0.05, publisher.say, "events", StateEvent(1))
            heard: list[News] = []
            while not heard:
                heard = await subscriber.news(5)
            return heard
        finally:
            subscriber.close()

    began = time.monotonic()
    (news,) = asyncio.run(first_news())
    assert news.batches[0][0].time_us == 1
    assert time.monotonic() - began < 5


def test_a_subscriber_can_wait_for_other_descriptors_as_well(address: str) -> None:
    import os

    reader, writer = os.pipe()
    subscriber = Subscriber(address)
    try:
        assert subscriber.wait(0.01, reader) == []
        os.write(writer, b"x")
        assert subscriber.wait(5, reader) == [reader]
    finally:
        subscriber.close()
        os.close(reader)
        os.close(writer)


def test_a_topic_that_is_no_text_is_refused_at_once(address: str) -> None:
    with pytest.raises(TypeError):
        Subscriber(address, [7])  # type: ignore[list-item]


@needs_root
def test_nothing_is_subscribed_to_if_another_user_has_replaced_the_socket_since_its_check(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = f"ipc://{shared}/stream"
    monkeypatch.setattr(module, "find", lambda endpoint: endpoint)
    stranger = Stranger(shared / "stream", publishes=True)
    try:
        subscriber = Subscriber(address, ["events"])
        try:
            assert stranger.received() == {"received nothing more"}
            assert subscriber.receive() == []
            assert "another user, uid 65534 (nobody), listens at" in subscriber.problem
            assert not subscriber.is_connected
        finally:
            subscriber.close()
        subscriber = Subscriber(address, ["events"], trust_users=(NOBODY,))
        try:
            assert stranger.received() == {"received b'\\x01events'"}
            assert subscriber.problem == ""
        finally:
            subscriber.close()
    finally:
        stranger.close()
