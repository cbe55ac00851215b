"""Needs: the resources that a task requests of its node; and offers, the resources that a node has.

Tasks make needs from their options, and agent sessions make offers from hellos. If a peer names a capability twice, the
last amount counts.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from scaler.amounts import CALL, amount_text

Amounts = tuple[tuple[str, int], ...]
"""Amounts of resources: pairs of name and amount, sorted by name."""

ASKED_MOST = 64
"""The most resources that a task may request. Further resources in a request are ignored."""

_KEPT = 1024
_SHOWN_MOST = 8


class Needs(NamedTuple):
    """The requests of a task: resources, the time to wait for a node, and the worker."""

    amounts: Amounts = ()
    """the requested resources; a node can take the task if it has at least this amount of each; 0: any amount"""
    patience_ms: int = 0
    """for how many milliseconds the task waits without an able worker before the task fails; 0: without limit"""
    worker: str = ""
    """the name of the only worker that may run the task; empty: any worker"""

    def __str__(self) -> str:
        return in_words(self.amounts)

    @property
    def is_call(self) -> bool:
        """Whether the task is a call of a function by name, so that it needs a worker that has this function."""
        return any(name.startswith(CALL) for name, _ in self.amounts)


class Offer(NamedTuple):
    """The resources of a node, and the number of its workers."""

    amounts: Amounts = ()
    workers: int = 0
    """the number of workers of the node; the free amounts are unknown until all of these workers have joined"""
    named_only: bool = False
    """whether the workers of the node run only calls by name"""


NO_OFFER = Offer()


@lru_cache(_KEPT)
def needs_of(amounts: Amounts, patience_ms: int, worker: str = "") -> Needs | None:
    """Return the needs of a task with these options; None if any worker may run it."""
    if not (amounts or patience_ms or worker):
        return None
    return Needs(tuple(sorted(dict(amounts[:ASKED_MOST]).items())), patience_ms, worker)


def in_words(amounts: Amounts) -> str:
    """Return the names and amounts of resources as text for a sentence."""
    shown = [f"{name}={amount_text(amount, ',')}" if amount else name for name, amount in amounts[:_SHOWN_MOST]]
    return ", ".join(shown) + f" and {len(amounts) - _SHOWN_MOST} more" * (len(amounts) > _SHOWN_MOST)
