"""Surroundings: what a client should know of the process it is in: nothing, or that this process runs tasks.

Set once by a processor, before its first task; read by clients. It lies below both, because neither imports the other.
A process that was forked from one that runs tasks runs none itself. Must never: import anything that is not below it.
"""

from __future__ import annotations

import os

from scaler.ids import NO_ID


class Surroundings:
    """A process that runs no tasks: what clients find unless a processor says otherwise."""

    address: str | None = None
    """where the scheduler listens whose tasks are run here"""
    nest_id = NO_ID
    """what the clients of this process show the scheduler as a proof of where they are"""
    processor = 0
    """the number of this process, never used again by its agent"""

    @property
    def task(self) -> int:
        """The number of the task that is executed, from 1; 0: none."""
        return 0

    @property
    def child_priority(self) -> int:
        """The priority of tasks that are submitted now: one more than that of the task that is executed."""
        return 0


current = Surroundings()


def enter(surroundings: Surroundings) -> None:
    """Say where the clients of this process are."""
    global current  # noqa: PLW0603 - there is one process
    current = surroundings


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: enter(Surroundings()))
