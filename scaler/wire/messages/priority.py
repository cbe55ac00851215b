"""Priority: the depth of a task, and within a depth the user's priority, as one number. Greater numbers run first.

Deeper tasks run first, whatever priorities users choose, because less deep tasks may wait for deeper ones. The number
is `depth * STEP + user_priority`, which is 0 for most tasks. By default, a child has the user's priority of its parent.
"""

from __future__ import annotations

STEP = 1 << 16
LEAST, MOST = -STEP // 2, STEP // 2 - 1
"""The least and the greatest priority that a user can give. Within a depth, tasks with negative priorities run last."""

DEEPEST = STEP // 2 - 1
"""The greatest depth. Children of a task of this depth have the same depth."""


def depth_of(priority: int) -> int:
    """Return the nesting depth of a task with this priority. Tasks of root clients have the depth 0."""
    return (priority - LEAST) // STEP


def user_priority_of(priority: int) -> int:
    """Return the user's priority that this priority contains."""
    return priority - depth_of(priority) * STEP


def of_child(priority: int) -> int:
    """Return the default priority of the children of a task with this priority."""
    return priority + STEP if depth_of(priority) < DEEPEST else priority


def with_user_priority(priority: int, user_priority: int) -> int:
    """Return this priority with the user's part replaced; the depth stays the same."""
    return depth_of(priority) * STEP + user_priority
