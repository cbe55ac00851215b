"""The directory: the connected peers and their connections, and data that outlives sessions.

The acceptor and the edge read and write the directory, which outlives the acceptor. Thousands of peers may come and
leave at once, so no operation on one peer iterates over all peers.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter, OrderedDict
from collections.abc import Callable

from scaler.actors.vocabulary.accounts import Accounts
from scaler.actors.vocabulary.events import PeerIdentity
from scaler.actors.vocabulary.outbox import Outbox
from scaler.actors.vocabulary.owners import Owners
from scaler.actors.vocabulary.peer import Peer, PeerKey
from scaler.actors.vocabulary.recent_runs import RecentRuns
from scaler.actors.vocabulary.text_hashes import TextHashes
from scaler.actors.vocabulary.worker_names import WorkerNames
from scaler.ids import NO_CONNECTION, Connection, TaskId, is_later
from scaler.kit import ActorRef

SPENT_REMEMBERED = 16_384
"""The most former connections of peers that are remembered."""

BACK_SECONDS = 2.5
"""How long the agents of the last scheduler have to return. Meanwhile, tasks wait for their runs at these agents."""

MARK_SECONDS = 1.0
"""The shortest time between two marks of `AttemptTimes`."""
MARKS_MOST = 4096
"""When this number of marks is reached, marks that are too close to the mark before (`PRECISION`) are dropped."""
PRECISION = 0.005
"""The least time between two neighbouring marks that are both kept, as a share of the age of the later mark."""

KNOWN_MOST = 200_000
"""Limit of the tasks that are known as not started. A forgotten task counts as started, and is not started again."""


class UnstartedRuns:
    """The ids of the latest tasks that were cancelled before they started."""

    def __init__(self) -> None:
        self._task_ids: OrderedDict[TaskId, None] = OrderedDict()

    def add(self, task_id: TaskId) -> None:
        """Remember that a task was certainly not started."""
        self._task_ids[task_id] = None
        if len(self._task_ids) > KNOWN_MOST:
            self._task_ids.popitem(last=False)

    def take(self, task_id: TaskId) -> bool:
        """Return whether a task was certainly not started. Forget the task, because it may be started from now on."""
        return self._task_ids.pop(task_id, 0) is None


class AttemptTimes:
    """Marks: for some attempts, the number of the attempt and the time at which this number was assigned."""

    def __init__(self) -> None:
        self._marks: list[tuple[int, float]] = []

    def mark(self, next_attempt: Callable[[], int], now: float) -> None:
        """Add a mark with a new number, unless the last mark is too recent. Later attempts have higher numbers."""
        marks = self._marks
        if marks and now - marks[-1][1] < MARK_SECONDS:
            return
        marks.append((next_attempt(), now))
        if len(marks) >= MARKS_MOST:
            self._thin_out(now)

    def _thin_out(self, now: float) -> None:
        kept: list[tuple[int, float]] = []
        for mark in self._marks:
            if not kept or mark[1] - kept[-1][1] >= PRECISION * (now - mark[1]):
                kept.append(mark)
        self._marks = kept

    def seconds_since(self, attempt: int, now: float) -> float:
        """Return how many seconds old an attempt is at least; 0 if the attempt is newer than the last mark."""
        marks, place = self._marks, self._place(attempt)
        return now - marks[place][1] if place < len(marks) else 0.0

    def seconds_since_at_most(self, attempt: int, now: float) -> float:
        """Return how many seconds old an attempt is at most; 0 if the attempt is older than all marks."""
        place = self._place(attempt)
        return now - self._marks[place - 1][1] if place else 0.0

    def _place(self, attempt: int) -> int:
        """Return the position of the first mark that is newer than an attempt."""
        return bisect_left(self._marks, True, key=lambda mark: is_later(mark[0], attempt))


class Directory:
    """All peers with a session, by key, session and connection.

    Args:
        has_turns: whether clients of one owner take turns.
    """

    def __init__(self, next_attempt: Callable[[], int], outbox: Outbox, has_turns: bool = True) -> None:
        self.next_attempt = next_attempt
        """returns a new number for an attempt"""
        self.attempt_times = AttemptTimes()
        self.unstarted = UnstartedRuns()
        self.recent_runs = RecentRuns()
        self.peers: dict[PeerKey, Peer] = {}
        """the peers with a session, by kind of peer and id"""
        self.connected: dict[Connection, Peer] = {}
        """the peers with a connection, by connection"""
        self.agents_by_token: dict[bytes, ActorRef] = {}
        self._expected = 0, -math.inf
        """a pair: the number of agents of the last scheduler, and the time until which they are expected to return"""
        self.pythons: Counter[tuple[str, str]] = Counter()
        """the number of peers that pickle functions or results, by Python version (such as 3.11) and kind of peer"""
        self.owners = Owners()
        self.accounts = Accounts(self.owners, has_turns)
        """the accounts of the clients outside of tasks"""
        self.worker_names = WorkerNames()
        self.text_hashes = TextHashes()
        self.workers = self.agents = 0
        """two numbers: how many workers all connected agents have, and how many agents these are"""
        self._by_session: dict[ActorRef, Peer] = {}
        self._outbox = outbox
        self._spent: OrderedDict[Connection, PeerKey] = OrderedDict()

    def add(self, peer: Peer, session: ActorRef, connection: Connection) -> None:
        """Add a peer whose session has just started."""
        peer.session = session
        self.peers[peer.key] = peer
        self._by_session[session] = peer
        if peer.python:
            self.pythons[peer.python, peer.key[0]] += 1
        if peer.agent_token:
            self.agents_by_token[peer.agent_token] = session
        peer.owner.clients += self._is_root(peer)
        self._connect(peer, connection)

    def expect(self, agents: int, now: float) -> None:
        """Store how many agents the last scheduler had, as a returning agent reports; 0 if there was none."""
        if agents:
            self._expected = max(agents, self._expected[0]), now + BACK_SECONDS

    def agents_to_announce(self, now: float) -> int:
        """Return how many agents have a session or are expected: the number for which the next scheduler waits."""
        expected, until = self._expected
        return max(len(self.agents_by_token), expected if now < until else 0)

    def reconnect(self, peer: Peer, connection: Connection) -> None:
        """Replace the connection of a peer by a new connection."""
        self.disconnect(peer)
        self._connect(peer, connection)

    def _connect(self, peer: Peer, connection: Connection) -> None:
        peer.connect(connection)
        self.connected[connection] = peer
        self._count(peer, 1)

    def disconnect(self, peer: Peer) -> None:
        """Remove the connection of a peer, if there is one. Unsent items wait for the next connection."""
        connection = peer.connection
        if connection == NO_CONNECTION:
            return
        peer.connection = NO_CONNECTION
        del self.connected[connection]
        self._count(peer, -1)
        self.spend(connection, peer)

    def spend(self, connection: Connection, peer: Peer) -> None:
        """Mark a connection as used by this peer, so that no other peer may use the connection."""
        self._spent[connection] = peer.key
        if len(self._spent) > SPENT_REMEMBERED:
            self._spent.popitem(last=False)

    def _count(self, peer: Peer, change: int) -> None:
        if peer.identity is not None and peer.key[0] == "cluster":
            self.agents += change
            self.workers += change * len(peer.identity.worker_names)

    def describe(self, peer: Peer, identity: PeerIdentity) -> None:
        """Update the identity of an agent whose number of workers has changed."""
        change = int(peer.connection != NO_CONNECTION)
        self._count(peer, -change)
        peer.identity = identity
        self._count(peer, change)

    def remove(self, peer: Peer) -> None:
        """Forget a peer whose session has ended. Unsent items are still sent. A second call has no effect."""
        if self._by_session.pop(peer.session, None) is None:
            return
        self._outbox.close(peer)
        self.disconnect(peer)
        if peer.key[0] == "cluster":
            self.worker_names.release(peer.key[1])
        if peer.python:
            python = (peer.python, peer.key[0])
            self.pythons[python] -= 1
            if not self.pythons[python]:
                del self.pythons[python]
        peer.owner.clients -= self._is_root(peer)
        if self.agents_by_token.get(peer.agent_token) is peer.session:
            del self.agents_by_token[peer.agent_token]
        if self.peers.get(peer.key) is peer:  # else it has a new session already
            del self.peers[peer.key]
            self.text_hashes.remove(peer.key[1])
            self.accounts.close(peer.key[1])

    def check(self) -> None:
        """Assert that the tables agree."""
        connected = [peer for peer in self.peers.values() if peer.connection != NO_CONNECTION]
        assert {peer.connection: peer for peer in connected} == self.connected
        assert all(self._by_session[peer.session] is peer for peer in self.peers.values())
        assert sum(self.pythons.values()) == sum(bool(peer.python) for peer in self.peers.values())

    def _is_root(self, peer: Peer) -> bool:
        return peer.key[0] == "client" and not self.accounts.is_inside(peer.key[1])

    def pythons_of(self, kind: str, without: Peer | None = None) -> set[str]:
        """Return the Python versions of all peers of a kind. `without`: a peer to leave out."""
        itself = None if without is None else (without.python, without.key[0])
        return {
            python for (python, of), count in self.pythons.items() if of == kind and count > ((python, of) == itself)
        }

    def of_session(self, session: ActorRef) -> Peer | None:
        """Return the peer of a session, or None if the peer has been removed."""
        return self._by_session.get(session)

    def former(self, connection: Connection) -> Peer | None:
        """Return the peer that had this connection; None if the peer is unknown, is connected, or has no session."""
        key = self._spent.get(connection)
        peer = None if key is None else self.peers.get(key)
        return None if peer is None or peer.connection else peer

    def is_spent(self, connection: Connection) -> bool:
        """Return whether a peer uses or has used a connection, so that no other peer may use the connection."""
        return connection in self.connected or connection in self._spent
