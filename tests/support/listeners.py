"""The TCP listeners of our commands and programs, and whether they require a key."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path

from scaler.endpoint import Endpoint
from scaler.transport.admission.listener_probe import mechanism_at

LISTEN = "0A"
WITHOUT_KEYS = ("NULL", "PLAIN")
NOTES = "NOTES_OF_LISTENERS"
"""environment variable with the file in which a program notes each of its listeners and the mechanism of that one"""


def listening() -> dict[str, int]:
    """Return the ports of all listeners of this host, by the inodes of their sockets."""
    found = {}
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(FileNotFoundError):
            for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
                _, local, _, state, *_, inode = line.split()[:10]
                if state == LISTEN:
                    found[inode] = int(local.rpartition(":")[2], 16)
    return found


def listeners(pids: Iterable[int], inodes: dict[str, int] | None = None) -> dict[str, str]:
    """Return the mechanism of each listener, by address. NULL and PLAIN need no key; empty: it speaks no ZMTP."""
    inodes = listening() if inodes is None else inodes
    found = {}
    for pid in pids if inodes else ():
        with contextlib.suppress(OSError):  # it has ended
            for descriptor in Path(f"/proc/{pid}/fd").iterdir():
                with contextlib.suppress(OSError):
                    port = inodes.get(str(descriptor.readlink()).removeprefix("socket:[").removesuffix("]"))
                    if port is not None:
                        address = f"tcp://127.0.0.1:{port}"
                        found[address] = mechanism_at(Endpoint.parse(address))
    return found


def check(found: dict[str, str], what: str) -> None:
    """Check that no listener accepts peers without a key. Raises `AssertionError` about those that do."""
    open_ones = [address for address, mechanism in found.items() if mechanism in WITHOUT_KEYS]
    assert not open_ones, f"{what} accepts peers without a key at {open_ones}"
