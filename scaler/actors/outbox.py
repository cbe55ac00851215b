"""The outbox: the actors' one door out, and the directory of who is behind which connection.

Actors put single items in; the edge takes them out, all of a peer's at once, whenever the dispatcher has nothing more
to do or its budget is spent. So batches grow with the load by themselves, and a single item leaves at once.

The directory is written by the acceptor and the sessions, and read by the edge. It outlives them: an acceptor that was
restarted finds its peers here.
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
"""How many connections are remembered that belonged to a peer once."""

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
        """how many items were said on this connection"""
        self.is_awaited = False
        """its session wants to know when the next one is"""


class Directory:
    """Connection -> peer, and key of the peer -> session."""

    def __init__(self, next_attempt: Callable[[], int]) -> None:
        self.next_attempt = next_attempt
        """gives each run a number of its own"""
        self.peers: dict[Connection, Peer] = {}
        self.sessions: dict[PeerKey, ActorRef] = {}
        self.agents_by_token: dict[bytes, ActorRef] = {}
        """what the clients inside an agent's tasks show -> session of the agent"""
        self.pythons: dict[PeerKey, str] = {}
        """the Python of those peers whose functions and results are pickled, such as 3.11"""
        self.accounts = Accounts()
        """of the clients that are not inside a task"""
        self.departed: dict[Connection, Direction] = {}
        """connections that were unbound since the last flush: their last words still go out"""
        self._spent: OrderedDict[Connection, None] = OrderedDict()

    def bind(self, connection: Connection, session: ActorRef, incoming: Direction, outgoing: Direction) -> None:
        """From now on mail from `connection` goes to `session`."""
        self.peers[connection] = Peer(session, incoming, outgoing)

    def unbind(self, connection: Connection) -> None:
        """The connection belongs to nobody any more."""
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
    """What the actors have said and the edge has not yet sent."""

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
        """Send `item` to somebody who is not in the directory: a refusal."""
        self._directory.departed[connection] = direction
        self.put(connection, item)

    def await_news(self, connection: Connection, heard: int) -> bool:
        """Have the session of a peer hear of the next item that is said to it (`NewsSaid`).

        Args:
            heard: how many items the peer has had on this connection.

        Returns:
            whether it has had all; if not, nothing else happens.
        """
        peer = self._directory.peers.get(connection)
        if peer is None or peer.said != heard or connection in self._items:
            return False
        peer.is_awaited = True
        return True

    def take(self) -> list[tuple[Connection, Direction | None, list[Any]]]:
        """Return connection, direction and items of every peer with something to send, and forget them.

        The direction is None for a connection that nobody is behind any more.
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
