"""Authenticator: accepts the peers of a listening socket by their keys. ZeroMQ asks it about each new connection.

Each context of ZeroMQ whose sockets have keys has one authenticator (ZAP, RFC 27). The authenticator belongs to the
thread of these sockets, and never blocks. `AdmissionKeys.judge` decides which keys are valid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import zmq
from zmq.utils import z85

_PLACE = "inproc://zeromq.zap.01"
_NOBLOCK, _NOBLOCK_SNDMORE = int(zmq.NOBLOCK), int(zmq.NOBLOCK) | int(zmq.SNDMORE)
ACCEPTED = 200

# Without pyzmq's checks for other socket types and options, which cost more than the rest of an answer.
_send_part, _receive_part = zmq.backend.Socket.send, zmq.backend.Socket.recv


@dataclass(frozen=True)
class AdmissionKeys:
    """The secret key of a listening socket, and the functions that check the keys of its peers.

    Attributes:
        judge: returns the ZAP status code for a public key and the address of its peer. The code 200 accepts the peer.
        is_valid: returns whether an accepted public key is still valid when the first message arrives.
    """

    secret: str = field(repr=False)
    judge: Callable[[str, str], int]
    is_valid: Callable[[str], bool]


class Authenticator:
    """Answers ZeroMQ's requests to authenticate the peers of one context.

    Args:
        socket: the socket that from now on accepts only peers with a key. The socket must not listen yet.
    """

    def __init__(
        self, context: zmq.Context[zmq.Socket[bytes]], socket: zmq.Socket[bytes], admission_keys: AdmissionKeys
    ) -> None:
        socket.setsockopt(zmq.CURVE_SERVER, 1)
        socket.setsockopt_string(zmq.CURVE_SECRETKEY, admission_keys.secret)
        self._judge = admission_keys.judge
        self._socket = context.socket(zmq.REP)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.bind(_PLACE)
        self.descriptor = int(self._socket.getsockopt(zmq.FD))
        self.answer()  # ZeroMQ's fd is edge-triggered: only an empty read re-arms it

    def answer(self) -> None:
        """Answer all pending requests of ZeroMQ."""
        for version, number, _domain, address, _identity, mechanism, *credentials in self._requests():
            public = z85.encode(credentials[0]).decode() if mechanism == b"CURVE" else ""
            code = self._judge(public, address.decode(errors="replace"))
            user = public.encode() if code == ACCEPTED else b""
            for part in (version, number, str(code).encode(), b"", user):
                _send_part(self._socket, part, _NOBLOCK_SNDMORE, True)
            _send_part(self._socket, b"", _NOBLOCK, True)

    def _requests(self) -> Iterator[list[bytes]]:
        while True:
            try:
                parts = [_receive_part(self._socket, _NOBLOCK, False)]
            except zmq.Again:
                return
            while parts[-1].more:
                parts.append(_receive_part(self._socket, _NOBLOCK, False))
            yield [part.bytes for part in parts]

    def close(self) -> None:
        """Close the authenticator. A second call does nothing."""
        self._socket.close(0)


def key_of(frame: zmq.Frame) -> str:
    """Return the public key with which the connection of a received frame was accepted; empty if no key was needed."""
    try:
        return str(frame.get("User-Id"))
    except zmq.ZMQError:
        return ""
