"""Discovery: finds the monitor stream of a scheduler, and checks that its socket may be trusted.

Used by the subscriber before each connection: in a folder that all users share, anyone may make a socket first.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

from scaler.config import ConfigError, check_reachable
from scaler.endpoint import TCP, Endpoint, ipc_address

FOLDER = Path("/tmp")  # noqa: S108 - where existing commands have it; the owner of a socket is checked
"""Where the streams of schedulers are that listen on tcp."""


def find(endpoint: Endpoint) -> Endpoint:
    """Return where the monitor stream is: its own, or what its scheduler has beside it.

    Raises:
        ConfigError: if it cannot be one, or the socket there belongs to another user.
    """
    check_reachable(endpoint)
    for candidate in (endpoint.monitor, endpoint):
        file = None if candidate is None else candidate.file
        if file is not None and file.exists() and (endpoint.file is not None or _is_heard(file)):
            _check_owner(file)
            return candidate or endpoint
    return _by_port(endpoint) or endpoint


def _by_port(endpoint: Endpoint) -> Endpoint | None:
    """Return the stream of the one scheduler of this machine with that port, whatever host it was told; or None."""
    if endpoint.scheme != TCP or not _is_here(endpoint.host):
        return None
    files = [file for file in FOLDER.glob(f"*_{endpoint.port}_monitor") if file.is_socket() and _is_heard(file)]
    if len(files) != 1:
        return None
    _check_owner(files[0])
    return Endpoint.parse(ipc_address(files[0]))


def _is_here(host: str) -> bool:
    """Return whether a host is this machine. Only a machine's own addresses can be bound."""
    try:
        found = socket.getaddrinfo(host.strip("[]"), 0, type=socket.SOCK_STREAM)
        with socket.socket(found[0][0], socket.SOCK_STREAM) as probe:
            probe.bind(found[0][4])
    except (OSError, UnicodeError):  # the latter: no name can be like that
        return False
    return True


def _is_heard(file: Path) -> bool:
    """Return whether somebody listens at a socket. A scheduler that is killed leaves its file behind, and the next one
    with that port may have its stream elsewhere.
    """
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(file))
        except ConnectionRefusedError:
            return False
        except OSError:
            return True  # its owner is checked next
    return True


def _check_owner(file: Path) -> None:
    owner = file.lstat().st_uid  # a link could lead elsewhere a moment later
    if owner not in (os.geteuid(), 0):
        raise ConfigError(
            f"{file} belongs to another user (number {owner}), who could show you anything; ask whoever runs the "
            "scheduler for its monitor address"
        )
