"""The function of a node that is asked for and is no call: a stored object, whose value the client does not have."""

from __future__ import annotations

from typing import Any


def identity(value: Any) -> Any:
    """Return `value`."""
    return value
