"""The outbox: all actors send to peers through the outbox.

Each item waits in the pipe of its peer until the edge serves the peers that have items: when all actors are idle, or
the budget of the dispatcher is spent. So batches grow with the load, and a single item leaves at once.
"""

from __future__ import annotations

from typing import Any

from scaler.actors.vocabulary.peer import Peer
from scaler.ids import NO_CONNECTION, Connection
from scaler.wire.messages.directions import Direction


class Parcel:
    """Items to send on a connection without a peer."""

    __slots__ = ("connection", "direction", "items")

    def __init__(self, connection: Connection, direction: Direction, items: list[Any]) -> None:
        self.connection = connection
        self.direction = direction
        self.items = items


class Outbox:
    """The peers and connections that the edge serves next."""

    def __init__(self) -> None:
        self.due: list[Peer] = []
        self.closing: list[tuple[Peer, Connection]] = []
        self.parcels: dict[Connection, Parcel] = {}
        """the items for connections without a peer; nearly always empty, so the edge can check this often"""

    @property
    def has_work(self) -> bool:
        """Whether the edge has anything to send."""
        return bool(self.due or self.parcels or self.closing)

    def put(self, peer: Peer, item: Any) -> None:
        """Send `item` to a peer on its current connection, or on its next connection if the peer is disconnected."""
        if not peer.is_due:
            peer.is_due = True
            self.due.append(peer)
        peer.put(item)

    def put_streamed(self, peer: Peer, item: Any) -> None:
        """Send an item to a peer. The frames of the item arrive in parts (`StreamedFrames`)."""
        self.serve(peer)
        peer.pipe.put_streamed(item)

    def put_all(self, peer: Peer, items: list[Any]) -> None:
        """Send several items to a peer in the order of the list."""
        if items:
            self.serve(peer)
            peer.pipe.put_all(items)

    def put_unnumbered(self, peer: Peer, item: Any) -> None:
        """Send `item` to a peer as an unnumbered message, on its current connection only (if there is one)."""
        if peer.connection != NO_CONNECTION:
            peer.unnumbered.append(item)
            self.serve(peer)

    def serve(self, peer: Peer) -> None:
        """Have the edge serve a peer, also without a new item: a window has opened, or an acknowledgement is due."""
        if not peer.is_due:
            peer.is_due = True
            self.due.append(peer)

    def put_to_stranger(self, connection: Connection, direction: Direction, item: Any) -> None:
        """Send `item`, such as a refusal, on a connection without a peer."""
        parcel = self.parcels.get(connection)
        if parcel is None:
            parcel = self.parcels[connection] = Parcel(connection, direction, [])
        parcel.items.append(item)

    def close(self, peer: Peer) -> None:
        """Send the remaining items of a peer on the current connection, because the session of the peer has ended."""
        if peer.connection != NO_CONNECTION:
            self.closing.append((peer, peer.connection))

    def notify_of_next(self, peer: Peer, heard: int) -> bool:
        """Have the session of a peer notified when the next item is sent to the peer.

        Return False, and do nothing, if the peer has not received all earlier items.

        Args:
            heard: the number of the last message that the peer has received.
        """
        if peer.connection == NO_CONNECTION or peer.pipe.last_sent != heard or peer.pipe.has_pending:
            return False
        peer.is_awaited = True
        return True

    def take_due(self) -> list[Peer]:
        """Remove and return the peers to serve, in the order in which items were put for these peers."""
        due, self.due = self.due, []
        for peer in due:
            peer.is_due = False
        return due

    def take_closing(self) -> list[tuple[Peer, Connection]]:
        """Remove and return the peers whose sessions have ended, each with its last connection."""
        closing, self.closing = self.closing, []
        return closing

    def take_parcels(self) -> list[Parcel]:
        """Remove and return the items for connections without a peer."""
        parcels, self.parcels = self.parcels, {}
        return list(parcels.values())
