"""Publisher: the socket of the monitor stream. Viewers subscribe to topics and receive the messages of these topics.

Made by the scheduler. A viewer that reads too slowly loses messages, and never delays the publisher. The publisher
ignores all data except subscriptions. Viewers never make the publisher block or raise.
"""

from __future__ import annotations

import contextlib
import errno
import os

import zmq

from scaler.endpoint import TCP, Endpoint
from scaler.transport import unread
from scaler.transport.admission.authenticator import AdmissionKeys, Authenticator, key_of
from scaler.transport.binding import bind, bound_at, check_ipc_file, why_cannot_listen
from scaler.transport.disconnects import CutMonitor
from scaler.transport.interface import AddressInUseError
from scaler.transport.private import new_private_endpoint, remove_private_folder
from scaler.transport.sockets import HANDSHAKE_MS, give_up_after, shut_down

MESSAGES_KEPT = 200
"""The most messages that wait for a viewer; further messages are dropped."""

SUBSCRIPTION_BYTES_MOST = 256
"""The limit on the size of a message from a viewer. A viewer that sends a larger message is disconnected."""

HANDSHAKE_BYTES_MOST = 1024
"""Replaces `SUBSCRIPTION_BYTES_MOST` if viewers need keys, because a handshake with keys has longer messages."""

VIEWER_BYTES_MOST = 1024 * 1024
"""The limit on the bytes that a viewer on TCP sends in all. A subscription takes about 50 times its size in libzmq."""

_POLLIN, _EVENTS, _NOBLOCK = int(zmq.POLLIN), int(zmq.EVENTS), int(zmq.NOBLOCK)


class Publisher:
    """The socket of the monitor stream, which listens at an address.

    Args:
        endpoint: an ipc or tcp address; None: a socket in a new folder that only this user can enter.
        admission_keys: the keys that viewers need; None: all viewers may connect.

    Raises:
        AddressInUseError: if another program listens at the address.
        OSError: if the address cannot be bound for another reason, for example a file of another user.
    """

    def __init__(self, endpoint: Endpoint | None, admission_keys: AdmissionKeys | None = None) -> None:
        self._is_private = endpoint is None
        if endpoint is None:
            endpoint = new_private_endpoint("monitor")
        _check_owner(endpoint)
        check_ipc_file(endpoint)
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context(1)
        self._socket = _new_socket(self._context, endpoint)
        self._authenticator, self._admission_keys = None, admission_keys
        if admission_keys is not None:
            self._authenticator = Authenticator(self._context, self._socket, admission_keys)
            self._socket.setsockopt(zmq.MAXMSGSIZE, HANDSHAKE_BYTES_MOST)
            self._socket.setsockopt(zmq.RCVHWM, 2)  # with 1, no message arrives on a socket with keys
        self.authenticator_descriptor = None if self._authenticator is None else self._authenticator.descriptor
        try:
            bind(self._socket, endpoint)
        except zmq.ZMQError as error:
            self._socket.close()
            self._close_authenticator()
            self._context.term()
            kind = AddressInUseError if error.errno == errno.EADDRINUSE else OSError
            raise kind(error.errno, f"cannot listen at {endpoint}: {why_cannot_listen(endpoint, error)}") from error
        self.endpoint = bound_at(self._socket.get(zmq.LAST_ENDPOINT))
        self.descriptor = int(self._socket.getsockopt(zmq.FD))
        self._viewers = _Viewers()
        is_bounded = endpoint.scheme == TCP and unread.IS_SUPPORTED
        self._monitor = CutMonitor(self._socket, [self._viewers]) if is_bounded else None
        self.monitor_descriptor = None if self._monitor is None else self._monitor.descriptor
        """a descriptor that is readable when viewers connect or disconnect; call `changes` then"""

    def changes(self, most: int) -> list[tuple[bool, bytes]]:
        """Return the subscriptions that started (True, topic) and ended (False, topic) since the last call, in order.

        If `most` changes are returned, call `changes` again: the descriptor does not report the remaining changes.
        """
        changes: list[tuple[bool, bytes]] = []
        socket = self._socket
        while len(changes) < most:
            self._hang_up_on_flooders()
            if not int(socket.getsockopt(_EVENTS)) & _POLLIN:
                break
            first, *others = socket.recv_multipart(_NOBLOCK, copy=False)
            if self._admission_keys is not None and not self._has_valid_key(first, self._admission_keys):
                continue
            said = first.bytes
            if not others and said[:1] in (b"\0", b"\1"):
                changes.append((said[0] == 1, said[1:]))
        return changes

    def _has_valid_key(self, frame: zmq.Frame, admission_keys: AdmissionKeys) -> bool:
        """Return whether the key of a viewer is still valid. If not, disconnect the viewer."""
        try:
            descriptor, key = int(frame.get(zmq.SRCFD)), key_of(frame)
        except zmq.ZMQError:
            return True  # it belongs to no connection: libzmq unsubscribes for a lost viewer
        self._viewers.keys[descriptor] = key
        is_valid = admission_keys.is_valid(key)
        if not is_valid:
            shut_down(descriptor)
        return is_valid

    def authenticate(self) -> None:
        """Accept or refuse the viewers that wait to be authenticated."""
        if self._authenticator is not None:
            self._authenticator.answer()

    def hang_up(self, keys: frozenset[str]) -> None:
        """Disconnect the viewers that were accepted with any of the given keys."""
        for descriptor, key in self._viewers.keys.items():
            if key in keys:
                shut_down(descriptor)

    def _close_authenticator(self) -> None:
        if self._authenticator is not None:
            self._authenticator.close()

    def _hang_up_on_flooders(self) -> None:
        if self._monitor is not None:
            self._monitor.lost()
            for descriptor in self._viewers.flooders():
                shut_down(descriptor)

    def send(self, topic: bytes, header: bytes) -> None:
        """Send a message to the subscribers of a topic. Subscribers whose queue is full do not get the message."""
        with contextlib.suppress(zmq.Again):
            self._socket.send_multipart((topic, header), _NOBLOCK)

    def close(self) -> None:
        """Close the socket, and remove the files of the address. A second call does nothing."""
        if self._socket.closed:
            return
        if self._monitor is not None:
            self._monitor.close()
        self._socket.close(linger=0)
        self._close_authenticator()
        self._context.term()
        if self.endpoint.file is not None:
            with contextlib.suppress(OSError):
                self.endpoint.file.unlink(missing_ok=True)
        if self._is_private:
            remove_private_folder(self.endpoint)


