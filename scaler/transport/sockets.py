"""ZeroMQ sockets as Scaler uses them: made in one place, with every option that has a dangerous default.

A message is a header frame and payload frames. Frames from `OUT_OF_BAND_BYTES` on are sent without a copy, and payload
frames are received without one. A socket belongs to one thread. Nothing here decodes anything.

Between threads of one process (`inproc://name`) ZeroMQ passes frames on without a copy, never reconnects, and does not
report that the other end was closed. So received frames are copied here, as if they came from another process, and a
closed end is noticed by the next send.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket as unix
from collections.abc import Callable, Container, Sequence
from typing import Any

import zmq

from scaler.endpoint import ANYWHERE, TCP, Endpoint
from scaler.ids import Connection
from scaler.pickling.serialization import OUT_OF_BAND_BYTES
from scaler.transport.admission.authenticator import AdmissionKeys, Authenticator, key_of
from scaler.transport.admission.keyring import Keyring
from scaler.transport.admission.unauthenticated import UnauthenticatedPeers
from scaler.transport.binding import bind, bound_at, check_ipc_file, connect, name_of_user, user_at, why_not
from scaler.transport.descriptors import Descriptors, IdleConnections, OpenConnections
from scaler.transport.disconnects import NO_LISTENER, CutMonitor
from scaler.transport.interface import (
    FRAME_BYTES_MOST,
    UNREAD_BYTES_MOST,
    AddressInUseError,
    Message,
    PeerGoneError,
)
from scaler.transport.private import new_private_endpoint, remove_private_place
from scaler.transport.trust import ListenerCheck, is_private
from scaler.transport.unread import IS_POSSIBLE, Unread

# Plain numbers: combining pyzmq's enumerations costs more than the calls that use them. But pyzmq looks options up in
# their enumeration, and that costs a plain number twice as much.
_EVENTS, _POLLIN = zmq.EVENTS, int(zmq.POLLIN)
_NOBLOCK, _NOBLOCK_SNDMORE = int(zmq.NOBLOCK), int(zmq.NOBLOCK) | int(zmq.SNDMORE)

GIVEN_UP_AFTER_MS = 20_000
"""The system closes a connection on which nothing is answered for the longest time-out and so much more. ZeroMQ's own
heartbeats could find that out, too, but libzmq aborts the process (`!_io_error`) when one is due on a connection that
was reset while it was held back."""
KEEPALIVE_SECONDS = 5
"""The time between two probes of the system, after 30 s of silence."""
HANDSHAKE_MS = 10_000
"""A connection that has not finished its handshake after this time is closed."""
RECONNECT_MS = 50
RECONNECT_MOST_MS = 250
"""A scheduler that was restarted waits for its peers no longer than this. To try costs one packet."""
CONNECT_MS = 2_000
"""An attempt to connect that nobody answers is made again after this time; the system would wait longer and longer."""


MESSAGES_WAITING = 256
"""How many messages of one connection the scheduler's socket takes before they are read, where the system does not
count their bytes (`unread.py`). Beyond that, the network holds the peer back."""
_ROUTING_ID_BYTES = 5
MESSAGES_UNSENT = 250_000
"""How many messages wait for a peer that does not read. What it is told in order is bounded already, echoes are not."""
FRAMES_MOST = 1 << 16
"""A message with more frames is read as one without frames, which no codec accepts."""


def _new_socket(context: zmq.Context[zmq.Socket[bytes]], kind: int, endpoint: Endpoint) -> zmq.Socket[bytes]:
    socket = context.socket(kind)
    socket.setsockopt(zmq.LINGER, 0)
    # Unbounded, because credits bound the messages on their way: the queue of a worker, the window of a map.
    socket.setsockopt(zmq.SNDHWM, 0)
    socket.setsockopt(zmq.RCVHWM, 0)
    socket.setsockopt(zmq.MAXMSGSIZE, FRAME_BYTES_MOST)
    socket.setsockopt(zmq.TCP_KEEPALIVE, 1)
    socket.setsockopt(zmq.TCP_KEEPALIVE_IDLE, 30)
    socket.setsockopt(zmq.IPV6, endpoint.is_ipv6)
    return socket


def give_up_after(socket: zmq.Socket[bytes], silence_seconds: float) -> None:
    """Have the system close connections on which nothing was answered for so long, and `GIVEN_UP_AFTER_MS` more."""
    socket.setsockopt(zmq.TCP_KEEPALIVE, 1)
    socket.setsockopt(zmq.TCP_KEEPALIVE_IDLE, 30)
    socket.setsockopt(zmq.TCP_KEEPALIVE_INTVL, KEEPALIVE_SECONDS)
    silence_ms = min(int(silence_seconds * 1000), 2**31 - 1 - GIVEN_UP_AFTER_MS)
    socket.setsockopt(zmq.TCP_MAXRT, silence_ms + GIVEN_UP_AFTER_MS)


# Without pyzmq's checks for other socket types, which cost time for each part.
_send_part: Callable[[zmq.Socket[bytes], Any, int, bool], object] = zmq.backend.Socket.send
_receive_part: Callable[[zmq.Socket[bytes], int, bool], Any] = zmq.backend.Socket.recv


def _integer(socket: zmq.Socket[bytes], option: int) -> int:
    return socket.getsockopt(option)  # type: ignore[return-value]  # bytes for other options


def _send(socket: zmq.Socket[bytes], header: bytes, frames: Sequence[Any]) -> None:
    _send_part(socket, header, _NOBLOCK_SNDMORE if frames else _NOBLOCK, len(header) < OUT_OF_BAND_BYTES)
    last = len(frames) - 1
    for index, part in enumerate(frames):
        size = part.nbytes if isinstance(part, memoryview) else len(part)
        _send_part(socket, part, _NOBLOCK if index == last else _NOBLOCK_SNDMORE, size < OUT_OF_BAND_BYTES)


def _as_parts(frames: Sequence[Any]) -> Sequence[Any]:
    """Return frames that can be sent. Before any of them is, because a part that was sent cannot be taken back."""
    return [frame if type(frame) is bytes else memoryview(frame) for frame in frames]


class _Inlet:
    """Whether a message waits in a socket, without asking for more options than need be: pyzmq looks each one up in an
    enumeration, which costs more than to receive a small message.
    """

    def __init__(self, socket: zmq.Socket[bytes], *, copies: bool) -> None:
        self._socket = socket
        self._option: Callable[[int], Any] = socket.getsockopt
        self._copies = copies
        self._is_expected = False

    def expect(self) -> None:
        """The descriptor is readable: so there is a message, with rare exceptions."""
        self._is_expected = True

    def take(self) -> Any:
        """Return the first part of the next message, as bytes or as a frame, or None if there is none."""
        if not self._is_expected:
            if not self._option(_EVENTS) & _POLLIN:
                return None
            return _receive_part(self._socket, _NOBLOCK, self._copies)
        self._is_expected = False
        try:
            return _receive_part(self._socket, _NOBLOCK, self._copies)
        except zmq.Again:
            return None

    def has_message(self) -> bool:
        return bool(self._option(_EVENTS) & _POLLIN)


def _receive_payload(socket: zmq.Socket[bytes]) -> list[memoryview]:
    """Receive the frames that follow a header: at least one."""
    frames: list[memoryview] = []
    has_more = True
    while has_more:
        if len(frames) == FRAMES_MOST:
            return _skip_rest(socket)
        frame = _receive_part(socket, _NOBLOCK, False)
        frames.append(frame.buffer)
        has_more = frame.more
    return frames


def _skip_rest(socket: zmq.Socket[bytes]) -> list[memoryview]:
    """Read and drop the rest of a message that no Scaler peer would send."""
    while socket.recv(_NOBLOCK, copy=False).more:
        pass
    return []


def _receive_copies(socket: zmq.Socket[bytes]) -> list[memoryview]:
    """Receive frames that another thread of this process may still own."""
    return [memoryview(bytearray(frame)) for frame in _receive_payload(socket)]


def _is_made_up_by_router(connection: Connection) -> bool:
    """Return whether a routing id is one of ROUTER's own. A peer that chooses one is no Scaler peer: it could be taken
    for another connection, before or after.
    """
    return len(connection) == _ROUTING_ID_BYTES and connection[0] == 0


def shut_down(descriptor: int) -> None:
    """Close a connection below ZeroMQ, which has no call for this."""
    with contextlib.suppress(OSError), unix.socket(fileno=os.dup(descriptor)) as copy:
        copy.shutdown(unix.SHUT_RDWR)


class RouterSocket:
    """The scheduler's end: many peers, each known by its connection.

    Args:
        silence_seconds: a connection whose other end answers nothing for this time, not even to the probes of the
            system, is closed a little later.
        unread_bytes: `look` closes a connection of which more waits, where the system says how much came.
        lock: what peers need a key for; None: everybody may connect.

    Raises:
        AddressInUseError: if another socket listens there.
        OSError: if the address cannot be bound for another reason.
    """

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        endpoint: Endpoint,
        silence_seconds: float = GIVEN_UP_AFTER_MS / 1000,
        frame_bytes: int = FRAME_BYTES_MOST,
        unread_bytes: int = UNREAD_BYTES_MOST,
        lock: AdmissionKeys | None = None,
    ) -> None:
        self._is_private = endpoint.address == ANYWHERE
        if self._is_private:
            endpoint = new_private_endpoint()
        self._has_descriptors = not endpoint.is_in_process
        check_ipc_file(endpoint)
        self._socket = _new_socket(context, zmq.ROUTER, endpoint)
        self._unread = Unread(unread_bytes) if IS_POSSIBLE and endpoint.scheme == TCP else None
        self._socket.setsockopt(zmq.RCVHWM, 0 if self._unread is not None else MESSAGES_WAITING)
        self._socket.setsockopt(zmq.SNDHWM, MESSAGES_UNSENT)
        self._socket.setsockopt(zmq.MAXMSGSIZE, frame_bytes)
        self._socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        # With a domain, libzmq refuses peers of ZMTP 1 and 2. It would take the bytes of a web browser for one of
        # those.
        self._socket.setsockopt_string(zmq.ZAP_DOMAIN, "scaler")
        self._socket.setsockopt(zmq.HANDSHAKE_IVL, HANDSHAKE_MS)
        give_up_after(self._socket, silence_seconds)
        self._gate = None if lock is None else Authenticator(context, self._socket, lock)
        self.gate_descriptor = None if self._gate is None else self._gate.descriptor
        self.endpoint = self._bind(endpoint)
        self.descriptor: int = _integer(self._socket, zmq.FD)
        self._inlet = _Inlet(self._socket, copies=True)
        self.expect = self._inlet.expect
        self._knocking = None if lock is None else UnauthenticatedPeers()
        self._idle = IdleConnections()
        self._monitor = CutMonitor(
            self._socket, [each for each in (self._idle, self._unread, self._knocking) if each is not None]
        )
        self.monitor_descriptor = self._monitor.descriptor
        self._descriptors = Descriptors()

    def _bind(self, endpoint: Endpoint) -> Endpoint:
        """Listen. Return where, indeed."""
        try:
            bind(self._socket, endpoint)
        except zmq.ZMQError as error:
            self._socket.close()
            if self._gate is not None:
                self._gate.close()
            if error.errno == errno.EADDRINUSE:
                raise AddressInUseError(error.errno, f"{endpoint} is in use") from error
            raise OSError(error.errno, f"cannot listen at {endpoint}: {why_not(endpoint, error)}") from error
        return bound_at(self._socket.get(zmq.LAST_ENDPOINT))

    def receive(self) -> tuple[Connection, bytes, list[memoryview]] | None:
        """Return the connection, header and payload frames of the next message, or None if there is none."""
        connection: Connection | None = self._inlet.take()
        if connection is None:
            return None
        header = _receive_part(self._socket, _NOBLOCK, False)  # it always follows, and may be empty
        frames = _receive_payload(self._socket) if header.more else []
        if connection not in self._descriptors.known and self._has_descriptors:
            descriptor = int(header.get(zmq.SRCFD))
            if not _is_made_up_by_router(connection):
                shut_down(descriptor)
                return connection, b"", []  # which no codec accepts
            self._descriptors.add(connection, descriptor)
            if self._gate is not None:
                self._descriptors.keys[connection] = key_of(header)
        if self._unread is not None and self._unread.counts:
            sizes = map(len, (header, *frames))
            self._unread.read(self._descriptors.known[connection], sizes)
        return connection, header.bytes, frames

    def let_in(self) -> None:
        """Answer those who ask to be let in."""
        if self._gate is not None:
            self._gate.answer()

    def key_of(self, connection: Connection) -> str:
        """Return the public key with which a connection was let in; empty if it needed none, or is gone."""
        return self._descriptors.keys.get(connection, "")

    def user_of(self, connection: Connection) -> str | None:
        """Return the user who has made a connection; empty over TCP, None if it has ended."""
        if self.endpoint.file is None:
            return "" if self.endpoint.scheme == TCP else name_of_user(os.geteuid())
        descriptor = self._descriptors.present(connection)
        try:
            with unix.socket(fileno=os.dup(-1 if descriptor is None else descriptor)) as copy:
                return user_at(copy)
        except OSError:
            return None

    def process_of(self, connection: Connection) -> int:  # noqa: ARG002 - ZeroMQ does not say it
        """Return 0: unknown."""
        return 0

    def send(self, connection: Connection, header: bytes, frames: Sequence[Any]) -> None:
        """Send a message.

        Raises:
            PeerGoneError: if the connection does not exist any more; also if too many messages wait for its other end,
                which is hung up on then.
        """
        try:
            parts = _as_parts(frames) if frames else ()
            _send_part(self._socket, connection, _NOBLOCK_SNDMORE, True)
            _send(self._socket, header, parts)
        except zmq.ZMQError as error:
            if error.errno == errno.EAGAIN:  # it does not read
                self.hang_up(connection)
            self._descriptors.remove(connection)
            raise PeerGoneError(error.errno, str(error)) from error

    def lost(self) -> list[Connection]:
        """Return the connections that may have been lost since the last call: those of the descriptors that were
        closed. The socket itself may need a moment to know it.
        """
        connections = []
        for descriptor in self._monitor.lost():
            connections += self._descriptors.of(descriptor)
            self._descriptors.end(descriptor)
        return connections

    def forget(self, connection: Connection) -> None:
        """A connection that is lost was not one that anything is sent to."""
        self._descriptors.remove(connection)

    def look(self, resident_bytes: int) -> int:
        """Hang up on connections that send far more than is read, or more than one may before it was let in, or of
        which an address has too many. Return on how many.

        Args:
            resident_bytes: the size of this process.
        """
        over = {*self._unread.look(resident_bytes)} if self._unread is not None else set()
        over.update(self._knocking.over(self._has_spoken) if self._knocking is not None else ())
        for descriptor in over:
            shut_down(descriptor)
        return len(over)

    def _has_spoken(self, descriptor: int) -> bool:
        """Return whether a message of the connection with this descriptor was read."""
        return any(self._descriptors.present(each) is not None for each in self._descriptors.of(descriptor))

    def hang_up_on_idle(self, peers: Container[Connection]) -> int:
        """Hang up on all that have been no connection of a peer since the last call. Return on how many.

        Args:
            peers: the connections that belong to one.
        """
        over = self._idle.look(lambda descriptor: any(each in peers for each in self._descriptors.of(descriptor)))
        for descriptor in over:
            shut_down(descriptor)
        return len(over)

    def hang_up(self, connection: Connection) -> None:
        """Close a connection. What has come on it already can still be received.

        If its descriptor belongs to another one now, it is gone already.
        """
        descriptor = self._descriptors.present(connection)
        if descriptor is not None:
            shut_down(descriptor)

    def close(self, linger_seconds: float = 0) -> None:
        """Close. Messages have `linger_seconds` to leave. May be called again."""
        if not self._socket.closed:
            self._monitor.close()
            self._socket.close(linger=int(linger_seconds * 1000))
            if self._gate is not None:
                self._gate.close()
            if self.endpoint.file is not None:  # ZeroMQ leaves it behind
                self.endpoint.file.unlink(missing_ok=True)
            if self._is_private:
                remove_private_place(self.endpoint)


class DealerSocket:
    """A peer's end of one connection. A new connection takes a new socket: its identity is never used again.

    It says no heartbeats of ZeroMQ: how long a scheduler may be silent is not decided here.

    At an ipc address in a folder that others can write it makes one connection, and what is sent waits until its
    listener has passed the check. A missing listener counts as a cut.

    Args:
        keyring: has the key that it shows, if it has one; None: no connection to that address needs one.
    """

    def __init__(
        self, context: zmq.Context[zmq.Socket[bytes]], endpoint: Endpoint, keyring: Keyring | None = None
    ) -> None:
        self._socket = _new_socket(context, zmq.DEALER, endpoint)
        self._inlet = _Inlet(self._socket, copies=False)
        self.expect, self.has_message = self._inlet.expect, self._inlet.has_message
        self._receive_payload = _receive_copies if endpoint.is_in_process else _receive_payload
        is_safe = endpoint.file is None or is_private(endpoint.file.parent)
        self._check = None if is_safe else ListenerCheck(endpoint)
        self._held: list[tuple[bytes, Sequence[Any]]] | None = None if self._check is None else []
        """what is sent when the listener has passed the check; None: it has, or there is none"""
        self._socket.setsockopt(zmq.RECONNECT_IVL, RECONNECT_MS if self._check is None else -1)
        self._socket.setsockopt(zmq.RECONNECT_IVL_MAX, RECONNECT_MOST_MS)
        self._socket.setsockopt(zmq.CONNECT_TIMEOUT, CONNECT_MS)
        if self._check is None:
            self._monitor = CutMonitor(self._socket, [OpenConnections()], keyring)
        else:
            self._monitor = CutMonitor(self._socket, [OpenConnections(), self._check], losses=NO_LISTENER)
        if keyring is not None:
            keyring.lend(self._socket)
        try:
            connect(self._socket, endpoint)
        except zmq.ZMQError:
            self.close()  # otherwise its context could never end
            raise
        self.descriptor: int = _integer(self._socket, zmq.FD)
        self.monitor_descriptor = self._monitor.descriptor

    @property
    def refusal(self) -> str:
        """Why the listener is not trusted, as a sentence for people; empty if it is, or there is none yet."""
        return "" if self._check is None else self._check.refusal

    def receive(self) -> Message | None:
        """Return header and payload frames of the next message, or None if there is none."""
        header = self._inlet.take() if self._held is None else None
        if header is None:
            return None
        return header.bytes, self._receive_payload(self._socket) if header.more else []

    def send(self, header: bytes, frames: Sequence[Any]) -> None:
        """Send a message; it waits in the socket until there is a connection.

        Raises:
            PeerGoneError: if the other end is in this process and was closed. `was_cut` reports all other losses.
        """
        if self._held is not None:
            self._held.append((header, frames))
            return
        try:
            _send(self._socket, header, _as_parts(frames) if frames else ())
        except zmq.Again as error:
            raise PeerGoneError(error.errno, "the other end is closed") from error

    def was_cut(self) -> bool:
        """Return whether the connection, once it stood, was lost since the last call."""
        was_cut = self._monitor.was_cut()
        if self._held is not None and self._check is not None and self._check.is_passed:
            held, self._held = self._held, None
            for message in held:
                self.send(*message)
        return was_cut or bool(self.refusal)

    def close(self, linger_seconds: float = 0) -> None:
        """Close. Messages have `linger_seconds` to leave. May be called again."""
        if not self._socket.closed:
            self._monitor.close()
            self._socket.close(linger=int(linger_seconds * 1000))
