"""Gate: lets peers of a listening socket in by their keys. ZeroMQ asks it once for each connection, before any message.

One for each context of ZeroMQ whose sockets have keys (ZAP, RFC 27). It belongs to the thread of these sockets, and is
never waited for. Must never: decide itself who is on the list.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import zmq
from zmq.utils import z85

_PLACE = "inproc://zeromq.zap.01"
_EVENTS, _POLLIN, _NOBLOCK = zmq.EVENTS, int(zmq.POLLIN), int(zmq.NOBLOCK)
GOOD = 200


@dataclass(frozen=True)
class Lock:
    """What a listening socket with keys needs.

    Attributes:
        secret: the secret key of the scheduler.
        judge: returns the code of ZAP for a public key, given the address of its peer: 200 lets it in.
    """

    secret: str = field(repr=False)
    judge: Callable[[str, str], int]


class Gate:
    """The one of its context.

    Args:
        guarded: the socket that lets in nobody without a key from now on; it does not listen yet.
        lock: of that socket.
    """

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], guarded: zmq.Socket[bytes], lock: Lock) -> None:
        guarded.setsockopt(zmq.CURVE_SERVER, 1)
        guarded.setsockopt_string(zmq.CURVE_SECRETKEY, lock.secret)
        self._judge = lock.judge
        self._socket = context.socket(zmq.REP)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.bind(_PLACE)
        self.descriptor = int(self._socket.getsockopt(zmq.FD))
        self.answer()  # ZeroMQ's fd is edge-triggered: only an empty read re-arms it

    def answer(self) -> None:
        """Answer all that has been asked."""
        while int(self._socket.getsockopt(_EVENTS)) & _POLLIN:
            version, number, _domain, address, _identity, mechanism, *credentials = self._socket.recv_multipart(
                _NOBLOCK
            )
            public = z85.encode(credentials[0]).decode() if mechanism == b"CURVE" else ""
            code = self._judge(public, address.decode(errors="replace"))
            user = public.encode() if code == GOOD else b""
            self._socket.send_multipart([version, number, str(code).encode(), b"", user, b""], _NOBLOCK)

    def close(self) -> None:
        """Close. May be called again."""
        self._socket.close(0)


def key_of(frame: zmq.Frame) -> str:
    """Return the public key with which the connection of a received frame was let in; empty if it needed none."""
    try:
        return str(frame.get("User-Id"))
    except zmq.ZMQError:
        return ""
