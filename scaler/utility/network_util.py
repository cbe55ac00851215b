"""`get_available_tcp_port`, under its path in Scaler 1.x."""

from __future__ import annotations

import socket


def get_available_tcp_port(hostname: str = "127.0.0.1") -> int:
    """Return a TCP port that was free a moment ago.

    Another program may take it meanwhile. To be safe, start a scheduler at `tcp://127.0.0.1:*`, and read its address.
    """
    with socket.socket() as probe:
        probe.bind((hostname, 0))
        port: int = probe.getsockname()[1]
    return port
