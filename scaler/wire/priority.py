"""Priority: how deep a task is nested, and within that what its user wishes, as one number; the greater goes first.

A task comes before all that are less deep, whatever users wish: they wait for it, or will. The number is
`depth * STEP + wish`, so that both are 0 in most tasks, and a child has the wish of its parent unless it has its own.
"""

from __future__ import annotations

STEP = 1 << 16
LEAST, MOST = -STEP // 2, STEP // 2 - 1
"""Of a user's wish; negative: later than others of the same depth."""

DEEPEST = STEP // 2 - 1
"""Children of such a task count as no deeper."""


def depth_of(priority: int) -> int:
    """Return how deep a task of this priority is nested; 0: no other task submitted it."""
    return (priority - LEAST) // STEP


def of_child(priority: int) -> int:
    """Return the priority of what a task of this priority submits."""
    return priority + STEP if depth_of(priority) < DEEPEST else priority


def with_wish(priority: int, wish: int) -> int:
    """Return the priority at the same depth with another wish."""
    return depth_of(priority) * STEP + wish
