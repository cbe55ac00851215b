"""Capabilities: the resources of a node that tasks may request, as the text in a hello: `gpu=2,licence=1`.

Written by the agent from the capabilities of its executor; read by the scheduler. Reading never raises.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from scaler.amounts import AMOUNT_MOST, amount_of, call_of, check_name

Capabilities = tuple[tuple[str, int], ...]
"""The names and amounts of the capabilities of a node, sorted by name."""


def to_text(capabilities: Mapping[str, int], functions: Iterable[str] = ()) -> str:
    """Return the text of these capabilities.

    Args:
        functions: the names of the functions that the node serves.

    Raises:
        ConfigError: if a name or an amount is invalid.
    """
    amounts = {check_name(name): amount_of(name, amount, 1) for name, amount in capabilities.items()}
    amounts |= dict.fromkeys(map(call_of, functions), 1)
    return as_text(sorted(amounts.items()))


def as_text(capabilities: Iterable[tuple[str, int]]) -> str:
    """Return the text of the capabilities that a peer has announced, without checking the names."""
    return ",".join(f"{name}={amount}" for name, amount in capabilities)


def from_text(text: str) -> Capabilities:
    """Return the capabilities in a text. Invalid capabilities are left out."""
    found: dict[str, int] = {}
    for part in text.split(","):
        name, _, amount = part.rpartition("=")
        if name and amount.isascii() and amount.isdigit() and len(amount) <= len(str(AMOUNT_MOST)):
            found[name] = min(int(amount), AMOUNT_MOST)
    return tuple(sorted((name, amount) for name, amount in found.items() if amount))
