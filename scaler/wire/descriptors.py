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

    def add(self, connection: Connection, descriptor: int) -> None:
        self.known[connection] = descriptor
        self._connections.setdefault(descriptor, []).append(connection)

    def of(self, descriptor: int) -> list[Connection]:
        return list(self._connections.get(descriptor, ()))

    def remove(self, connection: Connection) -> None:
        descriptor = self.known.pop(connection, None)
        if descriptor is not None:
            connections = self._connections[descriptor]
            connections.remove(connection)
            if not connections:
                del self._connections[descriptor]
