"""Descriptors: the file descriptor of each connection of a socket, and which connections are idle.

Used by the sockets, which learn from ZeroMQ which descriptors were closed. A forked process closes a descriptor only if
the descriptor still belongs to the same connection.
"""

from __future__ import annotations

import contextlib
import os
import weakref
from collections.abc import Callable
from typing import ClassVar

from scaler.ids import Connection


class Descriptors:
    """The descriptors of the connections of one socket.

    The system reuses a descriptor at once, maybe before the end of the old connection has been reported. So a
    descriptor may have several connections.
    """

    def __init__(self) -> None:
        self.known: dict[Connection, int] = {}
        self.keys: dict[Connection, str] = {}
        """the public key of each accepted connection; connections that needed no key are left out"""
        self._connections: dict[int, list[Connection]] = {}
        self._ended: set[Connection] = set()

    def add(self, connection: Connection, descriptor: int) -> None:
        self.known[connection] = descriptor
        self._connections.setdefault(descriptor, []).append(connection)

    def of(self, descriptor: int) -> list[Connection]:
        return list(self._connections.get(descriptor, ()))

    def end(self, descriptor: int) -> None:
        """Record that a descriptor was closed: the oldest open connection of the descriptor has ended."""
        for connection in self._connections.get(descriptor, ()):
            if connection not in self._ended:
                self._ended.add(connection)
                return

    def present(self, connection: Connection) -> int | None:
        """Return the descriptor of a connection, as far as is known; None if the connection no longer has one."""
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
    """A peer's open connections. A forked process closes its copies of the descriptors: an open copy would keep a
    connection open that the parent has closed.
    """

    all: ClassVar[weakref.WeakSet[OpenConnections]] = weakref.WeakSet()

    def __init__(self) -> None:
        self._files: dict[int, int] = {}
        """the inode of the connection at each descriptor, because descriptors are reused"""
        OpenConnections.all.add(self)

    def open(self, descriptor: int) -> None:
        """Add a new connection."""
        with contextlib.suppress(OSError):
            self._files[descriptor] = os.fstat(descriptor).st_ino

    def close(self, descriptor: int) -> None:
        """Remove an ended connection."""
        self._files.pop(descriptor, None)

    def close_after_fork(self) -> None:
        """Close this process's copies of the descriptors. Called in a forked process."""
        for descriptor, file in self._files.items():
            with contextlib.suppress(OSError):
                if os.fstat(descriptor).st_ino == file:
                    os.close(descriptor)
        self._files = {}


def _close_all_after_fork() -> None:
    for connections in list(OpenConnections.all):
        connections.close_after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_all_after_fork)


class IdleConnections:
    """Finds open connections that belong to no peer, so that such connections do not keep descriptors forever.

    The system cannot tell a connection that has sent nothing, or only garbage, from other connections. The search costs
    nothing per message. A connection counts as idle only if two calls of `look` found no peer for it.
    """

    def __init__(self) -> None:
        self._open: set[int] = set()
        self._idle: set[int] = set()
        """the open descriptors that belonged to no peer at the last call of `look`"""

    def open(self, descriptor: int) -> None:
        """Add a new connection."""
        self._open.add(descriptor)
        self._idle.discard(descriptor)

    def close(self, descriptor: int) -> None:
        """Remove an ended connection."""
        self._open.discard(descriptor)
        self._idle.discard(descriptor)

    def look(self, is_busy: Callable[[int], bool]) -> list[int]:
        """Return the open descriptors for which `is_busy` returned False at the last call and returns False now."""
        idle = {descriptor for descriptor in self._open if not is_busy(descriptor)}
        over = idle & self._idle
        self._idle = idle - over
        return sorted(over)
