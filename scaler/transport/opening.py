"""Opening: which transport there is to an address.

`open_transport` is the one way in for schedulers, agents and clients. Must never: have a process import what it does
not use.
"""

from __future__ import annotations

from scaler.endpoint import IPC, Endpoint
from scaler.transport.interface import FRAME_BYTES_MOST, UNREAD_BYTES_MOST, Transport
from scaler.transport.streams import ARE_POSSIBLE, Streams


def open_transport(
    endpoint: Endpoint, io_threads: int = 1, frame_bytes: int = FRAME_BYTES_MOST, unread_bytes: int = UNREAD_BYTES_MOST
) -> Transport:
    """Return the way to an address.

    Args:
        io_threads: how many threads of the system move bytes, if it needs any.
        frame_bytes: a listener closes a connection that begins a larger frame.
        unread_bytes: a listener may close a connection of which more waits to be read.
    """
    if endpoint.scheme == IPC and ARE_POSSIBLE:
        return Streams(endpoint, frame_bytes, unread_bytes)
    from scaler.transport.zeromq import ZeroMQ  # noqa: PLC0415 - its library takes as long as all of this package

    return ZeroMQ(endpoint, io_threads, frame_bytes, unread_bytes)
