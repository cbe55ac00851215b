"""Report: what the actors of the scheduler say of themselves when somebody asks what they do.

The tree hands one to its parts, and each actor adds its counts. Must never: be kept by an actor.
"""

from __future__ import annotations


class Report:
    """Counts of actors, by the kind of the actor, in the order in which they answered."""

    def __init__(self) -> None:
        self._by_kind: dict[str, list[tuple[str, dict[str, int]]]] = {}

    def add(self, kind: str, name: str, counts: dict[str, int]) -> None:
        """Say what one actor has, under the name that users know it by."""
        self._by_kind.setdefault(kind, []).append((name, counts))

    def of(self, kind: str) -> list[tuple[str, dict[str, int]]]:
        """Return name and counts of all actors of a kind that have answered."""
        return self._by_kind.get(kind, [])

    def total(self, kind: str, what: str) -> int:
        """Return the sum of one count over all actors of a kind."""
        return sum(counts[what] for _, counts in self.of(kind))
