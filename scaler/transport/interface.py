"""Transport: connections between two processes, as edges see them.

    Listener <--messages of many connections--- ... ---messages of one connection--> Dialer

An edge has one `Transport` and asks it for connections. Scaler's own transports are ZeroMQ (`zeromq.py`) and plain
streams at ipc addresses (`streams.py`). The simulation has a modelled network. A message is a header frame and payload
frames, which no transport decodes.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any, Protocol, TypeAlias

from scaler.endpoint import Endpoint
from scaler.ids import Connection

Message: TypeAlias = tuple[bytes, list[memoryview]]
"""A message: the header frame and the payload frames."""

FRAME_BYTES_MOST = 64 * 1024 * 1024
"""The limit on the size of a frame. A larger frame closes its connection at once. Large messages travel in chunks."""
UNREAD_BYTES_MOST = 2 * FRAME_BYTES_MOST
"""The limit on the bytes of one connection that have arrived and were not read."""


class AddressInUseError(OSError):
    """Error when listening at an address at which another program listens."""


class PeerGoneError(ConnectionError):
    """Error when sending to a connection that no longer exists."""


class Dialer(Protocol):
    """A peer's end of one connection, until the connection is lost. A new connection needs a new dialer."""

    descriptor: int
    """a descriptor that is readable when a message may have arrived; wait for it only after `receive` returned None"""
    monitor_descriptor: int
    """a descriptor that is readable when the connection may be lost"""

    def expect(self) -> None:
        """Report that `descriptor` is readable. To save system calls, `receive` may return None until this report."""

    def receive(self) -> Message | None:
        """Return the next message, or None if no message has arrived."""

    def has_message(self) -> bool:
        """Return whether a received message can be read now."""

    def send(self, header: bytes, frames: Sequence[Any]) -> None:
        """Send a message. The message waits until the connection is up.

        Raises:
            PeerGoneError: if the other end is known to have ended. `was_cut` reports other losses.
        """

    def was_cut(self) -> bool:
        """Return whether an established connection was lost since the last call."""

    def close(self, linger_seconds: float = 0) -> None:
        """Close the connection. Unsent messages are sent for up to `linger_seconds`. A second call does nothing."""


class Listener(Protocol):
    """The scheduler's end of all connections at one address."""

    endpoint: Endpoint
    """the address at which the listener actually listens"""
    descriptor: int
    monitor_descriptor: int
    authenticator_descriptor: int | None
    """a descriptor that is readable when a peer waits to be authenticated; None if peers need no key"""

    def authenticate(self) -> None:
        """Accept or refuse the peers that wait to be authenticated."""

    def key_of(self, connection: Connection) -> str:
        """Return the public key of an accepted connection; empty if no key was needed or the connection has ended."""

    def user_of(self, connection: Connection) -> str | None:
        """Return the local user who made a connection; empty if unknown, as over TCP; None if the connection ended."""

    def process_of(self, connection: Connection) -> int:
        """Return the id of the local process that made a connection; 0 if the process is unknown, as over TCP."""

    def expect(self) -> None:
        """Report that `descriptor` is readable, as for `Dialer.expect`."""

    def receive(self) -> tuple[Connection, bytes, list[memoryview]] | None:
        """Return the connection, header and payload frames of the next message, or None if no message has arrived."""

    def send(self, connection: Connection, header: bytes, frames: Sequence[Any]) -> None:
        """Send a message.

        Raises:
            PeerGoneError: if the connection no longer exists.
        """

    def lost(self) -> list[Connection]:
        """Return the connections that may have been lost since the last call."""

    def forget(self, connection: Connection) -> None:
        """Drop all data about a lost connection; nothing more will be sent to it. A failed `send` does the same."""

    def look(self, resident_bytes: int) -> int:
        """Close the connections that send far more than is read. Return the number of closed connections.

        Args:
            resident_bytes: the memory of this process.
        """

    def hang_up_on_idle(self, peers: Container[Connection]) -> int:
        """Close the connections that are in `peers` neither now nor at the last call. Return how many were closed."""

    def hang_up(self, connection: Connection) -> None:
        """Close a connection. Messages that have already arrived can still be received."""

    def close(self, linger_seconds: float = 0) -> None:
        """Close the listener, and each connection as `Dialer.close` does. A second call does nothing."""


class Transport(Protocol):
    """The transport to one address: makes the connections of a peer, or the listener of a scheduler."""

    endpoint: Endpoint

    @property
    def refusal(self) -> str:
        """Why this peer cannot connect, as a sentence for people; empty as long as the peer may succeed."""

    @property
    def is_refused_by_scheduler(self) -> bool:
        """Whether the scheduler itself refused this peer; if False, another program may listen at the address."""

    def dial(self) -> Dialer:
        """Start to connect, even after a refusal: another program may have refused. Return the dialer.

        Raises:
            OSError: if it is impossible to connect to the address.
        """

    def listen(self, silence_seconds: float) -> Listener:
        """Listen at the address.

        Args:
            silence_seconds: the transport may close a connection only if its peer was silent for longer than this.

        Raises:
            AddressInUseError: if another program listens at the address.
            OSError: if it is impossible to listen at the address for another reason.
        """

    def close(self) -> None:
        """Release the resources that all connections share. Close the connections first."""
