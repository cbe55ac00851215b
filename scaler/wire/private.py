"""Private addresses: a socket file in a folder that only its user can enter.

Used by the router. Loopback ports are open to every user of the machine, and to web pages in a browser; this is not.
"""

from __future__ import annotations

import contextlib
import os
import tempfile

from scaler.endpoint import Endpoint, ipc_address

_PATH_BYTES_MOST = 80  # the kernel's limit is 107 with the file's name


def new_private_address() -> str:
    """Return the address of a socket file in a new folder of mode 0700."""
    parent = tempfile.gettempdir()
    if len(os.fsencode(parent)) > _PATH_BYTES_MOST:
        parent = "/tmp"  # noqa: S108 - the folder below it is made by mkdtemp
    return ipc_address(f"{tempfile.mkdtemp(prefix='scaler-', dir=parent)}/scheduler")


def remove_private_place(address: str) -> None:
    """Remove the socket and the folder of an address that `new_private_address` made."""
    file = Endpoint.parse(address).file
    if file is not None:
        with contextlib.suppress(OSError):
            file.unlink(missing_ok=True)
            file.parent.rmdir()
