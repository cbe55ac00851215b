"""Capabilities: the resources of a node that tasks may ask for, as the text of a hello: `gpu=2,licence=1`.

Written by the agent from what its executor says; read by the scheduler. Must never: raise for the text of a peer.
"""

from __future__ import annotations

from collections.abc import Mapping

from scaler.config import ConfigError

AMOUNT_MOST = 2**31 - 1

Capabilities = tuple[tuple[str, int], ...]
"""Names and amounts, by name."""


def to_text(capabilities: Mapping[str, int]) -> str:
    """Return the text of these capabilities.

    Raises:
        ConfigError: if a name is empty or has a comma or an equals sign, or an amount is no whole number above 0.
    """
    for name, amount in capabilities.items():
        if not name or "," in name or "=" in name:
            raise ConfigError(f"the name of a capability must not be empty, nor have ',' or '=' in it: {name!r}")
        if type(amount) is not int or not 0 < amount <= AMOUNT_MOST:
            raise ConfigError(f"the amount of the capability {name} must be a whole number above 0, not {amount!r}")
    return ",".join(f"{name}={amount}" for name, amount in sorted(capabilities.items()))


def from_text(text: str) -> Capabilities:
    """Return the capabilities that a text names. What is none is left out."""
    found: dict[str, int] = {}
    for part in text.split(","):
        name, _, amount = part.rpartition("=")
        if name and amount.isascii() and amount.isdigit() and len(amount) <= len(str(AMOUNT_MOST)):
            found[name] = min(int(amount), AMOUNT_MOST)
    return tuple(sorted((name, amount) for name, amount in found.items() if amount))
