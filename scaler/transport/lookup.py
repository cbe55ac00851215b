"""Lookup: whether the host name of a scheduler can be resolved here, and whether a port of this machine is taken.

ZeroMQ also resolves the host name, with each attempt to connect, but does not report failures. A wrong name would look
like a scheduler that does not answer. A look-up may take long, and has a thread of its own.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable

from scaler.endpoint import TCP, Endpoint
from scaler.transport.binding import name_of_user

LISTENS_SECONDS = 0.1
"""The time that `listens` waits for a connection."""


class Lookup:
    """Looks up the host name of one address.

    Args:
        report: called with each new value of `problem`, in the thread of the look-up.
    """

    def __init__(self, endpoint: Endpoint, report: Callable[[str], None] | None = None) -> None:
        self._host = endpoint.host if endpoint.has_name and not endpoint.is_near else ""
        self._report = report
        self._thread: threading.Thread | None = None
        self.problem = ""
        """why the host name cannot be resolved, for people; empty if it can be resolved, or is not known yet"""

    def begin(self) -> None:
        """Start a look-up, unless the address has no host name or a look-up is running."""
        if self._host and (self._thread is None or not self._thread.is_alive()):
            self._thread = threading.Thread(target=self._look, name="scaler-lookup", daemon=True)
            self._thread.start()

    def wait(self, seconds: float) -> None:
        """Wait until a running look-up ends, at most `seconds`."""
        if self._thread is not None:
            self._thread.join(seconds)

    def _look(self) -> None:
        before, self.problem = self.problem, why_unknown(self._host)
        if self.problem not in ("", before) and self._report is not None:
            self._report(self.problem)


def listens(endpoint: Endpoint) -> bool:
    """Return whether a program accepts connections at a port of this machine; False for addresses of other machines."""
    if endpoint.scheme != TCP or not endpoint.is_near:
        return False
    try:
        socket.create_connection((endpoint.host.strip("[]"), int(endpoint.port)), LISTENS_SECONDS).close()
    except (OSError, ValueError):
        return False
    return True


def forbidden(endpoint: Endpoint) -> str:
    """Return why this user may not connect to a socket file on this machine; empty if permissions allow it."""
    if endpoint.file is None:
        return ""
    for each in (*reversed(endpoint.file.parents), endpoint.file):  # parents come first
        if not each.exists():
            return ""
        if not os.access(each, os.W_OK if each is endpoint.file else os.X_OK):
            owner = name_of_user(each.stat().st_uid)
            return (
                f"this user may not connect there: {each} belongs to {owner}. Ask {owner} for a scheduler at an "
                "address tcp://HOST:PORT, and for a key (scaler_keys allow NAME)"
            )
    return ""


def why_unknown(host: str) -> str:
    """Return why a host name cannot be resolved, and what to do about it; empty if the name can be resolved."""
    try:
        socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        return (
            f"this machine cannot resolve the host name {host!r} ({reason}): check its spelling and the DNS or "
            f"/etc/hosts of this machine (getent hosts {host}), or give an IP address"
        )
    return ""
