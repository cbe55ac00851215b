"""The outbox: the actors' one door out, and the directory of connections and sessions.

Actors put single items in. The edge takes out all items of a peer at once, whenever the dispatcher is idle or its
budget is spent. So batches grow with the load, and a single item leaves at once.

The acceptor and the sessions write the directory, and the edge reads it. It outlives them: a restarted acceptor finds
its peers here.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, TypeAlias

from scaler.actors.accounts import Accounts
from scaler.actors.kit import ActorRef
from scaler.actors.messages.peers import NewsSaid
from scaler.ids import Connection
from scaler.wire.messages.directions import Direction

SPENT_REMEMBERED = 16_384
"""How many former connections of peers are remembered."""

PeerKey: TypeAlias = tuple[str, bytes]
"""What kind of peer, and the id that its hello shows."""


class Peer:
    """Who is behind a connection."""

    __slots__ = ("incoming", "is_awaited", "outgoing", "results_acknowledged", "results_received", "said", "session")

    def __init__(self, session: ActorRef, incoming: Direction, outgoing: Direction) -> None:
        self.session = session
        self.incoming = incoming
        self.outgoing = outgoing
        self.results_received = 0
        self.results_acknowledged = 0
        self.said = 0
        """how many items were sent on this connection"""
        self.is_awaited = False
        """its session wants to know about the next item"""


class Directory:
    """Connection -> peer, and key of the peer -> session."""

    def __init__(self, next_attempt: Callable[[], int]) -> None:
        self.next_attempt = next_attempt
        """gives each run a number of its own"""
        self.peers: dict[Connection, Peer] = {}
        self.sessions: dict[PeerKey, ActorRef] = {}
        self.agents_by_token: dict[bytes, ActorRef] = {}
        """agent token -> session of the agent"""
        self.pythons: dict[PeerKey, str] = {}
        """the Python of those peers whose functions and results are pickled, such as 3.11"""
        self.accounts = Accounts()
        """of the clients that are not inside a task"""
        self.departed: dict[Connection, Direction] = {}
        """connections that were unbound since the last flush: their last items still go out"""
        self._spent: OrderedDict[Connection, None] = OrderedDict()

    def bind(self, connection: Connection, session: ActorRef, incoming: Direction, outgoing: Direction) -> None:
        """Route batches from `connection` to `session` from now on."""
        self.peers[connection] = Peer(session, incoming, outgoing)

    def unbind(self, connection: Connection) -> None:
        """Detach the connection from its peer."""
        peer = self.peers.pop(connection, None)
        if peer is not None:
            self.departed[connection] = peer.outgoing
            self._spent[connection] = None
            if len(self._spent) > SPENT_REMEMBERED:
                self._spent.popitem(last=False)

    def is_spent(self, connection: Connection) -> bool:
        """Return whether a connection belongs, or has belonged, to a peer: it may not become another one."""
        return connection in self.peers or connection in self._spent


class Outbox:
    """The items that the edge has not sent yet."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._items: dict[Connection, list[Any]] = {}

    def put(self, connection: Connection, item: Any) -> None:
        """Send `item` to a peer."""
        items = self._items.get(connection)
        if items is None:
            self._items[connection] = [item]
        else:
            items.append(item)

    def put_to_stranger(self, connection: Connection, direction: Direction, item: Any) -> None:
        """Send `item` to a connection that is not in the directory: a refusal."""
        self._directory.departed[connection] = direction
        self.put(connection, item)

    def await_news(self, connection: Connection, heard: int) -> bool:
        """Notify the session of a peer about the next item for that peer (`NewsSaid`).

        Args:
            heard: how many items the peer has received on this connection.

        Returns: whether it has received all; if not, nothing happens.
        """
        peer = self._directory.peers.get(connection)
        if peer is None or peer.said != heard or connection in self._items:
            return False
        peer.is_awaited = True
        return True

    def take(self) -> list[tuple[Connection, Direction | None, list[Any]]]:
        """Take connection, direction and items of each peer with items to send.

        The direction is None for a connection without a peer.
        """
        if not self._items:
            return []
        items, self._items = self._items, {}
        peers, departed = self._directory.peers, self._directory.departed
        taken = []
        for connection, said in items.items():
            peer = peers.get(connection)
            if peer is not None:
                peer.said += len(said)
                if peer.is_awaited:
                    peer.is_awaited = False
                    peer.session.send(NewsSaid())
            taken.append((connection, peer.outgoing if peer else departed.get(connection), said))
        departed.clear()
        return taken
