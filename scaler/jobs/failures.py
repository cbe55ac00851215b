"""How many rows or tasks may fail before all of them stop: the rule of `max_failures`, and its sentence.

Used by the maps of both clients and by the scheduler, which must judge alike.
"""

from __future__ import annotations

LEAST_ENDED = 100
"""A fraction counts from so many finished ones on, and when all have finished."""


def exceeds(max_failures: float | None, failed: int, ended: int, is_end: bool = False) -> bool:
    """Return whether too many have failed.

    Args:
        max_failures: how many may: a number, or, below 1, a fraction of those that have finished; None: all.
        ended: how many have finished, the failed ones among them.
        is_end: whether no others follow.
    """
    if max_failures is None:
        return False
    if not 0 < max_failures < 1:
        return failed > max_failures
    return failed > max_failures * ended and (is_end or ended >= LEAST_ENDED)


def too_many(max_failures: float, failed: int, ended: int, what: str) -> str:
    """Return why all of them stop. `what`: `rows` or `tasks`."""
    most = f"{max_failures:g}" if 0 < max_failures < 1 else f"{int(max_failures):,}"
    return f"{failed:,} of {ended:,} finished {what} failed; max_failures is {most}"
