"""ZeroMQ as the transport of Scaler: its contexts, and the sockets made in them.

Used for TCP, for connections between threads of one process, and on systems without `streams`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence

import zmq

from scaler.endpoint import TCP, Endpoint
from scaler.keys.key_file import KeyFile
from scaler.transport.admission.authenticator import AdmissionKeys
from scaler.transport.admission.keyring import Keyring
from scaler.transport.interface import FRAME_BYTES_MOST, UNREAD_BYTES_MOST, Dialer, Listener
from scaler.transport.sockets import DealerSocket, RouterSocket


class _SharedContext:
    """The ZeroMQ context for all connections inside this process. It exists while any transport uses it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._context: zmq.Context[zmq.Socket[bytes]] | None = None
        self._users = 0

    def enter(self) -> zmq.Context[zmq.Socket[bytes]]:
        with self._lock:
            if self._context is None:
                self._context = zmq.Context()
            self._users += 1
            return self._context

    def leave(self, context: zmq.Context[zmq.Socket[bytes]]) -> bool:
        """Stop using a context. Return whether it is the shared context and other transports still use it."""
        with self._lock:
            if context is not self._context:
                return False
            self._users -= 1
            if self._users:
                return True
            self._context = None
            return False


_shared = _SharedContext()


def _forget_shared() -> None:
    """Make a new shared context in a forked process: the old one needs threads that exist only in the parent."""
    global _shared  # noqa: PLW0603 - there is one process
    _shared = _SharedContext()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_shared)


class ZeroMQ:
    """The `Transport` of ZeroMQ to one address. All transports for connections inside this process share a context."""

    def __init__(
        self,
        endpoint: Endpoint,
        io_threads: int = 1,
        frame_bytes: int = FRAME_BYTES_MOST,
        unread_bytes: int = UNREAD_BYTES_MOST,
        admission_keys: AdmissionKeys | None = None,
        keys: Callable[[], Sequence[KeyFile]] = tuple,
    ) -> None:
        self.endpoint = endpoint
        self._lock = admission_keys
        self._keyring = Keyring(endpoint, keys) if endpoint.scheme == TCP else None
        self._frame_bytes, self._unread_bytes = frame_bytes, unread_bytes
        self._dialer: DealerSocket | None = None
        self._context = _shared.enter() if endpoint.is_in_process else zmq.Context(io_threads)

    def dial(self) -> Dialer:
        if self._keyring is not None:
            self._keyring.retry()
        try:
            self._dialer = DealerSocket(self._context, self.endpoint, self._keyring)
        except zmq.ZMQError as error:
            raise OSError(error.errno, str(error)) from error
        return self._dialer

    def listen(self, silence_seconds: float) -> Listener:
        bounds = self._frame_bytes, self._unread_bytes
        return RouterSocket(self._context, self.endpoint, silence_seconds, *bounds, self._lock)

    @property
    def refusal(self) -> str:
        if self._keyring is not None:
            return self._keyring.refusal
        return "" if self._dialer is None else self._dialer.refusal

    @property
    def is_refused_by_scheduler(self) -> bool:
        return self._keyring is not None and self._keyring.is_refused_by_scheduler

    def close(self) -> None:
        if not _shared.leave(self._context):
            self._context.term()
