"""Transport: connections between two processes, as edges see them.

    Listener <--messages of many connections--- ... ---messages of one connection--> Dialer

An edge has one `Transport` and asks it for connections. Scaler's own transports are ZeroMQ (`zeromq.py`), and plain
streams at ipc addresses (`streams.py`); the simulation has a modelled network. A message is a header frame and payload
frames, which no transport decodes.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any, Protocol, TypeAlias

from scaler.endpoint import Endpoint
from scaler.ids import Connection

Message: TypeAlias = tuple[bytes, list[memoryview]]
"""The header frame and the payload frames."""

FRAME_BYTES_MOST = 64 * 1024 * 1024
"""The most bytes of a frame. A connection that announces a larger one is closed before it takes memory: large messages
travel in chunks.
"""
UNREAD_BYTES_MOST = 2 * FRAME_BYTES_MOST
"""The most bytes of one connection that may wait to be read."""


class AddressInUseError(OSError):
    """Another program listens at the address."""


class PeerGoneError(ConnectionError):
    """The connection of a message no longer exists."""


class Dialer(Protocol):
    """A peer's end of one connection, from its dialling to its loss. A new connection needs a new dialer."""

    descriptor: int
    """readable when a message may have arrived; only a `receive` that returns None re-arms it"""
    monitor_descriptor: int
    """readable when the connection may be lost"""

    def expect(self) -> None:
        """Report that the descriptor is readable. A hint that saves system calls: after a `receive` that returned None,
        the next ones may return None until this is called.
        """

    def receive(self) -> Message | None:
        """Return the next message, or None if there is none."""

    def has_message(self) -> bool:
        """Return whether a message waits."""

    def send(self, header: bytes, frames: Sequence[Any]) -> None:
        """Send a message; it waits until the connection is up.

        Raises:
            PeerGoneError: if the other end is known to be gone. `was_cut` reports other losses.
        """

    def was_cut(self) -> bool:
        """Return whether the connection was lost since the last call, after it had been up."""

    def close(self, linger_seconds: float = 0) -> None:
        """Close. Unsent messages have `linger_seconds` to leave. May be called again."""


class Listener(Protocol):
    """The scheduler's end of all connections."""

    endpoint: Endpoint
    """the actual address"""
    descriptor: int
    monitor_descriptor: int
    authenticator_descriptor: int | None
    """readable when a peer waits to be authenticated; None if peers need no key"""

    def authenticate(self) -> None:
        """Accept or refuse the peers that wait to be authenticated."""

    def key_of(self, connection: Connection) -> str:
        """Return the public key with which a connection was accepted; empty if it needed none, or has ended."""

    def user_of(self, connection: Connection) -> str | None:
        """Return the user of this machine who made a connection; empty if that cannot be known, as over TCP; None if
        the connection has ended.
        """

    def process_of(self, connection: Connection) -> int:
        """Return the id of the process of this machine that made a connection; 0 if unknown, as over TCP."""

    def expect(self) -> None:
        """Report that the descriptor is readable, as for `Dialer.expect`."""

    def receive(self) -> tuple[Connection, bytes, list[memoryview]] | None:
        """Return the connection, header and payload frames of the next message, or None if there is none."""

    def send(self, connection: Connection, header: bytes, frames: Sequence[Any]) -> None:
        """Send a message.

        Raises:
            PeerGoneError: if the connection no longer exists.
        """

    def lost(self) -> list[Connection]:
        """Return the connections that may have been lost since the last call."""

    def forget(self, connection: Connection) -> None:
        """Drop all data about a lost connection. Needed only if nothing is sent to it: a failed `send` does it too."""

    def look(self, resident_bytes: int) -> int:
        """Hang up on connections that send far more than is read. Return their number.

        Args:
            resident_bytes: the size of this process.
        """

    def hang_up_on_idle(self, peers: Container[Connection]) -> int:
        """Hang up on connections that belonged to no peer at the last call either. Return their number.

        Args:
            peers: the connections of peers.
        """

    def hang_up(self, connection: Connection) -> None:
        """Close a connection. Messages that have already arrived can still be received."""

    def close(self, linger_seconds: float = 0) -> None:
        """Close. Unsent messages have `linger_seconds` to leave. May be called again."""


class Transport(Protocol):
    """The transport to one address."""

    endpoint: Endpoint

    @property
    def refusal(self) -> str:
        """Why this peer cannot connect, as a sentence for people; empty as long as it may succeed."""

    @property
    def is_refused_by_scheduler(self) -> bool:
        """Whether the scheduler itself refused this peer; if False, another program may listen there."""

    def dial(self) -> Dialer:
        """Start to connect. Works after a refusal too, which may have come from another program.

        Raises:
            OSError: if it is impossible to connect to the address.
        """

    def listen(self, silence_seconds: float) -> Listener:
        """Listen at the address.

        Args:
            silence_seconds: a connection that stays silent this long may be closed a little later, and never before.

        Raises:
            AddressInUseError: if another program listens there.
            OSError: if it is impossible to listen there for another reason.
        """

    def close(self) -> None:
        """Release the transport, after all its connections are closed."""
