"""Idle: finds the connections that stand and belong to no peer, so that they do not keep open files for ever.

Used by the scheduler's socket. A connection on which nothing was ever said, or nothing but garbage, looks like any
other to the system. Costs nothing per message. Must never: take one that has just come for idle.
"""

from __future__ import annotations

from collections.abc import Callable


class Idle:
    """The connections of one socket, by descriptor."""

    def __init__(self) -> None:
        self._standing: set[int] = set()
        self._idle: set[int] = set()
        """those that belonged to no peer at the last look, and are not closed since"""

    def open(self, descriptor: int) -> None:
        """Take a new connection."""
        self._standing.add(descriptor)
        self._idle.discard(descriptor)

    def close(self, descriptor: int) -> None:
        """A connection has ended."""
        self._standing.discard(descriptor)
        self._idle.discard(descriptor)

    def look(self, is_busy: Callable[[int], bool]) -> list[int]:
        """Return the descriptors that belonged to no peer at the last look, and belong to none now.

        Args:
            is_busy: returns whether a peer is behind a descriptor.
        """
        idle = {descriptor for descriptor in self._standing if not is_busy(descriptor)}
        over = idle & self._idle
        self._idle = idle - over
        return sorted(over)
