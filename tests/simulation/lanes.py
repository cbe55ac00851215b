"""Lanes: one direction of a connection: messages one after the other, with the delay and the rate of their way."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import inf
from typing import Any

from tests.simulation.world import Event, World

OVERHEAD_BYTES = 100
"""of each message"""
UP, DOWN = "up", "down"


@dataclass
class Way:
    """How a host reaches the scheduler's."""

    delay: float = 0.0002
    jitter: float = 0.0
    rate: float = inf
    """bytes a second, in each direction"""
    is_holed_up: bool = False
    is_holed_down: bool = False

    def is_holed(self, direction: str) -> bool:
        return self.is_holed_up if direction == UP else self.is_holed_down

    @property
    def is_whole(self) -> bool:
        return not (self.is_holed_up or self.is_holed_down)


class Lane:
    """One direction of a line: messages one after the other, each as long on its way as the rate says."""

    __slots__ = ("_deliver", "_left", "_queue", "_sending", "_since", "_stuck", "_world", "direction", "last", "way")

    def __init__(self, world: World, way: Way, direction: str, deliver: Callable[[Any], None]) -> None:
        self._world = world
        self.way = way
        self.direction = direction
        self._deliver = deliver
        self._queue: deque[tuple[Any, int]] = deque()
        self._stuck: deque[Any] = deque()
        """on its way when the hole began"""
        self._sending: Event | None = None
        self._since = self._left = 0.0
        self.last = 0.0
        """when the last message arrives"""

    @property
    def is_empty(self) -> bool:
        return not self._queue and not self._stuck

    @property
    def is_moving(self) -> bool:
        return self._sending is not None

    def put(self, item: Any, size: int) -> None:
        self._queue.append((item, size))
        if self._sending is None:
            self.pump()

    def clear(self) -> None:
        self._queue.clear()
        self._stuck.clear()
        if self._sending is not None:
            self._sending.cancel()
            self._sending = None

    def drop_waiting(self) -> None:
        """Drop what has not begun to be sent: as the end of a socket without linger."""
        first = self._queue.popleft() if self._sending is not None else None
        self._queue.clear()
        if first is not None:
            self._queue.append(first)

    def pump(self) -> None:
        while self._queue and self._sending is None and not self.way.is_holed(self.direction):
            size = self._queue[0][1]
            if self.way.rate == inf:
                self._sent()
            else:
                self._left = self._left or size / self.way.rate
                self._since = self._world.now
                self._sending = self._world.at(self._left, self._sent)

    def _sent(self) -> None:
        self._sending, self._left = None, 0.0
        item, _ = self._queue.popleft()
        way, world = self.way, self._world
        arrives = world.now + way.delay + (world.random.random() * way.jitter if way.jitter else 0.0)
        self.last = max(self.last, arrives)
        world.at(self.last - world.now, lambda: self._arrive(item))
        if self._queue:
            self.pump()

    def _arrive(self, item: Any) -> None:
        if self._stuck or self.way.is_holed(self.direction):
            self._stuck.append(item)
        else:
            self._deliver(item)

    def holes_changed(self) -> None:
        if self.way.is_holed(self.direction):
            if self._sending is not None:
                self._sending.cancel()
                self._sending = None
                self._left = max(1e-9, self._left - (self._world.now - self._since))
        else:
            self._world.at(self._world.random.choice((0.0, 0.01, 0.2, 1.0)), self._unstick)

    def _unstick(self) -> None:
        """TCP sends it again after a while."""
        if self.way.is_holed(self.direction):
            return
        while self._stuck:
            self._deliver(self._stuck.popleft())
        self.pump()


def copied(header: bytes, frames: Iterable[Any]) -> tuple[tuple[bytes, list[memoryview]], int]:
    """Return a message as it is now, and how many bytes it takes."""
    copies = [memoryview(bytes(frame)) for frame in frames]
    return (bytes(header), copies), len(header) + sum(map(len, copies)) + OVERHEAD_BYTES
