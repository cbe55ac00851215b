"""A viewer of the monitor stream, as protocol/README.md describes it: a plain SUB socket and the codec."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import zmq

from scaler.keys.key_file import MONITOR
from scaler.wire.codec.codec import decode, numbers
from scaler.wire.messages.directions import SCHEDULER_TO_MONITOR
from scaler.wire.messages.monitor import StateCount, StateHead
from tests.support.keys import connect

T = TypeVar("T")


def rows(layout: struct.Struct, packed: bytes) -> list[tuple[Any, ...]]:
    return list(layout.iter_unpack(packed))


class Message:
    def __init__(self, topic: bytes, header: bytes) -> None:
        self.topic = topic.decode()
        self.number, self.heard = numbers(SCHEDULER_TO_MONITOR, header)
        batches = decode(SCHEDULER_TO_MONITOR, header, [])
        (self.head,) = batches[0]
        assert isinstance(self.head, StateHead)
        self.items: list[Any] = [item for batch in batches[1:] for item in batch]

    def of(self, kind: type[T]) -> list[T]:
        return [item for item in self.items if isinstance(item, kind)]

    def counts(self, group: int) -> dict[str, int]:
        return {count.name: count.amount for count in self.of(StateCount) if count.group == group}


class Viewer:
    """A subscriber that waits for what a test wants to see."""

    def __init__(self, address: str, *topics: str) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.socket = self._context.socket(zmq.SUB)
        self.socket.setsockopt(zmq.LINGER, 0)
        connect(self.socket, address, MONITOR)
        for topic in topics:
            self.want(topic)

    def want(self, topic: str) -> None:
        self.socket.setsockopt(zmq.SUBSCRIBE, topic.encode())

    def leave(self, topic: str) -> None:
        self.socket.setsockopt(zmq.UNSUBSCRIBE, topic.encode())

    def messages(self, seconds: float = 60.0) -> Iterator[Message]:
        """Return the messages that arrive within this time."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            if self.socket.poll(int(left * 1000) + 1):
                topic, header = self.socket.recv_multipart()
                yield Message(topic, header)

    def until(self, is_it: Callable[[Message], Any], what: str, seconds: float = 60.0) -> Message:
        """Return the first message that meets the condition."""
        last: dict[str, Message] = {}
        for message in self.messages(seconds):
            if is_it(message):
                return message
            last[message.topic] = message
        raise AssertionError(f"{what} was not seen; last: { {each.topic: each.items for each in last.values()} }")

    def close(self) -> None:
        self.socket.close()
        self._context.term()

    def __enter__(self) -> Viewer:  # noqa: PYI034 - typing.Self is of Python 3.11
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()
