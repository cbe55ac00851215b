"""Descriptors: by which descriptor of the system each connection of a socket came.

Used by the scheduler's socket, which hears from the system which descriptors were closed. Must never: close one.
"""

from __future__ import annotations

from scaler.ids import Connection


class Descriptors:
    """The connections of one socket.

    A descriptor is used again as soon as its connection has been closed, and the news of that may be read after the
    first message of the next connection. So a descriptor may have several.
    """

    def __init__(self) -> None:
        self.known: dict[Connection, int] = {}
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
        descriptor = self.known.pop(connection, None)
        if descriptor is not None:
            connections = self._connections[descriptor]
            connections.remove(connection)
            if not connections:
                del self._connections[descriptor]
