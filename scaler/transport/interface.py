"""Transport: the way from one end of a connection to the other, as edges see it.

    Listener <--messages of many connections--- ... ---messages of one connection--> Dialer

An edge has one Transport and asks it for connections; what they are made of is no business of an edge. Scaler's own are
ZeroMQ's (`zeromq.py`) and plain streams at ipc addresses (`streams.py`); the simulation has a modelled network. A
message is a header frame and payload frames. Nothing here knows what a message means.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any, Protocol, TypeAlias

from scaler.endpoint import Endpoint
from scaler.ids import Connection

Message: TypeAlias = tuple[bytes, list[memoryview]]
"""The header frame and the payload frames."""

FRAME_BYTES_MOST = 64 * 1024 * 1024
"""A connection on which a larger frame comes is closed before the frame takes any memory: what is large travels in
chunks."""
UNREAD_BYTES_MOST = 2 * FRAME_BYTES_MOST
"""What may wait of one connection to be read."""


class AddressInUseError(OSError):
    """Another program listens at the address."""


class PeerGoneError(ConnectionError):
    """The connection of a message does not exist any more."""


class Dialer(Protocol):
    """A peer's end of one connection, from its dialling to its loss. The next connection is another dialer."""

    descriptor: int
    """readable when a message may have come; only an empty read re-arms it"""
    monitor_descriptor: int
    """readable when the connection may be lost"""

    def expect(self) -> None:
        """Say that its descriptor is readable. After a `receive` that has found nothing, the next one need not look
        before this; and after this, it need not ask whether there is anything.
        """

    def receive(self) -> Message | None:
        """Return the next message, or None if there is none."""

    def has_message(self) -> bool:
        """Return whether a message waits."""

    def send(self, header: bytes, frames: Sequence[Any]) -> None:
        """Send a message; it waits until there is a connection.

        Raises:
            PeerGoneError: if the other end is known to be gone. `was_cut` reports other losses.
        """

    def was_cut(self) -> bool:
        """Return whether the connection, once it stood, was lost since the last call."""

    def close(self, linger_seconds: float = 0) -> None:
        """Close. Messages have `linger_seconds` to leave. May be called again."""


class Listener(Protocol):
    """The scheduler's end of all connections."""

    endpoint: Endpoint
    """where it listens indeed"""
    descriptor: int
    monitor_descriptor: int
    gate_descriptor: int | None
    """readable when somebody asks to be let in; None: nobody needs a key"""

    def let_in(self) -> None:
        """Answer those who ask to be let in."""

    def key_of(self, connection: Connection) -> str:
        """Return the public key with which a connection was let in; empty if it needed none, or is gone."""

    def user_of(self, connection: Connection) -> str | None:
        """Return the user of this machine who has made a connection; empty: nobody can know that, as over TCP; None: it
        has ended.
        """

    def process_of(self, connection: Connection) -> int:
        """Return the id of the process of this machine that has made a connection; 0: unknown, as over TCP."""

    def expect(self) -> None:
        """Say that its descriptor is readable. After a `receive` that has found nothing, the next one need not look
        before this; and after this, it need not ask whether there is anything.
        """

    def receive(self) -> tuple[Connection, bytes, list[memoryview]] | None:
        """Return the connection, header and payload frames of the next message, or None if there is none."""

    def send(self, connection: Connection, header: bytes, frames: Sequence[Any]) -> None:
        """Send a message.

        Raises:
            PeerGoneError: if the connection does not exist any more.
        """

    def lost(self) -> list[Connection]:
        """Return the connections that may have been lost since the last call."""

    def forget(self, connection: Connection) -> None:
        """A connection that is lost was not one that anything is sent to."""

    def look(self, resident_bytes: int) -> int:
        """Hang up on connections that send far more than is read. Return on how many.

        Args:
            resident_bytes: the size of this process.
        """

    def hang_up_on_idle(self, peers: Container[Connection]) -> int:
        """Hang up on all that have been no connection of a peer since the last call. Return on how many.

        Args:
            peers: the connections that belong to one.
        """

    def hang_up(self, connection: Connection) -> None:
        """Close a connection. What has come on it already can still be received."""

    def close(self, linger_seconds: float = 0) -> None:
        """Close. Messages have `linger_seconds` to leave. May be called again."""


class Transport(Protocol):
    """The way to one address."""

    endpoint: Endpoint

    @property
    def refusal(self) -> str:
        """Why there is no way in, as a sentence for people; empty as long as there may be one."""

    @property
    def is_refused_by_scheduler(self) -> bool:
        """Whether the scheduler itself has refused this peer; otherwise another program may listen there."""

    def dial(self) -> Dialer:
        """Start to connect; also after a refusal, which may have been that of another program.

        Raises:
            OSError: if it is impossible to connect to that address.
        """

    def listen(self, silence_seconds: float) -> Listener:
        """Listen at the address.

        Args:
            silence_seconds: a connection that is silent for this time may be closed a little later, and never before.

        Raises:
            AddressInUseError: if another program listens there.
            OSError: if that is impossible for another reason.
        """

    def close(self) -> None:
        """Release it, after all connections are closed."""
