"""Streams: the transport over plain stream sockets at ipc addresses, where both ends are of this package.

No thread moves bytes: the receiver reads from the system, and the unsent rest of a message waits in the sending process
until the system has space. So a single message costs one system call at each end, and the system holds back a peer that
sends more than is read.

Used through `open_transport`, by one thread at a time. No call blocks. No connection is read while messages wait for
`receive`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import socket as unix
import threading
import time
import weakref
from collections import deque
from collections.abc import Container, Sequence
from itertools import islice
from math import inf
from typing import Any

from scaler.endpoint import ANYWHERE, Endpoint
from scaler.ids import Connection
from scaler.transport.binding import check_ipc_file, only_for_this_user, process_at, user_at, why_cannot_listen
from scaler.transport.framing import GREETING, GarbledError, ReceiveBuffer, drop_bytes, new_area, pieces_of
from scaler.transport.interface import (
    FRAME_BYTES_MOST,
    UNREAD_BYTES_MOST,
    AddressInUseError,
    Dialer,
    Listener,
    Message,
    PeerGoneError,
)
from scaler.transport.private import new_private_endpoint, remove_private_folder
from scaler.transport.trust import why_not_trusted

ARE_SUPPORTED = hasattr(select, "epoll") and hasattr(os, "eventfd")

READ_BYTES = 256 * 1024
"""The size of the buffer for reading, which is about what the system buffers for a connection."""
SYSTEM_BYTES = 1024 * 1024
"""The size of the system's buffer for one direction of a connection, unless the limit of the system is lower."""
PIECES_MOST = 64
"""The limit on the pieces that one system call writes."""
READY_MOST = 64
"""The most connections that are read, once each, before the system is asked again which connections are readable."""
CALLERS_WAITING = 1024
"""The most connections that wait to be accepted. The system refuses further peers, which try again."""
PIECES_UNSENT = 250_000
"""The limit on unsent pieces for one peer. Other modules set lower limits for all messages except echoes."""
CONNECT_RETRY_SECONDS = 0.05
CONNECT_RETRY_MOST_SECONDS = 0.25
"""The longest pause between two attempts of a peer to connect."""

# Plain numbers: combining the enumerations of `select` costs more than reading.
_IN, _OUT = 1, 4


