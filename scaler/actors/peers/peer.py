"""Peer: the scheduler's end of a session, whom actors hold and speak to, whichever connection it has.

It owns the pipe of the session, so what is said while its peer is away waits there. The acceptor makes it, the
directory gives and takes its connections, actors put items in through the outbox, and the edge drives the pipe.
Must never: know what an item means.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, TypeAlias

from scaler.actors.insight.events import PeerIdentity
from scaler.actors.peers.owners import NOBODY, Owner
from scaler.errors import ProtocolError
from scaler.ids import NO_CONNECTION, Connection
from scaler.keys.allowed import AllowedKey
from scaler.kit import ActorRef
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.directions import Direction
from scaler.wire.messages.worker import RunTask

PeerKey: TypeAlias = tuple[str, bytes]
"""What kind of peer, and the id that its hello shows."""


Message: TypeAlias = tuple[bytes, Sequence[Any]]
"""The header frame and the payload frames."""


class PeerPipe(Protocol):
    """A pipe, as actors and the edge know it; `scaler.wire.session.pipe` says what each part does."""

    put: Callable[[Any], None]
    put_all: Callable[[Iterable[Any]], None]
    said: int
    heard: int
    acknowledged: int

    @property
    def arriving_bytes(self) -> int: ...

    @property
    def has_unsaid(self) -> bool: ...

    @property
    def is_ready(self) -> bool: ...

    def take(self) -> list[Message]: ...

    def unnumbered(self, items: Sequence[Any]) -> Message: ...

    def receive(self, header: bytes, frames: Sequence[Any]) -> list[Batch[Any]]: ...

    def resume(self, heard: int) -> list[Message]: ...

    def withdraw(self, kind: type, after: int) -> list[Any]: ...

    def unheard(self) -> Iterator[Any]: ...

    def unsaid(self) -> Iterator[Any]: ...

    def size_bytes(self) -> int: ...

    def put_streamed(self, item: Any) -> None: ...


OpenPipe: TypeAlias = Callable[..., PeerPipe]
"""Returns the pipe of a new session, given the directions of what comes and what leaves, and `on_left_late`."""


class Peer:
    """The scheduler's end of a session: it outlives the connections of its peer, and knows the present one, or none.

    Args:
        python: the Python of a peer whose functions and results are pickled, such as 3.11; else empty.
        agent_token: what the clients inside an agent's tasks show; empty for a peer that has none.
        identity: what it says of itself in its hello.
        permit: the key with which it was let in; None: nobody needs one here.
        owner: to whom it belongs; None: nobody in particular.
    """

    __slots__ = (
        "_new_pipe",
        "agent_token",
        "alone",
        "begun",
        "connection",
        "dial",
        "garbled",
        "heard_at",
        "identity",
        "incoming",
        "is_admin",
        "is_awaited",
        "is_due",
        "is_in_parent",
        "is_spoilt",
        "key",
        "left",
        "met_at",
        "outgoing",
        "owner",
        "permit",
        "pipe",
        "put",
        "python",
        "resends",
        "session",
        "tasks_told",
        "visit",
        "window_closed",
    )

    session: ActorRef
    """whom its messages go to; it has one before it has a connection"""

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
        """whether it may do what concerns others; no client in a task may"""
        self.is_in_parent = False
        """whether it is in the process that has started this scheduler: then silence on a connection is not its end"""
        self.connection = NO_CONNECTION
        self.visit = 0
        """the number of its present or last connection, from 1"""
        self.dial = 0
        """the number of that connection as the peer itself counts, from 1; 0: it does not"""
        self.begun = 0
        """the same, of the connection on which its session began"""
        self.is_due = False
        """the outbox knows that there is something to do for it"""
        self.is_awaited = False
        """its session wants to know about the next item"""
        self.heard_at = 0.0
        """when a message came last"""
        self.garbled = 0
        """how many of its sessions in a row ended by a message that could not be read or written"""
        self.tasks_told = 0
        """how many open tasks it was told that it may have, at most"""
        self.met_at = 0.0
        """when it said hello last"""
        self._new_pipe = new_pipe
        self.alone: list[Any] = []
        """what leaves on this connection only, out of the count, before all else: a reply, an echo"""
        self.resends: list[Message] = []
        """what was said on former connections, and was not heard"""
        self._open_pipe()

    def _open_pipe(self) -> None:
        self.pipe = self._new_pipe(self.incoming, self.outgoing, on_left_late=self._left_late)
        self.put = self.pipe.put
        self.left = 0
        """the highest number of a message that was given to a socket"""
        self.window_closed = (-1, 0.0)
        """what it had acknowledged when its window was last found closed, and since when"""
        self.is_spoilt = False
        """its session cannot go on: some of it was dropped, or could not be read"""

    def _left_late(self, items: Sequence[Any]) -> None:
        """Smaller items that were put later have left before these. Its session hears of orders."""
        orders = Batch[RunTask](item for item in items if type(item) is RunTask)
        if orders:
            self.session.send(orders)

    def connect(self, connection: Connection) -> None:
        """It has a new connection, on which nothing has been said."""
        self.connection = connection
        self.visit += 1
        self.is_awaited = False
        self.alone, self.resends = [], []

    def resume(self, heard: int) -> bool:
        """Go on where the session was, on the connection that it has got just now.

        Args:
            heard: the highest number that the peer has heard.

        Returns: whether that is possible.
        """
        if self.is_spoilt:
            return False
        try:
            self.resends = self.pipe.resume(heard)
        except ProtocolError:
            return False
        return True

    def unheard(self, kind: type) -> list[Any]:
        """Return the items of a kind that were said and perhaps not heard."""
        return [item for item in self.pipe.unheard() if type(item) is kind]

    def reset(self) -> None:
        """Begin anew: what was said and not heard is dropped."""
        self._open_pipe()
        self.resends = []

    def spoil(self) -> None:
        """Drop what it keeps. Its next connection begins anew."""
        self.reset()
        self.is_spoilt = True
