"""Descriptors: by which descriptor of the system each connection of a socket came, and which of them are idle.

Used by the sockets, which hear from the system which descriptors were closed. Must never: close one that another part
of this process has.
"""

from __future__ import annotations

import contextlib
import os
import weakref
from collections.abc import Callable
from typing import ClassVar

from scaler.ids import Connection


class Descriptors:
    """The connections of one socket.

    A descriptor is used again as soon as its connection has been closed, and the news of that may be read after the
    first message of the next connection. So a descriptor may have several.
    """

    def __init__(self) -> None:
        self.known: dict[Connection, int] = {}
        self.keys: dict[Connection, str] = {}
        """the public keys with which connections were let in; of those that needed none, there is nothing"""
        self._connections: dict[int, list[Connection]] = {}
        self._ended: set[Connection] = set()

    def add(self, connection: Connection, descriptor: int) -> None:
        self.known[connection] = descriptor
        self._connections.setdefault(descriptor, []).append(connection)

    def of(self, descriptor: int) -> list[Connection]:
        return list(self._connections.get(descriptor, ()))

    def end(self, descriptor: int) -> None:
        """Note that a descriptor was closed: of its connections the oldest is not behind it any more."""
        for connection in self._connections.get(descriptor, ()):
            if connection not in self._ended:
                self._ended.add(connection)
                return

    def present(self, connection: Connection) -> int | None:
        """Return the descriptor that a connection still has, as far as is known; None if it has none."""
        descriptor = None if connection in self._ended else self.known.get(connection)
        return descriptor if descriptor is not None and self._connections[descriptor][-1] == connection else None

    def remove(self, connection: Connection) -> None:
        self._ended.discard(connection)
        self.keys.pop(connection, None)
        descriptor = self.known.pop(connection, None)
        if descriptor is not None:
            connections = self._connections[descriptor]
            connections.remove(connection)
            if not connections:
                del self._connections[descriptor]


class OpenConnections:
    """The connections of a peer's socket that stand. In a forked process their copies are closed: they would keep the
    connections when this process has ended, and the other end would wait for it.
    """

    all: ClassVar[weakref.WeakSet[OpenConnections]] = weakref.WeakSet()

    def __init__(self) -> None:
        self._files: dict[int, int] = {}
        """descriptor -> what the system calls the connection behind it: descriptors are used again"""
        OpenConnections.all.add(self)

    def open(self, descriptor: int) -> None:
        """Take a new connection."""
        with contextlib.suppress(OSError):
            self._files[descriptor] = os.fstat(descriptor).st_ino

    def close(self, descriptor: int) -> None:
        """A connection has ended."""
        self._files.pop(descriptor, None)

    def leave_to_parent(self) -> None:
        """Close the copies of this forked process."""
        for descriptor, file in self._files.items():
            with contextlib.suppress(OSError):
                if os.fstat(descriptor).st_ino == file:
                    os.close(descriptor)
        self._files = {}


def _leave_all_to_parent() -> None:
    for standing in list(OpenConnections.all):
        standing.leave_to_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_all_to_parent)


class IdleConnections:
    """Finds the connections that stand and belong to no peer, so that they do not keep open files for ever.

    A connection on which nothing was ever said, or nothing but garbage, looks like any other to the system. Costs
    nothing per message, and takes none that has just come for idle.
    """

    def __init__(self) -> None:
        self._standing: set[int] = set()
        self._idle: set[int] = set()
        """those that belonged to no peer at the last look, and are not closed since"""

    def open(self, descriptor: int) -> None:
        """Take a new connection."""
        self._standing.add(descriptor)
        self._idle.discard(descriptor)

    def close(self, descriptor: int) -> None:
        """A connection has ended."""
        self._standing.discard(descriptor)
        self._idle.discard(descriptor)

    def look(self, is_busy: Callable[[int], bool]) -> list[int]:
        """Return the descriptors that belonged to no peer at the last look, and belong to none now.

        Args:
            is_busy: returns whether a peer is behind a descriptor.
        """
        idle = {descriptor for descriptor in self._standing if not is_busy(descriptor)}
        over = idle & self._idle
        self._idle = idle - over
        return sorted(over)