class _Stream:
    """One end of one connection.

    Args:
        socket: the socket of this end, which belongs to the stream from now on.
        buffer: the memory into which data is read first; all streams of one thread may share this memory.
        message_bytes: the most bytes of a message; a larger message ends the connection.
    """

    def __init__(
        self, socket: unix.socket, epoll: select.epoll, buffer: memoryview, frame_bytes: int, message_bytes: float
    ) -> None:
        socket.setblocking(False)
        for option in (unix.SO_SNDBUF, unix.SO_RCVBUF):
            socket.setsockopt(unix.SOL_SOCKET, option, SYSTEM_BYTES)
        self.socket, self._epoll, self._buffer = socket, epoll, buffer
        self._inflow = ReceiveBuffer(frame_bytes, message_bytes)
        self.unsent: deque[Any] = deque((GREETING,))
        self.must_wait = False
        """whether unsent data waits until the system reports space"""
        self.has_ended = False
        self.cannot_send = False
        self.is_garbled = False

    def send(self, header: bytes, frames: Sequence[Any]) -> None:
        """Write as much of a message as the system has space for. The rest waits."""
        self.unsent.extend(pieces_of(header, frames))
        if not self.must_wait:
            self.flush()

    def flush(self) -> None:
        """Write as much of the unsent data as the system has space for."""
        unsent, socket = self.unsent, self.socket
        try:
            while len(unsent) > 1:
                drop_bytes(unsent, socket.sendmsg(list(islice(unsent, PIECES_MOST))))
            if unsent:
                drop_bytes(unsent, socket.send(unsent[0]))
        except BlockingIOError:
            pass
        except OSError:  # data that the other end sent before can still be read
            self.cannot_send = True
            unsent.clear()
            self.hang_up()
            return
        if self.must_wait is not bool(unsent):
            self.must_wait = bool(unsent)
            self._epoll.modify(socket, _IN | _OUT if unsent else _IN)

    def read(self) -> list[Message]:
        """Read once, and then the rest of a partly arrived large frame. Return the messages that are complete now."""
        inflow = self._inflow
        messages: list[Message] = []
        try:
            if not inflow.room:
                n_bytes = self.socket.recv_into(self._buffer)
                self.has_ended = not n_bytes
                messages = inflow.take(self._buffer[:n_bytes])
            if inflow.room and not self.has_ended:
                n_bytes = self.socket.recv_into(inflow.room)
                self.has_ended = not n_bytes
                messages += inflow.filled(n_bytes) if n_bytes else []
        except BlockingIOError:
            pass
        except GarbledError:
            self.has_ended = self.is_garbled = True
        except OSError:
            self.has_ended = True
        return messages

    def hang_up(self) -> None:
        """End the connection, even if other processes have its descriptor. Received data can still be read."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(unix.SHUT_RDWR)

    def close(self, until: float = 0) -> None:
        """Close the connection. Wait until unsent data is written, at most until the monotonic time `until`."""
        poll = select.poll()
        poll.register(self.socket, select.POLLOUT)
        while self.unsent and (seconds := until - time.monotonic()) > 0 and poll.poll(seconds * 1000):
            self.flush()
        self.hang_up()
        self.socket.close()


class StreamDialer:
    """A peer's end of one connection. While no process listens, a thread of the dialer tries to connect repeatedly.

    Raises:
        OSError: if it is impossible to connect to the address.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint, self._path = endpoint, str(endpoint.file)
        self.refusal = ""
        """why the listener is not trusted, for people; empty if the listener is trusted, or not connected yet"""
        self._epoll = select.epoll()
        socket, buffer = unix.socket(unix.AF_UNIX, unix.SOCK_STREAM), memoryview(new_area(READ_BYTES))
        self._stream = _Stream(socket, self._epoll, buffer, FRAME_BYTES_MOST, inf)
        self.descriptor = self._epoll.fileno()
        self.monitor_descriptor = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._messages: deque[Message] = deque()
        self._is_expected = True
        self._is_closed = threading.Event()
        self._connecting: threading.Thread | None = None
        _dialers.add(self)
        try:
            if not self._has_connected(_IN):
                self._stream.must_wait = True
                self._connecting = threading.Thread(target=self._retry_connecting, name="scaler-knock", daemon=True)
                self._connecting.start()
        except OSError:
            self.close()
            raise

    def _has_connected(self, events: int) -> bool:
        """Try to connect. Return whether a process listens. If the listener is not trusted, end the connection."""
        stream = self._stream
        if stream.socket.connect_ex(self._path):
            return False
        self.refusal = why_not_trusted(self._endpoint, stream.socket)
        if self.refusal:
            stream.cannot_send = stream.must_wait = True
            stream.hang_up()
            os.eventfd_write(self.monitor_descriptor, 1)
        else:
            self._epoll.register(stream.socket, events)
        return True

    def _retry_connecting(self) -> None:
        seconds = CONNECT_RETRY_SECONDS
        while not self._is_closed.wait(seconds) and not self._has_connected(_IN | _OUT):
            seconds = min(2 * seconds, CONNECT_RETRY_MOST_SECONDS)

    def expect(self) -> None:
        self._is_expected = True

    def has_message(self) -> bool:
        return bool(self._messages)

    def receive(self) -> Message | None:
        if self._messages:
            return self._messages.popleft()
        if not self._is_expected:
            return None
        self._is_expected = False
        stream = self._stream
        if stream.must_wait and not self._has_room():
            return None
        messages = stream.read()
        if stream.has_ended:
            self._end()
        self._messages.extend(messages)
        return self._messages.popleft() if messages else None

    def _has_room(self) -> bool:
        """Write unsent data, if there is space. Return whether there may be data to read."""
        ready = self._epoll.poll(0)
        if ready and ready[0][1] & _OUT:
            self._stream.flush()
        return bool(ready and ready[0][1] & ~_OUT)

    def _end(self) -> None:
        if self._stream.is_garbled:
            self._messages.append((b"", []))  # every codec refuses it
        self._stream.cannot_send = True
        self._epoll.unregister(self._stream.socket)
        os.eventfd_write(self.monitor_descriptor, 1)

    def send(self, header: bytes, frames: Sequence[Any]) -> None:
        if not self._stream.cannot_send:  # `was_cut` reports the loss
            self._stream.send(header, frames)

    def was_cut(self) -> bool:
        return _was_signalled(self.monitor_descriptor)

    def close(self, linger_seconds: float = 0) -> None:
        if self._is_closed.is_set():
            return
        self._is_closed.set()
        if self._connecting is not None:
            self._connecting.join()
        self._stream.close(time.monotonic() + linger_seconds)
        self._epoll.close()
        os.close(self.monitor_descriptor)

    def close_after_fork(self) -> None:
        """Close a forked process's copy of the socket. An open copy would keep the parent's connection open."""
        self._stream.socket.close()


