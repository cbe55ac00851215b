"""Where the monitor stream of a scheduler is, and whether its socket may be trusted.

Used by the viewers before each connection. In a folder that all users share, anyone may make a socket first.
"""

from __future__ import annotations

import os
from pathlib import Path

from scaler.config import ConfigError, check_address, check_reachable
from scaler.endpoint import Endpoint, ipc_address

_FOLDER = Path("/tmp")  # noqa: S108 - where existing commands have it; the owner of the socket is checked
_SUFFIX = "_monitor"


def find(address: str) -> str:
    """Return the address of the monitor stream: of that stream itself, or of its scheduler.

    Raises:
        ConfigError: if it cannot be one, or the socket there belongs to another user.
    """
    check_reachable(check_address(address))
    endpoint = Endpoint.parse(address)
    file = endpoint.file
    beside = _FOLDER / f"{endpoint.host}_{endpoint.port}{_SUFFIX}" if file is None else Path(f"{file}{_SUFFIX}")
    if beside.exists():
        return ipc_address(_trusted(beside))
    if file is not None and file.exists():
        _trusted(file)
    return address


def _trusted(file: Path) -> Path:
    owner = file.stat().st_uid
    if owner not in (os.geteuid(), 0):
        raise ConfigError(
            f"{file} belongs to another user (number {owner}), who could show you anything; ask whoever runs the "
            "scheduler for its monitor address"
        )
    return file
