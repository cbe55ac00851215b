"""Disconnects: learns from ZeroMQ which connections of a socket were lost, and which are new.

Used by the sockets, only in the thread that owns the socket.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Protocol

import zmq

from scaler.transport.admission.keyring import FAILURES, Keyring

# Plain numbers, as in `sockets.py`; for an event pyzmq makes up to eight enumerations.
_EVENTS, _POLLIN, _NOBLOCK = zmq.EVENTS, int(zmq.POLLIN), int(zmq.NOBLOCK)
_BEGINS = int(zmq.EVENT_ACCEPTED) | int(zmq.EVENT_CONNECTED)
_ENDS, _IS_IN = int(zmq.EVENT_DISCONNECTED), int(zmq.EVENT_HANDSHAKE_SUCCEEDED)
NO_LISTENER = int(zmq.EVENT_CLOSED)
_EVENT = struct.Struct("=Hi")
"""the encoding of an event of ZeroMQ: the number of the event, and a value, which is a descriptor for most events"""


class Watcher(Protocol):
    """An object that is notified of the start and end of each connection, by descriptor."""

    def open(self, descriptor: int) -> None:
        """Add a new connection."""

    def close(self, descriptor: int) -> None:
        """Remove an ended connection."""


class CutMonitor:
    """Reports the lost connections of a socket.

    Args:
        watchers: the objects that are notified of the start and end of all connections, in order.
        keyring: notified of the results of handshakes; None if no key is needed.
        losses: the bits of further events that count as the loss of a connection.
    """

    def __init__(
        self,
        socket: zmq.Socket[bytes],
        watchers: Sequence[Watcher] = (),
        keyring: Keyring | None = None,
        losses: int = 0,
    ) -> None:
        self._watched, self._watchers, self._keyring = socket, watchers, keyring
        new = _BEGINS if watchers else 0
        self._losses = _ENDS | losses
        handshakes = 0 if keyring is None else FAILURES | _IS_IN
        self._monitor = socket.get_monitor_socket(self._losses | new | handshakes)
        self.descriptor = int(self._monitor.getsockopt(zmq.FD))
        self.was_cut()  # ZeroMQ's fd is edge-triggered: only an empty read re-arms it

    def was_cut(self) -> bool:
        """Return whether a connection was lost since the last call."""
        return bool(self.lost())

    def lost(self) -> list[int]:
        """Return the descriptors of the connections that were lost since the last call."""
        lost = []
        while int(self._monitor.getsockopt(_EVENTS)) & _POLLIN:
            event, descriptor = _EVENT.unpack(self._monitor.recv_multipart(_NOBLOCK)[0])
            if event & self._losses:
                lost.append(descriptor)
                for watcher in self._watchers:
                    watcher.close(descriptor)
            elif event & _BEGINS:
                for watcher in self._watchers:
                    watcher.open(descriptor)
            elif self._keyring is not None:
                self._report_to_keyring(event, descriptor)
        return lost

    def _report_to_keyring(self, event: int, value: int) -> None:
        if self._keyring is not None and event & FAILURES:
            self._keyring.failed(event, value)
        elif self._keyring is not None:
            self._keyring.reset()

    def close(self) -> None:
        self._watched.disable_monitor()
        self._monitor.close()
