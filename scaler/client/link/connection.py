"""ClientConnection: the current socket of a client, if any, and its session: sends items, and returns received batches.

Used by one thread at a time. A new socket replaces a lost one; then the session resumes, or a new session starts.
"""

from __future__ import annotations

import math
import select
from collections.abc import Container, Sequence
from typing import Any

from scaler.errors import ProtocolError
from scaler.transport.interface import Dialer, PeerGoneError, Transport
from scaler.wire.codec.codec import UNWRITABLE
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.directions import CLIENT_TO_SCHEDULER, SCHEDULER_TO_CLIENT
from scaler.wire.session.dialling import DialledSession
from scaler.wire.session.pipe import Message, Unwritable
from scaler.wire.session.transfer import window_at

WAIT_MOST_SECONDS = 3600.0


class ClientConnection:
    """Sends and receives a client's messages, on one socket at a time.

    Args:
        wake_descriptors: descriptors that are readable when another thread wants to end a `wait`.
    """

    def __init__(self, transport: Transport, *wake_descriptors: int) -> None:
        self.endpoint = transport.endpoint
        self._wake_descriptors = wake_descriptors
        window_bytes = window_at(transport.endpoint)
        self.session = DialledSession(SCHEDULER_TO_CLIENT, CLIENT_TO_SCHEDULER, window_bytes=window_bytes)
        self._transport = transport
        self._socket: Dialer | None = None
        self._aside: Dialer | None = None
        """the previous socket, which stays open: closing it would look to the scheduler like the end of this client"""
        self._is_closed_by_peer = False
        self.is_drained = True
        """whether the last read found nothing, and nothing was sent since: a send may clear the signal of a message"""
        self._poller = self._new_poller()

    @property
    def is_open(self) -> bool:
        return self._socket is not None

    @property
    def refusal(self) -> str:
        """The reason why the scheduler refuses connections of this process, as a sentence; empty if none is known."""
        return self._transport.refusal

    @property
    def is_refused_by_scheduler(self) -> bool:
        """Whether the refusal certainly comes from the scheduler, not from another program at its address."""
        return self._transport.is_refused_by_scheduler

    @property
    def descriptors(self) -> tuple[int, ...]:
        """The descriptors of the open socket, as `look` expects them; empty if no socket is open."""
        socket = self._socket
        return () if socket is None else (socket.descriptor, socket.monitor_descriptor)

    def _new_poller(self, *descriptors: int) -> select.poll:
        poller = select.poll()
        for descriptor in (*self._wake_descriptors, *descriptors):
            poller.register(descriptor, select.POLLIN)
        return poller

    def open(self) -> None:
        """Open a socket, which connects in the background. Raises `OSError` if the address is unusable."""
        self._socket = self._transport.dial()
        self._is_closed_by_peer = self.is_drained = False
        self._poller = self._new_poller(self._socket.descriptor, self._socket.monitor_descriptor)

    def close(self, linger_seconds: float = 0) -> None:
        """Close the socket, if one is open. Queued messages may still be sent for `linger_seconds`."""
        socket, self._socket = self._socket, None
        self.is_drained = True
        self._poller = self._new_poller()
        if socket is not None:
            socket.close(linger_seconds)

    def set_aside(self) -> None:
        """Stop reading the socket, and keep it open until `close_aside` or the next call of this method."""
        socket, self._socket = self._socket, None
        self.close()
        self.close_aside()
        self._aside = socket

    def close_aside(self) -> None:
        """Close the socket that `set_aside` has kept open, if there is one."""
        if self._aside is not None:
            self._aside.close()
            self._aside = None

    def end(self, linger_seconds: float = 0) -> None:
        """Close all sockets and the transport for good."""
        self.close_aside()
        self.close(linger_seconds)
        self._transport.close()

    def wait(self, seconds: float) -> dict[int, int]:
        """Wait until a descriptor is ready. Return the events of each ready descriptor, as `select.poll` names them."""
        return dict(self._poller.poll(math.ceil(min(seconds, WAIT_MOST_SECONDS) * 1000)))

    def look(self, ready: Container[int]) -> tuple[bool, bool]:
        """Return whether a message has arrived, and whether the connection is lost. `ready` is the result of `wait`."""
        socket = self._socket
        if socket is None:
            return False, False
        has_arrived = socket.descriptor in ready
        was_cut = self._is_closed_by_peer or (socket.monitor_descriptor in ready and socket.was_cut())
        if has_arrived:
            socket.expect()  # so the next `receive` need not check for a message
        if has_arrived or was_cut:
            self.is_drained = False
        return has_arrived, was_cut

    def has_message(self) -> bool:
        """Return whether an unread message has arrived."""
        return self._socket is not None and self._socket.has_message()

    def receive(self) -> list[Batch[Any]] | None:
        """Return the batches of the next message, or None if no message has arrived.

        Raises:
            ProtocolError: if the bytes are not a message of the protocol. The session cannot resume then.
        """
        if self._socket is None or self.is_drained:
            return None
        message = self._socket.receive()
        if message is None:
            self.is_drained = True
            return None
        try:
            return self.session.pipe.receive(*message)
        except ProtocolError:
            self.session.spoil()
            raise
        except Exception as error:  # of any kind: the link must survive it
            self.session.spoil()
            raise ProtocolError(f"the message cannot be read: {error!r}") from error

    def send_hello(self, hello: Any, **fields: Any) -> None:
        """Send a hello, the first message of the connection. See `DialledSession.hello`."""
        self._send([self.session.hello(hello, **fields)])

    def send_unnumbered(self, item: Any) -> None:
        """Send a heartbeat, an item without a number in the session."""
        self._send([self.session.pipe.unnumbered([item])])

    def resume(self, acknowledged: int) -> None:
        """Resume the session. The scheduler has received all messages up to number `acknowledged`; resend the others.

        Raises:
            ProtocolError: if the session cannot resume.
        """
        try:
            self._send(self.session.pipe.resume(acknowledged))
        except ProtocolError:
            self.session.spoil()
            raise

    def flush(self) -> Sequence[Unwritable]:
        """Send all items that the window permits. Remove and return the items that cannot be encoded.

        Raises:
            ProtocolError: if an item cannot be encoded, and it is unknown which item. The session cannot continue then.
        """
        if self._socket is None:
            return ()
        try:
            messages, dropped = self._take()
        except Exception as error:  # of any kind: the link must survive it
            self.session.spoil()
            raise ProtocolError(f"{type(error).__name__}: {error}") from error
        self._send(messages)
        return dropped

    def _take(self) -> tuple[Sequence[Message], Sequence[Unwritable]]:
        pipe = self.session.pipe
        try:
            return pipe.take(), ()
        except UNWRITABLE:
            dropped = pipe.drop_unwritable()
            return pipe.take(), dropped

    def _send(self, messages: Sequence[Message]) -> None:
        socket = self._socket
        if socket is None:
            return
        self.is_drained = False
        try:
            for header, frames in messages:
                socket.send(header, frames)
        except PeerGoneError:
            self._is_closed_by_peer = True
