"""Greeting: asks what listens at an address whether it lets in peers without a key.

ZeroMQ itself may not get to say it: a listener that wants another mechanism hangs up at once, often before its own
greeting has left.

Used by the keyring, after a handshake has failed. Must never: be asked in a thread that must not wait.
"""

from __future__ import annotations

import socket
import threading

from scaler.endpoint import Endpoint

SIGNATURE = b"\xff" + bytes(7) + b"\x01\x7f" + b"\x03\x00"
"""That of ZMTP 3.0, and its version: a listener answers it with its own greeting, without waiting for the rest."""
GREETING_BYTES = 64
MECHANISM = slice(12, 32)
SECONDS = 2.0


def mechanism_at(endpoint: Endpoint) -> str:
    """Return the mechanism of ZMTP that a listener asks for, such as NULL or CURVE; empty if it says none."""
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
    """What listens at one address, asked in a thread of its own, one at a time."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._thread: threading.Thread | None = None
        self.mechanism = ""
        """as the last answer was; empty: there was none yet"""

    def ask(self) -> None:
        """Find out again."""
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._find_out, name="scaler-greeting", daemon=True)
            self._thread.start()

    def _find_out(self) -> None:
        self.mechanism = mechanism_at(self._endpoint)
