"""Peer: the scheduler's end of a session: actors send to the peer, whether it is connected or not.

The acceptor makes the peer, and the directory assigns its connections. Actors send items to the outbox, which puts them
into the pipe of the session. The edge sends from the pipe. While the peer is disconnected, items wait in the pipe.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, TypeAlias

from scaler.actors.vocabulary.events import PeerIdentity
from scaler.actors.vocabulary.owners import NOBODY, Owner
from scaler.errors import ProtocolError
from scaler.ids import NO_CONNECTION, Connection
from scaler.keys.allowed import AllowedKey
from scaler.kit import ActorRef
from scaler.wire.messages.client import TaskResult
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.common import LOST, ObjectResponse
from scaler.wire.messages.directions import Direction
from scaler.wire.messages.worker import RunTask

RESULT_BYTES_MOST = 64 * 1024 * 1024
"""The most bytes of results of dropped pipes that are kept for each client. Tasks of further results run again."""

RESULT_BYTES = 200
"""The bytes that a result takes beside its payload."""

PeerKey: TypeAlias = tuple[str, bytes]
"""The key of a peer: the kind of peer, and the id in the hello of the peer."""


Message: TypeAlias = tuple[bytes, Sequence[Any]]
"""A message on the wire: the header frame and the payload frames."""


class PeerPipe(Protocol):
    """The interface of a pipe for actors and the edge; documented in `scaler.wire.session.pipe`."""

    put: Callable[[Any], None]
    put_all: Callable[[Iterable[Any]], None]
    last_sent: int
    heard: int
    acknowledged: int

    @property
    def arriving_bytes(self) -> int: ...

    @property
    def has_pending(self) -> bool: ...

    @property
    def is_ready(self) -> bool: ...

    def take(self) -> list[Message]: ...

    def unnumbered(self, items: Sequence[Any]) -> Message: ...

    def receive(self, header: bytes, frames: Sequence[Any]) -> list[Batch[Any]]: ...

    def resume(self, heard: int) -> list[Message]: ...

    def withdraw(self, kind: type, after: int) -> list[Any]: ...

    def unacknowledged(self) -> Iterator[Any]: ...

    def pending(self) -> Iterator[Any]: ...

    def size_bytes(self) -> int: ...

    def put_streamed(self, item: Any) -> None: ...


OpenPipe: TypeAlias = Callable[..., PeerPipe]
"""A function that returns the pipe of a new session, given the incoming and outgoing directions and `on_bulk_sent`."""


class Peer:
    """The scheduler's end of a session. A peer outlives its connections, and has at most one connection at a time.

    Args:
        python: the Python of a peer that pickles functions or results, such as 3.11; else empty.
        agent_token: the token that the clients inside an agent's tasks show; empty for other peers.
        permit: the key with which the peer was accepted; None where no key is needed.
        owner: the owner of the peer; None for the unnamed owner.
    """

    __slots__ = (
        "_new_pipe",
        "agent_token",
        "begun",
        "connection",
        "connection_number",
        "dial",
        "garbled",
        "hello_at",
        "identity",
        "incoming",
        "is_admin",
        "is_awaited",
        "is_due",
        "is_in_parent",
        "is_invalid",
        "key",
        "last_received_at",
        "left",
        "outgoing",
        "owner",
        "permit",
        "pipe",
        "put",
        "python",
        "resends",
        "results",
        "session",
        "tasks_announced",
        "unnumbered",
        "window_closed",
    )

    session: ActorRef
    """the actor that receives the messages of the peer; set before the peer has a connection"""

    def __init__(
        self,
        key: PeerKey,
        incoming: Direction,
        outgoing: Direction,
        new_pipe: OpenPipe,
        python: str = "",
        agent_token: bytes = b"",
        identity: PeerIdentity | None = None,
        permit: AllowedKey | None = None,
        owner: Owner | None = None,
    ) -> None:
        self.key = key
        self.incoming = incoming
        self.outgoing = outgoing
        self.python = python
        self.agent_token = agent_token
        self.identity = identity
        self.permit = permit
        self.owner = owner or Owner(NOBODY)
        self.is_admin = False
        """whether the peer may do what affects other owners; False for clients inside tasks"""
        self.is_in_parent = False
        """whether the peer is in the process that started this scheduler; if so, silence does not end the session"""
        self.connection = NO_CONNECTION
        self.connection_number = 0
        """the number of the current or last connection of the peer, from 1"""
        self.dial = 0
        """the number, from 1, that the peer gave its current or last connection; 0 if the peer gives none"""
        self.begun = 0
        """the number that the peer gave the connection on which the session started"""
        self.is_due = False
        """whether the peer is among the peers that the outbox serves next"""
        self.is_awaited = False
        """whether the session of the peer is to be notified of the next item for the peer"""
        self.last_received_at = 0.0
        """when the last message of the peer was received"""
        self.garbled = 0
        """the number of consecutive sessions of the peer that ended with an unreadable or unwritable message"""
        self.tasks_announced = 0
        """the greatest number of open tasks that a reply has ever allowed the peer"""
        self.hello_at = 0.0
        """when the last hello of the peer was received"""
        self._new_pipe = new_pipe
        self.unnumbered: list[Any] = []
        """unnumbered items, such as replies, sent before all other items and on the current connection only"""
        self.resends: list[Message] = []
        """unacknowledged messages of former connections, to be sent again"""
        self.results: dict[bytes, TaskResult] = {}
        """unacknowledged results from dropped pipes, by task, for the new session of a client"""
        self._open_pipe()

    def _open_pipe(self) -> None:
        self.pipe = self._new_pipe(self.incoming, self.outgoing, on_bulk_sent=self._left_late)
        self.put = self.pipe.put
        self.left = 0
        """the number of the last message that was passed to a socket"""
        self.window_closed = (-1, 0.0)
        """a pair: the last acknowledged number that the edge has noticed, and when the edge first noticed it"""
        self.is_invalid = False
        """whether the session cannot resume, because some messages were dropped or could not be read"""

    def _left_late(self, items: Sequence[Any]) -> None:
        """Report each large `RunTask` that was sent: smaller ones that were put later may have been sent before."""
        orders = Batch[RunTask](item for item in items if type(item) is RunTask)
        if orders:
            self.session.send(orders)

    def connect(self, connection: Connection) -> None:
        """Replace the connection by a new connection, on which nothing has been sent."""
        self.connection = connection
        self.connection_number += 1
        self.is_awaited = False
        self.unnumbered, self.resends = [], []

    def resume(self, heard: int) -> bool:
        """Resume the session on a new connection; return False if the session cannot resume.

        Args:
            heard: the number of the last message that the peer has received.
        """
        if self.is_invalid:
            return False
        try:
            self.resends = self.pipe.resume(heard)
        except ProtocolError:
            return False
        return True

    def start_over(self, dial: int) -> list[TaskResult]:
        """Start a session with a new pipe. Return the results that the peer has not acknowledged in the last session.

        Args:
            dial: the number that the peer gave the connection on which the session starts.
        """
        self.invalidate()
        self.is_invalid, self.begun = False, dial
        results, self.results = self.results, {}
        return list(results.values())

    def invalidate(self) -> None:
        """Drop all items except results, so that the session cannot resume on the next connection of the peer."""
        results = self.results
        left_bytes = RESULT_BYTES_MOST - sum(map(_size_of, results.values()))
        for item in self.pipe.unacknowledged():
            if type(item) is TaskResult and _size_of(item) <= left_bytes:
                left_bytes -= _size_of(item)
                results[item.task_id] = item
            elif type(item) is ObjectResponse and item.found == LOST:  # the client may submit its task again
                results.pop(item.object_id, None)
        self._open_pipe()
        self.resends = []
        self.is_invalid = True


def _size_of(result: TaskResult) -> int:
    return len(result.payload) + RESULT_BYTES
