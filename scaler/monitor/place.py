"""Where the monitor stream of a scheduler is, and whether its socket may be trusted.

Used by the viewers before each connection. In a folder that all users share, anyone may make a socket first.
"""

from __future__ import annotations

import os
from pathlib import Path

from scaler.config import ConfigError, check_address, check_reachable
from scaler.endpoint import Endpoint


def find(address: str) -> str:
    """Return the address of the monitor stream: of that stream itself, or of its scheduler.

    Raises:
        ConfigError: if it cannot be one, or the socket there belongs to another user.
    """
    check_reachable(check_address(address))
    endpoint = Endpoint.parse(address)
    beside = Endpoint.parse(endpoint.monitor_address)
    for place in (beside, endpoint):
        if place.file is not None and place.file.exists():
            _check_owner(place.file)
            return place.address
    return address


def _check_owner(file: Path) -> None:
    owner = file.stat().st_uid
    if owner not in (os.geteuid(), 0):
        raise ConfigError(
            f"{file} belongs to another user (number {owner}), who could show you anything; ask whoever runs the "
            "scheduler for its monitor address"
        )