_dialers: weakref.WeakSet[StreamDialer] = weakref.WeakSet()


def _close_dialers_after_fork() -> None:
    for dialer in list(_dialers):
        dialer.close_after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_dialers_after_fork)


def _was_signalled(descriptor: int) -> bool:
    try:
        return os.eventfd_read(descriptor) > 0
    except BlockingIOError:
        return False


def _listen_at(endpoint: Endpoint) -> unix.socket:
    """Return a socket that listens at an ipc address, for this user alone; errors as for `Transport.listen`."""
    check_ipc_file(endpoint)
    path = str(endpoint.file)
    listening = unix.socket(unix.AF_UNIX, unix.SOCK_STREAM)
    try:
        with only_for_this_user():
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)  # a killed process has left it behind  # noqa: PTH108
            listening.bind(path)
        listening.listen(CALLERS_WAITING)
    except OSError as error:
        listening.close()
        if error.errno == errno.EADDRINUSE:
            raise AddressInUseError(error.errno, f"{endpoint} is in use") from error
        number = error.errno or errno.ENAMETOOLONG
        raise OSError(number, f"cannot listen at {endpoint}: {why_cannot_listen(endpoint, error)}") from error
    listening.setblocking(False)
    return listening


class StreamListener:
    """The scheduler's end of all connections at one ipc address. Errors are those of `Transport.listen`."""

    authenticator_descriptor: int | None = None

    def __init__(self, endpoint: Endpoint, frame_bytes: int, message_bytes: int) -> None:
        self._is_private = endpoint.address == ANYWHERE
        self.endpoint = new_private_endpoint() if self._is_private else endpoint
        self._bounds = memoryview(new_area(READ_BYTES)), frame_bytes, message_bytes
        self._listening = _listen_at(self.endpoint)
        self._epoll = select.epoll()
        self._epoll.register(self._listening, _IN)
        self.descriptor = self._epoll.fileno()
        self.monitor_descriptor = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._streams: dict[Connection, _Stream] = {}
        self._connections: dict[int, Connection] = {}
        self._next_number = 1
        self._messages: deque[tuple[Connection, bytes, list[memoryview]]] = deque()
        self._ready: list[tuple[int, int]] = []
        self._is_expected = True
        self._lacks_descriptors = False
        """whether this process accepts no new connections now, because it has no free descriptors"""
        self._lost: list[Connection] = []
        self._idle: set[Connection] = set()

    # Receiving

    def expect(self) -> None:
        self._is_expected = True

    def receive(self) -> tuple[Connection, bytes, list[memoryview]] | None:
        while not self._messages:
            if not self._ready:
                if not self._is_expected:
                    return None
                self._ready = self._epoll.poll(0, READY_MOST)
                self._is_expected = len(self._ready) == READY_MOST
                if not self._ready:
                    return None
            self._serve(*self._ready.pop())
        return self._messages.popleft()

    def _serve(self, descriptor: int, events: int) -> None:
        if descriptor == self._listening.fileno():
            self._accept()
            return
        connection = self._connections.get(descriptor)
        if connection is None:
            return
        stream = self._streams[connection]
        if events & _OUT:
            stream.flush()
        if events & ~_OUT:
            for header, frames in stream.read():
                self._messages.append((connection, header, frames))
            if stream.has_ended:
                self._end(connection)

    def _accept(self) -> None:
        for _ in range(READY_MOST):
            try:
                socket, _address = self._listening.accept()
            except BlockingIOError:
                break
            except OSError:  # usually for lack of descriptors: `look` tries again
                self._lacks_descriptors = True
                self._epoll.modify(self._listening, 0)
                break
            connection = Connection(self._next_number.to_bytes(5, "big"))
            self._next_number += 1
            self._streams[connection] = _Stream(socket, self._epoll, *self._bounds)
            self._connections[socket.fileno()] = connection
            self._epoll.register(socket, _IN)
        os.eventfd_write(self.monitor_descriptor, 1)

    def _end(self, connection: Connection) -> None:
        stream = self._streams.pop(connection)
        self._epoll.unregister(stream.socket)
        del self._connections[stream.socket.fileno()]
        stream.close()
        self._lost.append(connection)
        os.eventfd_write(self.monitor_descriptor, 1)

    # Sending

    def send(self, connection: Connection, header: bytes, frames: Sequence[Any]) -> None:
        stream = self._streams.get(connection)
        if stream is not None and not stream.cannot_send:
            stream.send(header, frames)
        if stream is None or stream.cannot_send:
            raise PeerGoneError(errno.EHOSTUNREACH, "the connection has ended")
        if len(stream.unsent) > PIECES_UNSENT:
            stream.cannot_send = True
            stream.hang_up()
            raise PeerGoneError(errno.EAGAIN, "the other end does not read")

    # Ends of connections

    def lost(self) -> list[Connection]:
        _was_signalled(self.monitor_descriptor)
        lost, self._lost = self._lost, []
        return lost

    def forget(self, connection: Connection) -> None:
        """Do nothing: the listener keeps no data about ended connections."""

    def authenticate(self) -> None:
        """Do nothing: the permissions of the socket file decide who may connect."""

    def key_of(self, connection: Connection) -> str:  # noqa: ARG002
        return ""

    def user_of(self, connection: Connection) -> str | None:
        stream = self._streams.get(connection)
        return None if stream is None else user_at(stream.socket)

    def process_of(self, connection: Connection) -> int:
        stream = self._streams.get(connection)
        return 0 if stream is None else process_at(stream.socket)

    def look(self, resident_bytes: int) -> int:  # noqa: ARG002 - the system holds back fast senders
        if self._lacks_descriptors:
            self._lacks_descriptors = False
            self._epoll.modify(self._listening, _IN)
        return 0

    def hang_up_on_idle(self, peers: Container[Connection]) -> int:
        idle = {connection for connection in self._streams if connection not in peers}
        over = idle & self._idle
        self._idle = idle - over
        for connection in over:
            self._streams[connection].hang_up()
        return len(over)

    def hang_up(self, connection: Connection) -> None:
        stream = self._streams.get(connection)
        if stream is not None:
            stream.hang_up()

    def close(self, linger_seconds: float = 0) -> None:
        if self._epoll.closed:
            return
        self._listening.close()
        until = time.monotonic() + linger_seconds
        for stream in self._streams.values():
            stream.close(until)
        self._epoll.close()
        os.close(self.monitor_descriptor)
        if self.endpoint.file is not None:
            self.endpoint.file.unlink(missing_ok=True)
        if self._is_private:
            remove_private_folder(self.endpoint)


class Streams:
    """The `Transport` of plain stream sockets to one ipc address."""

    is_refused_by_scheduler = False

    def __init__(
        self, endpoint: Endpoint, frame_bytes: int = FRAME_BYTES_MOST, unread_bytes: int = UNREAD_BYTES_MOST
    ) -> None:
        self.endpoint = endpoint
        self._bounds = frame_bytes, unread_bytes
        self._dialer: StreamDialer | None = None

    @property
    def refusal(self) -> str:
        return "" if self._dialer is None else self._dialer.refusal

    def dial(self) -> Dialer:
        self._dialer = StreamDialer(self.endpoint)
        return self._dialer

    def listen(self, silence_seconds: float) -> Listener:  # noqa: ARG002 - the system ends connections of dead processes
        return StreamListener(self.endpoint, *self._bounds)

    def close(self) -> None:
        """Do nothing: the connections of this transport share nothing that must be closed."""
