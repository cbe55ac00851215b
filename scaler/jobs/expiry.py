"""Expiry: remembers when the jobs of a folder expire, so that no record is read before its job is due.

Used by the folder of jobs, in the job writer's thread. Times are wall-clock times, which stay valid over a restart and
while the machine sleeps. Before a job is removed, its record is read again.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TypeAlias

Stamp: TypeAlias = tuple[int, int]
"""The inode number and the modification time of a record. Both change when another program writes the record."""

NEVER = float("inf")


class Expiry:
    """The times at which the jobs of a folder expire."""

    def __init__(self) -> None:
        self._due: dict[Path, float] = {}
        """when each job expires, in seconds since 1970; 0: unknown, so the record is read at the next check"""
        self._stamps: dict[Path, Stamp] = {}

    def note(self, place: Path, due: float = 0.0) -> None:
        """Note when a job expires. `due`: seconds since 1970; with 0, the next check reads the time from the record."""
        self._due[place] = due

    def drop(self, place: Path) -> None:
        """Forget a job that was removed, or cannot be removed. If its record changes, the job is checked again."""
        self._due.pop(place, None)

    def note_stamps(self, stamps: dict[Path, Stamp]) -> None:
        """Store the stamps of all present records. New, changed and removed records are read at the next check."""
        self._due.update((place, 0.0) for place, _ in stamps.items() ^ self._stamps.items())
        self._stamps = stamps

    def due(self) -> dict[Path, float]:
        """Return the expired jobs with their times, and, with the time 0, the jobs whose time is unknown."""
        now = time.time()
        return {place: due for place, due in self._due.items() if due <= now}