class _Viewers:
    """The viewers on TCP, by descriptor."""

    def __init__(self) -> None:
        self._descriptors: set[int] = set()
        self.keys: dict[int, str] = {}
        """the public key of each viewer that has subscribed to any topic"""

    def open(self, descriptor: int) -> None:
        self._descriptors.add(descriptor)
        self.keys.pop(descriptor, None)

    def close(self, descriptor: int) -> None:
        self._descriptors.discard(descriptor)
        self.keys.pop(descriptor, None)

    def flooders(self) -> list[int]:
        """Return the descriptors of the viewers that have sent too many bytes."""
        return [each for each in self._descriptors if (unread.received_bytes(each) or 0) > VIEWER_BYTES_MOST]


def _new_socket(context: zmq.Context[zmq.Socket[bytes]], endpoint: Endpoint) -> zmq.Socket[bytes]:
    socket = context.socket(zmq.XPUB)
    socket.setsockopt(zmq.LINGER, 0)
    socket.setsockopt(zmq.SNDHWM, MESSAGES_KEPT)
    socket.setsockopt(zmq.RCVHWM, 1)  # otherwise libzmq buffers all messages of a viewer, without a limit
    socket.setsockopt(zmq.XPUB_VERBOSE, 1)  # also report the second viewer of a topic
    socket.setsockopt(zmq.MAXMSGSIZE, SUBSCRIPTION_BYTES_MOST)
    socket.setsockopt(zmq.HANDSHAKE_IVL, HANDSHAKE_MS)
    give_up_after(socket, 0)  # in place of heartbeats of ZeroMQ, see `GIVEN_UP_AFTER_MS`
    socket.setsockopt(zmq.IPV6, endpoint.is_ipv6)
    socket.setsockopt_string(zmq.ZAP_DOMAIN, "scaler")  # refuses peers of ZMTP 1 and 2
    return socket


def _check_owner(endpoint: Endpoint) -> None:
    file = endpoint.file
    if file is None:
        return
    try:
        owner = file.lstat().st_uid
    except FileNotFoundError:
        return
    if owner != os.geteuid():
        text = f"cannot listen at {endpoint.address}: the file belongs to another user (uid {owner})"
        raise PermissionError(errno.EPERM, text)
