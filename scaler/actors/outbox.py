"""The outbox: the actors' one door out.

Actors put single items in. The edge takes out all items of a peer at once, whenever the dispatcher is idle or its
budget is spent. So batches grow with the load, and a single item leaves at once.

Must never: know what an item means, or look at a peer to whom nothing is said.
"""

from __future__ import annotations

from typing import Any

from scaler.actors.messages.peers import NewsSaid
from scaler.actors.peer import Peer
from scaler.ids import NO_CONNECTION, Connection
from scaler.wire.messages.directions import Direction


class Parcel:
    """The items that leave on one connection now. The peer is None if the connection is not, or not any more, his."""

    __slots__ = ("connection", "direction", "items", "peer")

    def __init__(self, connection: Connection, direction: Direction, items: list[Any], peer: Peer | None) -> None:
        self.connection = connection
        self.direction = direction
        self.items = items
        self.peer = peer


class Outbox:
    """The items that the edge has not sent yet."""

    def __init__(self) -> None:
        self._peers: list[Peer] = []
        """those with items, in the order of the first one; a peer may be here more than once"""
        self._last_words: dict[Connection, Parcel] = {}
        """to connections that have no peer"""
        self.undeliverable = 0
        """how many items were for peers without a connection"""

    def put(self, peer: Peer, item: Any) -> None:
        """Send `item` to a peer. Nothing happens if it has no connection."""
        items = peer.items
        if not items:
            self._peers.append(peer)
        items.append(item)

    def put_to_stranger(self, connection: Connection, direction: Direction, item: Any) -> None:
        """Send `item` to a connection that has no peer: a refusal."""
        parcel = self._last_words.get(connection)
        if parcel is None:
            parcel = self._last_words[connection] = Parcel(connection, direction, [], None)
        parcel.items.append(item)

    def part(self, peer: Peer) -> None:
        """A peer loses its connection: what was put for it still leaves there."""
        items = peer.take()
        if peer.connection == NO_CONNECTION:
            self.undeliverable += len(items)
            return
        for item in items:
            self.put_to_stranger(peer.connection, peer.outgoing, item)

    def await_news(self, peer: Peer, heard: int) -> bool:
        """Notify the session of a peer about the next item for that peer (`NewsSaid`).

        Args:
            heard: how many items the peer has received on its connection.

        Returns: whether it has received all; if not, nothing happens.
        """
        if peer.connection == NO_CONNECTION or peer.said != heard or peer.items:
            return False
        peer.is_awaited = True
        return True

    def take(self) -> list[Parcel]:
        """Take all items."""
        taken: list[Parcel] = []
        if self._last_words:
            taken += self._last_words.values()
            self._last_words = {}
        if self._peers:
            peers, self._peers = self._peers, []
            for peer in peers:
                items = peer.take()
                if not items:
                    continue
                if peer.connection == NO_CONNECTION:
                    self.undeliverable += len(items)
                    continue
                peer.said += len(items)
                if peer.is_awaited:
                    peer.is_awaited = False
                    peer.session.send(NewsSaid())
                taken.append(Parcel(peer.connection, peer.outgoing, items, peer))
        return taken
