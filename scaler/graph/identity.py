"""Identity: the function of a wanted node that is a stored object, whose value the client does not have."""

from __future__ import annotations

from typing import Any


def identity(value: Any) -> Any:
    """Return `value`."""
    return value
