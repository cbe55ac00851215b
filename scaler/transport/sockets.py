"""ZeroMQ sockets as Scaler uses them: made in one place, which sets every option that has a dangerous default.

A message is a header frame and payload frames. Frames of at least `OUT_OF_BAND_BYTES` are sent without a copy, and
payload frames are received without a copy. A socket belongs to one thread. This module decodes no message.

Between threads of one process (`inproc://name`), ZeroMQ never reconnects and does not report that the other end was
closed: the next send to a closed end raises an error. ZeroMQ does not copy frames there, so the receiver copies them.
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
from scaler.transport.binding import bind, bound_at, check_ipc_file, connect, name_of_user, user_at, why_cannot_listen
from scaler.transport.descriptors import Descriptors, IdleConnections, OpenConnections
from scaler.transport.disconnects import NO_LISTENER, CutMonitor
from scaler.transport.interface import (
    FRAME_BYTES_MOST,
    UNREAD_BYTES_MOST,
    AddressInUseError,
    Message,
    PeerGoneError,
)
from scaler.transport.private import new_private_endpoint, remove_private_folder
from scaler.transport.trust import ListenerCheck, is_private
from scaler.transport.unread import IS_SUPPORTED, Unread

# Plain numbers: combining pyzmq's enumerations costs more than the calls that use them. Options stay enumerations:
# pyzmq looks them up, which takes twice as long for a plain number.
_EVENTS, _POLLIN = zmq.EVENTS, int(zmq.POLLIN)
_NOBLOCK, _NOBLOCK_SNDMORE = int(zmq.NOBLOCK), int(zmq.NOBLOCK) | int(zmq.SNDMORE)

GIVEN_UP_AFTER_MS = 20_000
"""The system closes a connection that does not answer after the longest time-out plus this time.
Heartbeats of ZeroMQ are not used: libzmq aborts the process (`!_io_error`) if a heartbeat is due on a connection that
was reset while libzmq did not read from it, because too many messages were unread.
"""
KEEPALIVE_SECONDS = 5
"""The time between two keep-alive probes of the system. The first probe is sent after 30 s of silence."""
HANDSHAKE_MS = 10_000
"""The time after which a connection with an unfinished handshake is closed."""
RECONNECT_MS = 50
RECONNECT_MOST_MS = 250
"""The longest pause between two attempts of a peer to connect, each of which costs a packet."""
CONNECT_MS = 2_000
"""The time after which an unanswered attempt to connect is repeated; the system would wait longer each time."""


MESSAGES_WAITING = 256
"""The limit on unread messages of a connection whose bytes the system does not count. The network keeps the rest."""
_ROUTING_ID_BYTES = 5
MESSAGES_UNSENT = 250_000
"""The limit on messages that wait for a peer that does not read. Other modules set lower limits for all but echoes."""
FRAMES_MOST = 1 << 16
"""The limit on the frames of a message. If there are more, none is received, and every codec refuses the message."""


def _new_socket(context: zmq.Context[zmq.Socket[bytes]], kind: int, endpoint: Endpoint) -> zmq.Socket[bytes]:
    socket = context.socket(kind)
    socket.setsockopt(zmq.LINGER, 0)
    # Unbounded, because credits bound the messages in flight: the queue of a worker, the window of a map.
    socket.setsockopt(zmq.SNDHWM, 0)
    socket.setsockopt(zmq.RCVHWM, 0)
    socket.setsockopt(zmq.MAXMSGSIZE, FRAME_BYTES_MOST)
    socket.setsockopt(zmq.TCP_KEEPALIVE, 1)
    socket.setsockopt(zmq.TCP_KEEPALIVE_IDLE, 30)
    socket.setsockopt(zmq.IPV6, endpoint.is_ipv6)
    return socket


def give_up_after(socket: zmq.Socket[bytes], silence_seconds: float) -> None:
    """Make the system close connections that stay unanswered for `silence_seconds` plus `GIVEN_UP_AFTER_MS`."""
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
    """Return the frames as parts to send. An invalid frame raises here, because a sent part cannot be taken back."""
    return [frame if type(frame) is bytes else memoryview(frame) for frame in frames]


class _Inlet:
    """Receives the first part of messages. Looks up few socket options, because each look-up by pyzmq is slow."""

    def __init__(self, socket: zmq.Socket[bytes], *, copies: bool) -> None:
        self._socket = socket
        self._option: Callable[[int], Any] = socket.getsockopt
        self._copies = copies
        self._is_expected = False

    def expect(self) -> None:
        """Record that the descriptor is readable, so that `take` tries to receive without asking for events first."""
        self._is_expected = True

    def take(self) -> Any:
        """Return the first part of the next message, as bytes or as a frame; None if no message has arrived."""
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
    while socket.recv(_NOBLOCK, copy=False).more:
        pass
    return []


def _receive_copies(socket: zmq.Socket[bytes]) -> list[memoryview]:
    """Receive frames that another thread of this process may still own."""
    return [memoryview(bytearray(frame)) for frame in _receive_payload(socket)]


def _is_made_up_by_router(connection: Connection) -> bool:
    """Return whether the ROUTER socket chose a routing id. A peer that chose its own id could pose as another."""
    return len(connection) == _ROUTING_ID_BYTES and connection[0] == 0


def shut_down(descriptor: int) -> None:
    """Shut down the connection of a descriptor by a system call. ZeroMQ cannot close a single connection."""
    with contextlib.suppress(OSError), unix.socket(fileno=os.dup(descriptor)) as copy:
        copy.shutdown(unix.SHUT_RDWR)


class RouterSocket:
    """The scheduler's end of the connections of many peers, each peer identified by its connection.

    Args:
        silence_seconds: a connection is closed a little after its peer was silent for this long. An answer to a
            keep-alive probe ends a silence.
        unread_bytes: `look` closes a connection with more unread bytes than this, if the system counts arrived bytes.
        admission_keys: the keys that peers need; None: all peers may connect.
    """

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        endpoint: Endpoint,
        silence_seconds: float = GIVEN_UP_AFTER_MS / 1000,
        frame_bytes: int = FRAME_BYTES_MOST,
        unread_bytes: int = UNREAD_BYTES_MOST,
        admission_keys: AdmissionKeys | None = None,
    ) -> None:
        self._is_private = endpoint.address == ANYWHERE
        if self._is_private:
            endpoint = new_private_endpoint()
        self._has_descriptors = not endpoint.is_in_process
        check_ipc_file(endpoint)
        self._socket = _new_socket(context, zmq.ROUTER, endpoint)
        self._unread = Unread(unread_bytes) if IS_SUPPORTED and endpoint.scheme == TCP else None
        self._socket.setsockopt(zmq.RCVHWM, 0 if self._unread is not None else MESSAGES_WAITING)
        self._socket.setsockopt(zmq.SNDHWM, MESSAGES_UNSENT)
        self._socket.setsockopt(zmq.MAXMSGSIZE, frame_bytes)
        self._socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        # With a domain, libzmq refuses peers of ZMTP 1 and 2. It would take the bytes of a web browser for one of
        # those.
        self._socket.setsockopt_string(zmq.ZAP_DOMAIN, "scaler")
        self._socket.setsockopt(zmq.HANDSHAKE_IVL, HANDSHAKE_MS)
        give_up_after(self._socket, silence_seconds)
        self._authenticator = None if admission_keys is None else Authenticator(context, self._socket, admission_keys)
        self.authenticator_descriptor = None if self._authenticator is None else self._authenticator.descriptor
        self.endpoint = self._bind(endpoint)
        self.descriptor: int = _integer(self._socket, zmq.FD)
        self._inlet = _Inlet(self._socket, copies=True)
        self.expect = self._inlet.expect
        self._unauthenticated = None if admission_keys is None else UnauthenticatedPeers()
        self._idle = IdleConnections()
        self._monitor = CutMonitor(
            self._socket, [each for each in (self._idle, self._unread, self._unauthenticated) if each is not None]
        )
        self.monitor_descriptor = self._monitor.descriptor
        self._descriptors = Descriptors()

    def _bind(self, endpoint: Endpoint) -> Endpoint:
        try:
            bind(self._socket, endpoint)
        except zmq.ZMQError as error:
            self._socket.close()
            if self._authenticator is not None:
                self._authenticator.close()
            if error.errno == errno.EADDRINUSE:
                raise AddressInUseError(error.errno, f"{endpoint} is in use") from error
            raise OSError(error.errno, f"cannot listen at {endpoint}: {why_cannot_listen(endpoint, error)}") from error
        return bound_at(self._socket.get(zmq.LAST_ENDPOINT))

    def receive(self) -> tuple[Connection, bytes, list[memoryview]] | None:
        connection: Connection | None = self._inlet.take()
        if connection is None:
            return None
        header = _receive_part(self._socket, _NOBLOCK, False)  # it always follows, and may be empty
        frames = _receive_payload(self._socket) if header.more else []
        if connection not in self._descriptors.known and self._has_descriptors:
            descriptor = int(header.get(zmq.SRCFD))
            if not _is_made_up_by_router(connection):
                shut_down(descriptor)
                return connection, b"", []  # every codec refuses it
            self._descriptors.add(connection, descriptor)
            if self._authenticator is not None:
                self._descriptors.keys[connection] = key_of(header)
        if self._unread is not None and self._unread.counts:
            sizes = map(len, (header, *frames))
            self._unread.read(self._descriptors.known[connection], sizes)
        return connection, header.bytes, frames

    def authenticate(self) -> None:
        if self._authenticator is not None:
            self._authenticator.answer()

    def key_of(self, connection: Connection) -> str:
        return self._descriptors.keys.get(connection, "")

    def user_of(self, connection: Connection) -> str | None:
        if self.endpoint.file is None:
            return "" if self.endpoint.scheme == TCP else name_of_user(os.geteuid())
        descriptor = self._descriptors.present(connection)
        try:
            with unix.socket(fileno=os.dup(-1 if descriptor is None else descriptor)) as copy:
                return user_at(copy)
        except OSError:
            return None

    def process_of(self, connection: Connection) -> int:  # noqa: ARG002 - ZeroMQ does not report it
        return 0

    def send(self, connection: Connection, header: bytes, frames: Sequence[Any]) -> None:
        """Send a message.

        Raises:
            PeerGoneError: if the connection is gone, or is closed now because too many messages wait for the peer.
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
        """Return the connections that were closed since the last call. ZeroMQ may notice a loss a moment later."""
        connections = []
        for descriptor in self._monitor.lost():
            connections += self._descriptors.of(descriptor)
            self._descriptors.end(descriptor)
        return connections

    def forget(self, connection: Connection) -> None:
        self._descriptors.remove(connection)

    def look(self, resident_bytes: int) -> int:
        """Close the connections that exceed a limit. Return how many were closed.

        A connection is closed if it sends far more than is read, or too much before its peer is authenticated. If an
        address has too many unauthenticated connections, the newest are closed.
        """
        over = {*self._unread.look(resident_bytes)} if self._unread is not None else set()
        over.update(self._unauthenticated.over(self._has_authenticated) if self._unauthenticated is not None else ())
        for descriptor in over:
            shut_down(descriptor)
        return len(over)

    def _has_authenticated(self, descriptor: int) -> bool:
        return any(self._descriptors.present(each) is not None for each in self._descriptors.of(descriptor))

    def hang_up_on_idle(self, peers: Container[Connection]) -> int:
        over = self._idle.look(lambda descriptor: any(each in peers for each in self._descriptors.of(descriptor)))
        for descriptor in over:
            shut_down(descriptor)
        return len(over)

    def hang_up(self, connection: Connection) -> None:
        """Close a connection, unless its descriptor already belongs to another connection."""
        descriptor = self._descriptors.present(connection)
        if descriptor is not None:
            shut_down(descriptor)

    def close(self, linger_seconds: float = 0) -> None:
        if not self._socket.closed:
            self._monitor.close()
            self._socket.close(linger=int(linger_seconds * 1000))
            if self._authenticator is not None:
                self._authenticator.close()
            if self.endpoint.file is not None:  # ZeroMQ does not remove it
                self.endpoint.file.unlink(missing_ok=True)
            if self._is_private:
                remove_private_folder(self.endpoint)


