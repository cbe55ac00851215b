"""Advice: what to check when no scheduler answers.

Used by the conversation, in errors and warnings. Must never: look a name up, which may take long.
"""

from __future__ import annotations

from scaler.endpoint import Endpoint


def what_to_check(address: str) -> str:
    """Return what may be the reason that no scheduler answers at an address, as the end of a sentence."""
    runs = f"check that one runs there (scaler_scheduler {address})"
    endpoint = Endpoint.parse(address)
    if endpoint.file is not None:
        gone = "" if endpoint.file.parent.is_dir() else f"; there is no folder {endpoint.file.parent}"
        return f"{runs}, on this machine{gone}"
    name = f" knows the name {endpoint.host!r} and" if endpoint.has_name else ""
    return f"{runs} and that this machine{name} can reach it"
