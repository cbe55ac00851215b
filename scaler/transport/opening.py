"""Opening: chooses the transport to an address.

Agents and clients call `open_transport`, schedulers `open_listening_transport`. Transports are imported at first use.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from scaler.config import ConfigError
from scaler.endpoint import IPC, Endpoint
from scaler.keys.finding import keys_for
from scaler.keys.key_file import CLIENT, WORKER
from scaler.transport.interface import FRAME_BYTES_MOST, UNREAD_BYTES_MOST, Transport
from scaler.transport.streams import ARE_SUPPORTED, Streams

if TYPE_CHECKING:
    from scaler.transport.admission.authenticator import AdmissionKeys


def open_transport(endpoint: Endpoint, role: str = CLIENT, io_threads: int = 1) -> Transport:
    """Return the transport to a scheduler, with the keys that this user has for this scheduler.

    Args:
        role: client or worker.
        io_threads: the number of threads that move bytes, if the transport needs any threads.

    Raises:
        ConfigError: if a key file cannot be read, or other users have access to it.
    """
    if endpoint.scheme == IPC and ARE_SUPPORTED:
        return Streams(endpoint, FRAME_BYTES_MOST, UNREAD_BYTES_MOST)
    from scaler.transport.zeromq import ZeroMQ  # noqa: PLC0415 - its library takes as long as all of this package

    return ZeroMQ(endpoint, io_threads, keys=lambda: keys_for(endpoint, role))


def import_transport(endpoint: Endpoint) -> None:
    """Import all that `open_transport` needs. Call this in a process whose forks will call `open_transport`."""
    if not (endpoint.scheme == IPC and ARE_SUPPORTED):
        import scaler.transport.zeromq  # noqa: F401, PLC0415 - as above

        with contextlib.suppress(ConfigError):  # `open_transport` will raise it again
            keys_for(endpoint, WORKER)  # so the code that reads them is warm in each fork


def open_listening_transport(
    endpoint: Endpoint,
    io_threads: int = 1,
    frame_bytes: int = FRAME_BYTES_MOST,
    unread_bytes: int = UNREAD_BYTES_MOST,
    admission_keys: AdmissionKeys | None = None,
) -> Transport:
    """Return the transport for a scheduler that will listen at an address.

    Args:
        io_threads: the number of threads that move bytes, if the transport needs any threads.
        frame_bytes: the most bytes of a frame; a connection that starts a larger frame is closed.
        unread_bytes: the most unread bytes of a connection; a connection with more unread bytes may be closed.
        admission_keys: the keys that peers need; None: all peers may connect.
    """
    if endpoint.scheme == IPC and ARE_SUPPORTED:
        return Streams(endpoint, frame_bytes, unread_bytes)
    from scaler.transport.zeromq import ZeroMQ  # noqa: PLC0415 - as above

    return ZeroMQ(endpoint, io_threads, frame_bytes, unread_bytes, admission_keys)