class DealerSocket:
    """A peer's end of one connection. A new connection needs a new socket, because an identity is never used again.

    The socket sends no heartbeats of ZeroMQ, because other modules decide how long a scheduler may be silent.

    If other users can write to the folder of an ipc address, the socket connects only once, and messages wait until
    `ListenerCheck` trusts the listener. A missing listener counts as a lost connection.

    Args:
        keyring: the keys to try; None: connections to the address need no key.
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
        self._unsent: list[tuple[bytes, Sequence[Any]]] | None = None if self._check is None else []
        """the messages that wait until `ListenerCheck` trusts the listener; None after that, or if there is no check"""
        self._socket.setsockopt(zmq.RECONNECT_IVL, RECONNECT_MS if self._check is None else -1)
        self._socket.setsockopt(zmq.RECONNECT_IVL_MAX, RECONNECT_MOST_MS)
        self._socket.setsockopt(zmq.CONNECT_TIMEOUT, CONNECT_MS)
        if self._check is None:
            self._monitor = CutMonitor(self._socket, [OpenConnections()], keyring)
        else:
            self._monitor = CutMonitor(self._socket, [OpenConnections(), self._check], losses=NO_LISTENER)
        if keyring is not None:
            keyring.apply_to(self._socket)
        try:
            connect(self._socket, endpoint)
        except zmq.ZMQError:
            self.close()  # otherwise its context could never end
            raise
        self.descriptor: int = _integer(self._socket, zmq.FD)
        self.monitor_descriptor = self._monitor.descriptor

    @property
    def refusal(self) -> str:
        """Why the listener is not trusted, for people; empty if the listener is trusted, or not connected yet."""
        return "" if self._check is None else self._check.refusal

    def receive(self) -> Message | None:
        header = self._inlet.take() if self._unsent is None else None
        if header is None:
            return None
        return header.bytes, self._receive_payload(self._socket) if header.more else []

    def send(self, header: bytes, frames: Sequence[Any]) -> None:
        """Send a message. The message waits in the socket until the connection is up.

        Raises:
            PeerGoneError: if the other end is in this process and was closed. `was_cut` reports all other losses.
        """
        if self._unsent is not None:
            self._unsent.append((header, frames))
            return
        try:
            _send(self._socket, header, _as_parts(frames) if frames else ())
        except zmq.Again as error:
            raise PeerGoneError(error.errno, "the other end is closed") from error

    def was_cut(self) -> bool:
        was_cut = self._monitor.was_cut()
        if self._unsent is not None and self._check is not None and self._check.is_passed:
            held, self._unsent = self._unsent, None
            for message in held:
                self.send(*message)
        return was_cut or bool(self.refusal)

    def close(self, linger_seconds: float = 0) -> None:
        if not self._socket.closed:
            self._monitor.close()
            self._socket.close(linger=int(linger_seconds * 1000))
