"""Discovery: finds the monitor stream of a scheduler.

The subscriber calls `find` before each connection. In a folder that all users share, any user may create the socket
before the scheduler does. So the socket of an untrusted user is refused here, and the user is checked again when the
connection is made.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

from scaler.config import ConfigError, check_reachable
from scaler.endpoint import TCP, Endpoint, ipc_address
from scaler.transport.binding import name_of_user
from scaler.transport.trust import why_not_trusted

FOLDER = Path("/tmp")  # noqa: S108 - as in existing commands; the listener is checked
"""The folder of the monitor sockets of schedulers that listen on TCP."""


def find(endpoint: Endpoint) -> Endpoint:
    """Return the address of a monitor stream; `endpoint`: the address of its scheduler, or of the stream itself.

    Raises:
        ConfigError: if no program can listen at this address, or an untrusted user listens there.
    """
    check_reachable(endpoint)
    for candidate in (endpoint.monitor, endpoint):
        if candidate is not None and _exists(candidate):
            is_listening = _is_listening(candidate)
            if is_listening or endpoint.file is not None:
                return candidate
    return _by_port(endpoint) or endpoint


def _by_port(endpoint: Endpoint) -> Endpoint | None:
    """Return the stream of the scheduler with this port on this machine; None unless there is exactly one."""
    if endpoint.scheme != TCP or not _is_local(endpoint.host):
        return None
    files = [file for file in FOLDER.glob(f"*_{endpoint.port}_monitor") if file.is_socket()]
    places = [Endpoint.parse(ipc_address(file)).trusting(endpoint.trust_users) for file in files]
    listening, refusals = [], []
    for place in places:
        try:
            listening += [place] * _is_listening(place)
        except ConfigError as error:
            refusals.append(error)
    if refusals and not listening:
        raise refusals[0]
    return listening[0] if len(listening) == 1 else None


def _is_local(host: str) -> bool:
    """Return whether a host is this machine: whether a socket can be bound to the host's address."""
    try:
        found = socket.getaddrinfo(host.strip("[]"), 0, type=socket.SOCK_STREAM)
        with socket.socket(found[0][0], socket.SOCK_STREAM) as probe:
            probe.bind(found[0][4])
    except (OSError, UnicodeError):  # UnicodeError: an invalid host name
        return False
    return True


def _exists(place: Endpoint) -> bool:
    """Return whether the file of a socket exists. Raise `ConfigError` if this user has no access to its folder."""
    try:
        return place.file is not None and place.file.exists()
    except PermissionError:
        raise _not_allowed(place) from None


def _not_allowed(place: Endpoint) -> ConfigError:
    assert place.file is not None
    closed = next((each for each in reversed(place.file.parents) if not os.access(each, os.X_OK)), place.file)
    try:
        owner = name_of_user(closed.stat().st_uid)
    except OSError:  # just removed
        owner = "its owner"
    return ConfigError(
        f"this user has no access to {place}: {closed} belongs to {owner}. Ask {owner} to start the scheduler with "
        "--monitor-address tcp://HOST:PORT, and for a key of the role monitor (scaler_keys allow NAME --role monitor)"
    )


def _is_listening(place: Endpoint) -> bool:
    """Return whether a process listens at a socket. A killed scheduler leaves the file of its socket behind.

    Raises:
        ConfigError: if this user may not connect, or does not trust the user who listens.
    """
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(place.file))
        except ConnectionRefusedError:
            return False
        except PermissionError:
            raise _not_allowed(place) from None
        except OSError:
            return True  # its backlog is full
        reason = why_not_trusted(place, probe)
    if reason:
        raise ConfigError(reason)
    return True
