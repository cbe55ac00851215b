"""Needs: the resources that a task asks of its node; and offers, the resources that a node has.

Made by tasks from their options and by agent sessions from hellos; read by the policy. A peer may name a capability
twice: the last amount counts.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from scaler.amounts import CALL, amount_text

Amounts = tuple[tuple[str, int], ...]
"""Names and amounts, by name."""

ASKED_MOST = 64
"""Our clients ask for no more; of other clients, only the first ones count."""

_KEPT = 1024
_SHOWN_MOST = 8


class Needs(NamedTuple):
    """What a task asks for."""

    amounts: Amounts = ()
    """an amount of 0 only has to be there"""
    patience_ms: int = 0
    """it fails when for so long no connected worker could have taken it; 0: it waits"""
    worker: str = ""
    """the name of the one worker that may run it; empty: any"""

    def __str__(self) -> str:
        return in_words(self.amounts)

    @property
    def is_call(self) -> bool:
        """Whether it is for those who serve a function by its name."""
        return any(name.startswith(CALL) for name, _ in self.amounts)


class Offer(NamedTuple):
    """What a node has."""

    amounts: Amounts = ()
    workers: int = 0
    """how many workers it has: before they all have joined, it is not known how much is free"""
    named_only: bool = False
    """its workers run nothing but calls by name"""


NO_OFFER = Offer()


@lru_cache(_KEPT)
def needs_of(amounts: Amounts, patience_ms: int, worker: str = "") -> Needs | None:
    """Return the needs of a task with these options; None: any worker will do."""
    if not (amounts or patience_ms or worker):
        return None
    return Needs(tuple(sorted(dict(amounts[:ASKED_MOST]).items())), patience_ms, worker)


def in_words(amounts: Amounts) -> str:
    """Return names and amounts for a sentence."""
    shown = [f"{name}={amount_text(amount, ',')}" if amount else name for name, amount in amounts[:_SHOWN_MOST]]
    return ", ".join(shown) + f" and {len(amounts) - _SHOWN_MOST} more" * (len(amounts) > _SHOWN_MOST)
