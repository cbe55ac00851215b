"""Private addresses: a socket file in a folder that only its user can enter.

Used by the router. Loopback ports are open to every user of the machine, and to web pages in a browser; this is not.
"""

from __future__ import annotations

import contextlib
import os
import socket
import tempfile
from pathlib import Path

ANYWHERE = "ipc://*"
"""The address that stands for a new private place."""

LOCAL = ANYWHERE if hasattr(socket, "AF_UNIX") else "tcp://127.0.0.1:*"
"""Where the scheduler of a local cluster listens."""

_PATH_BYTES_MOST = 80  # the kernel's limit is 107 with the file's name


def new_private_address() -> str:
    """Return an `ipc://` address in a new folder of mode 0700."""
    parent = tempfile.gettempdir()
    if len(os.fsencode(parent)) > _PATH_BYTES_MOST:
        parent = "/tmp"  # noqa: S108 - the folder below it is made by mkdtemp
    return f"ipc://{tempfile.mkdtemp(prefix='scaler-', dir=parent)}/scheduler"


def remove_private_place(address: str) -> None:
    """Remove the socket and the folder of an address that `new_private_address` made."""
    path = Path(address.removeprefix("ipc://"))
    if address != ANYWHERE and address.startswith("ipc://"):
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
            path.parent.rmdir()
