"""What to look at when nothing is heard."""

from __future__ import annotations

from scaler.endpoint import Endpoint


def silence_advice(address: str, problem: str = "") -> list[str]:
    """Return lines that say what to check."""
    if problem:
        return [problem]
    lines = [
        "Is scaler_scheduler running? It prints its monitor address when it starts:",
        f"is {address} that one?",
    ]
    endpoint = Endpoint.parse(address)
    if endpoint.file is not None:
        if endpoint.file.exists():
            lines.append("Its socket is there: the scheduler may have died, or be stopped.")
        else:
            lines.append(f"There is no socket {endpoint.file}. May you enter that folder?")
    else:
        lines.append(f"Does a firewall let you reach port {endpoint.port} of {endpoint.host}?")
    return lines
