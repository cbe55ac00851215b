"""Loop: the event loop of a simulated process, in place of asyncio's; and what takes the place of `select.poll`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from tests.simulation.world import Event, Party

WAKE_MOST_SECONDS = 0.0005
"""How long the system may take to wake a process."""
RESOLUTION_SECONDS = 1e-6
"""A sleep is never too short, as sums of floats may be."""


class LoopModel:
    """The part of an event loop that a shell uses."""

    def __init__(self, party: Party) -> None:
        self._party = party
        self._readers: dict[int, Callable[[], None]] = {}
        self._ready: set[int] = set()
        self.on_stop: Callable[[], None] = lambda: None
        self.wake_most_seconds = WAKE_MOST_SECONDS

    def wake(self, descriptor: int) -> None:
        """The descriptor is readable."""
        if descriptor not in self._ready:
            self._ready.add(descriptor)
            seconds = self._party.world.random.random() * self.wake_most_seconds
            self._party.soon(partial(self._read, descriptor), seconds)

    def _read(self, descriptor: int) -> None:
        self._ready.discard(descriptor)
        reader = self._readers.get(descriptor)
        if reader is not None:
            reader()

    def add_reader(self, descriptor: int, reader: Callable[[], None]) -> None:
        self._readers[descriptor] = reader

    def remove_reader(self, descriptor: int) -> None:
        self._readers.pop(descriptor, None)

    def remove_writer(self, descriptor: int) -> None:
        pass

    def call_soon(self, action: Callable[..., Any], *arguments: Any) -> Event:
        return self._party.soon(partial(action, *arguments))

    call_soon_threadsafe = call_soon

    def call_later(self, seconds: float, action: Callable[..., Any], *arguments: Any) -> Event:
        return self._party.soon(partial(action, *arguments), seconds + RESOLUTION_SECONDS)

    def stop(self) -> None:
        self._party.soon(self.on_stop)

    def is_closed(self) -> bool:
        return not self._party.is_alive

    def close(self) -> None:
        self._readers.clear()


class PollModel:
    """The part of `select.poll` that a client uses. It never waits: its party sleeps instead."""

    def __init__(self, is_readable: Callable[[int], bool]) -> None:
        self._is_readable = is_readable
        self._descriptors: list[int] = []

    def register(self, descriptor: int, _events: int) -> None:
        self._descriptors.append(descriptor)

    def poll(self, _milliseconds: float) -> list[tuple[int, int]]:
        return [(descriptor, 1) for descriptor in self._descriptors if self._is_readable(descriptor)]


class PipeEnd:
    """One end of a `socketpair` with which threads wake each other."""

    def __init__(self, party: Party, descriptor: int) -> None:
        self._party = party
        self._descriptor = descriptor
        self.other: PipeEnd | None = None
        self.count = 0

    def fileno(self) -> int:
        return self._descriptor

    def setblocking(self, _is_blocking: bool) -> None:
        pass

    def send(self, data: bytes) -> int:
        assert self.other is not None
        self.other.count += len(data)
        self._party.wake(self.other.fileno())  # type: ignore[attr-defined]
        return len(data)

    def recv(self, _count: int) -> bytes:
        count, self.count = self.count, 0
        return bytes(count)

    def close(self) -> None:
        pass
