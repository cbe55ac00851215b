"""Strangers: how much each connection has said that belongs to no peer.

Written and read by the edge, which asks a stranger for a hello once, and hangs up on one that goes on without. Must
never: grow with the number of connections.
"""

from __future__ import annotations

from collections import OrderedDict

from scaler.ids import Connection
from scaler.wire.messages.worker import HELD_MOST, HELD_RUN

REMEMBERED = 1024
"""How many strangers are remembered; beyond that, the one that has been silent for the longest time is forgotten."""

MESSAGES_MOST = 64
"""What a former peer may have on its way when it is asked for a new hello. One that says more is no peer of ours."""

FIRST_BYTES = 2 * 1024 * 1024 + HELD_MOST * HELD_RUN.size
"""A larger first message is no hello: 65,535 names of 32 bytes and the most runs are in one of this size."""


class Strangers:
    """Connections that have not said a hello that was accepted, or were peers and talked garbage."""

    def __init__(self) -> None:
        self._counts: OrderedDict[Connection, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._counts)

    def add_message(self, connection: Connection) -> int:
        """Return how many messages the connection has sent, with this one."""
        count = self._counts[connection] = self._counts.pop(connection, 0) + 1
        if len(self._counts) > REMEMBERED:
            self._counts.popitem(last=False)
        return count

    def remove(self, connection: Connection) -> None:
        """The connection has said hello, or is gone."""
        self._counts.pop(connection, None)
