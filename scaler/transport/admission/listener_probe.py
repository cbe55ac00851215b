"""Listener probe: asks the listener at an address whether it accepts peers without a key.

Used by the keyring, after a handshake has failed. ZeroMQ itself may not learn whether keys are needed: a listener with
another mechanism disconnects at once, often before its greeting has been sent.
"""

from __future__ import annotations

import socket
import threading

from scaler.endpoint import Endpoint

SIGNATURE = b"\xff" + bytes(7) + b"\x01\x7f" + b"\x03\x00"
"""The signature and version of ZMTP 3.0, which a listener answers at once with its own greeting."""
GREETING_BYTES = 64
MECHANISM = slice(12, 32)
SECONDS = 2.0


def mechanism_at(endpoint: Endpoint) -> str:
    """Return the ZMTP mechanism of a listener, such as NULL or CURVE; empty if the listener sends no mechanism."""
    greeting = b""
    try:
        with socket.create_connection((endpoint.host.strip("[]"), int(endpoint.port)), SECONDS) as probe:
            probe.sendall(SIGNATURE)
            while len(greeting) < GREETING_BYTES and (part := probe.recv(GREETING_BYTES - len(greeting))):
                greeting += part
    except (OSError, ValueError):
        return ""
    is_whole = len(greeting) == GREETING_BYTES and greeting[:1] == SIGNATURE[:1]
    return greeting[MECHANISM].rstrip(b"\0").decode("ascii", "replace") if is_whole else ""


class ListenerProbe:
    """Asks the listener at one address for its security mechanism, in a thread of its own, one request at a time."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._thread: threading.Thread | None = None
        self.mechanism = ""
        """the mechanism in the last answer; empty before the first answer"""

    def ask(self) -> None:
        """Start a request for the mechanism, unless a request is running."""
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._find_out, name="scaler-greeting", daemon=True)
            self._thread.start()

    def _find_out(self) -> None:
        self.mechanism = mechanism_at(self._endpoint)
