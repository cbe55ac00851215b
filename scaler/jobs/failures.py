"""Failures: the rule of `max_failures`, and its error text.

Used by the maps of both clients and by the scheduler, so that all three apply the same rule.
"""

from __future__ import annotations

MAX_FAILURES_IS = " failed; max_failures is "

LEAST_ENDED = 100
"""A fraction in `max_failures` is checked when this number of rows or tasks has ended, or when all have ended."""


def exceeds(max_failures: float | None, failed: int, ended: int, is_end: bool = False) -> bool:
    """Return whether too many rows or tasks have failed.

    Args:
        max_failures: how many may fail: a number, or, below 1, a fraction of `ended`; None: no limit.
        ended: how many rows or tasks have ended, including failed ones.
        is_end: whether all rows or tasks have ended.
    """
    if max_failures is None:
        return False
    if not 0 < max_failures < 1:
        return failed > max_failures
    return failed > max_failures * ended and (is_end or ended >= LEAST_ENDED)


def too_many(max_failures: float, failed: int, ended: int, what: str) -> str:
    """Return the error text for too many failures. `what`: `rows` or `tasks`."""
    most = f"{max_failures:g}" if 0 < max_failures < 1 else f"{int(max_failures):,}"
    return f"{failed:,} of {ended:,} ended {what}{MAX_FAILURES_IS}{most}"


def is_too_many(reason: str) -> bool:
    """Return whether a text was made by `too_many`."""
    return MAX_FAILURES_IS in reason
