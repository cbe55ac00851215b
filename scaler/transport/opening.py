"""Opening: which transport there is to an address.

`open_transport` is the one way in for agents and clients, `open_place` for schedulers. Must never: have a process
import what it does not use.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from scaler.config import ConfigError
from scaler.endpoint import IPC, Endpoint
from scaler.keys.finding import keys_for
from scaler.keys.key_file import CLIENT, WORKER
from scaler.transport.interface import FRAME_BYTES_MOST, UNREAD_BYTES_MOST, Transport
from scaler.transport.streams import ARE_POSSIBLE, Streams

if TYPE_CHECKING:
    from scaler.transport.admission.authenticator import AdmissionKeys


def open_transport(endpoint: Endpoint, role: str = CLIENT, io_threads: int = 1) -> Transport:
    """Return the way to a scheduler, with the keys that there are for it.

    Args:
        role: what to be there: client or worker.
        io_threads: how many threads of the system move bytes, if it needs any.

    Raises:
        ConfigError: if there is a key that cannot be read, or others have access to it.
    """
    if endpoint.scheme == IPC and ARE_POSSIBLE:
        return Streams(endpoint, FRAME_BYTES_MOST, UNREAD_BYTES_MOST)
    from scaler.transport.zeromq import ZeroMQ  # noqa: PLC0415 - its library takes as long as all of this package

    return ZeroMQ(endpoint, io_threads, keys=lambda: keys_for(endpoint, role))


def import_transport(endpoint: Endpoint) -> None:
    """Import what the way to a scheduler needs, in a process whose forks will open it."""
    if not (endpoint.scheme == IPC and ARE_POSSIBLE):
        import scaler.transport.zeromq  # noqa: F401, PLC0415 - as above

        with contextlib.suppress(ConfigError):  # whoever opens it hears of it
            keys_for(endpoint, WORKER)  # what reads them is warm in each fork


def open_place(
    endpoint: Endpoint,
    io_threads: int = 1,
    frame_bytes: int = FRAME_BYTES_MOST,
    unread_bytes: int = UNREAD_BYTES_MOST,
    lock: AdmissionKeys | None = None,
) -> Transport:
    """Return the place of a scheduler at an address.

    Args:
        io_threads: how many threads of the system move bytes, if it needs any.
        frame_bytes: it closes a connection that begins a larger frame.
        unread_bytes: it may close a connection of which more waits to be read.
        lock: what peers need a key for; None: everybody may connect.
    """
    if endpoint.scheme == IPC and ARE_POSSIBLE:
        return Streams(endpoint, frame_bytes, unread_bytes)
    from scaler.transport.zeromq import ZeroMQ  # noqa: PLC0415 - as above

    return ZeroMQ(endpoint, io_threads, frame_bytes, unread_bytes, lock)
