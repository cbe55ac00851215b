"""Private addresses: a socket file in a folder that only its user can enter.

Used by the router. Loopback ports are open to every user of the machine, and to web pages in a browser; this is not.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import tempfile

from scaler.endpoint import Endpoint, ipc_address

_PATH_BYTES_MOST = 80  # the kernel's limit is 107 with the file's name


def new_private_address(name: str = "scheduler") -> str:
    """Return the address of a socket file of this name in a new folder of mode 0700."""
    parent = tempfile.gettempdir()
    if len(os.fsencode(parent)) > _PATH_BYTES_MOST:
        parent = "/tmp"  # noqa: S108 - the folder below it is made by mkdtemp
    return ipc_address(f"{tempfile.mkdtemp(prefix='scaler-', dir=parent)}/{name}")


def remove_socket(address: str) -> None:
    """Remove the socket of a process that has ended, if it has left it behind; another process may listen there now."""
    file = Endpoint.parse(address).file
    if file is None:
        return
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        if probe.connect_ex(str(file)) == errno.ECONNREFUSED:
            file.unlink(missing_ok=True)


def remove_private_place(address: str) -> None:
    """Remove the socket and the folder of an address that `new_private_address` made."""
    endpoint = Endpoint.parse(address)
    file = endpoint.file
    if file is not None:
        with contextlib.suppress(OSError):
            file.unlink(missing_ok=True)
            monitor = Endpoint.parse(endpoint.monitor_address).file
            if monitor is not None:
                monitor.unlink(missing_ok=True)
            file.parent.rmdir()
