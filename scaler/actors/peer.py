"""Peer: the scheduler's end of a session, whom actors hold and speak to, whichever connection it has.

The acceptor makes it, the directory gives and takes its connections, the outbox and the edge carry what is put for it.
Must never: know what an item means.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from scaler.actors.kit import ActorRef
from scaler.ids import NO_CONNECTION, Connection
from scaler.wire.messages.directions import Direction

PeerKey: TypeAlias = tuple[str, bytes]
"""What kind of peer, and the id that its hello shows."""


class Peer:
    """The scheduler's end of a session: it outlives the connections of its peer, and knows the present one, or none.

    Args:
        python: the Python of a peer whose functions and results are pickled, such as 3.11; else empty.
        agent_token: what the clients inside an agent's tasks show; empty for a peer that has none.
    """

    __slots__ = (
        "agent_token",
        "connection",
        "incoming",
        "is_awaited",
        "items",
        "key",
        "outgoing",
        "python",
        "results_acknowledged",
        "results_received",
        "said",
        "session",
        "visit",
    )

    session: ActorRef
    """whom its messages go to; it has one before it has a connection"""

    def __init__(
        self, key: PeerKey, incoming: Direction, outgoing: Direction, python: str = "", agent_token: bytes = b""
    ) -> None:
        self.key = key
        self.incoming = incoming
        self.outgoing = outgoing
        self.python = python
        self.agent_token = agent_token
        self.connection = NO_CONNECTION
        self.visit = 0
        """the number of its present or last connection, from 1"""
        self.items: list[Any] = []
        """what was put for it and has not been taken yet"""
        self.said = 0
        """how many items were sent on its connection"""
        self.is_awaited = False
        """its session wants to know about the next item"""
        self.results_received = 0
        self.results_acknowledged = 0

    def connect(self, connection: Connection) -> None:
        """It has a new connection, on which nothing has been said."""
        self.connection = connection
        self.visit += 1
        self.said = self.results_received = self.results_acknowledged = 0
        self.is_awaited = False

    def take(self) -> list[Any]:
        """Take what was put for it."""
        items, self.items = self.items, []
        return items
