"""Disk: the folder in which a simulated scheduler keeps jobs, with the real record and clerk, and points of crash.

It outlives schedulers. What a clerk is ordered takes time to be on disk, and its answer takes time to be read. A
scheduler dies before what it has ordered is written, before that is synced, or before it is told.
"""

from __future__ import annotations

import tempfile
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from scaler.actors.jobs.shelf import JobShelf
from scaler.jobs.clerk import Answer, Clerk, Order
from scaler.jobs.folder import JobFolder, job_places
from scaler.jobs.record import JobRecord
from scaler.kit import ActorRef

if TYPE_CHECKING:
    from tests.simulation.parties import SchedulerParty

WRITE_SECONDS = (0.0, 0.001, 0.02, 0.3)
TELL_MOST_SECONDS = 0.01
UNWRITTEN, UNSYNCED, UNTOLD = "written", "synced", "told"
IN_MEMORY = Path("/dev/shm")


class ClerkModel(Clerk):
    """The clerk of one life of the scheduler."""

    def __init__(self, party: SchedulerParty) -> None:
        super().__init__(has_thread=False)
        self._party = party
        self._is_due = False
        self._untold: deque[tuple[ActorRef, Any]] = deque()
        self.records: set[JobRecord] = set()

    def order(self, record: JobRecord | None, order: Order, answer: Answer) -> None:
        super().order(record, order, answer)
        if record is not None:
            self.records.add(record)
        if not self._is_due:
            self._is_due = True
            self._party.soon(self._write, self._party.world.random.choice(WRITE_SECONDS))

    def _write(self) -> None:
        self._is_due = False
        self.work()

    def post(self, actor: ActorRef, message: Any) -> None:
        """Have an actor told, after all that was told before."""
        self._untold.append((actor, message))
        self._party.soon(self._tell, self._party.world.random.random() * TELL_MOST_SECONDS)

    def _tell(self) -> None:
        actor, message = self._untold.popleft()
        actor.send(message)
        self._party.shell.turn()

    def crash(self) -> None:
        """The scheduler is killed. The answers of what is done here are never read."""
        point = self._party.world.random.choice((UNWRITTEN, UNSYNCED, UNTOLD))
        if self._orders:
            self._party.world.log(f"{len(self._orders)} orders of jobs are not {point}")
        if point == UNTOLD:
            self.work()
        elif point == UNSYNCED:
            with patch.object(JobRecord, "commit", JobRecord.roll_back):
                self.work()
        for record in self.records:
            record.close()


class DiskModel:
    """The disk of the machine of the scheduler."""

    def __init__(self) -> None:
        place = IN_MEMORY if IN_MEMORY.is_dir() else None
        self._place = tempfile.TemporaryDirectory(prefix="simulated-jobs-", dir=place)
        self._folder: JobFolder | None = None
        self._clerk: ClerkModel

    def shelf(self, party: SchedulerParty) -> JobShelf:
        """Return what a new scheduler finds."""
        self._folder = JobFolder(Path(self._place.name) / "jobs")
        self._clerk = ClerkModel(party)
        post: Callable[[ActorRef, Any], None] = self._clerk.post
        return JobShelf(self._folder, self._clerk, post, "nobody", 2**50)

    def crash(self) -> None:
        """The scheduler is killed."""
        if self._folder is not None:
            self._clerk.crash()
            self._folder.close()
            self._folder = None

    def problems(self) -> list[str]:
        """Return what is wrong with the records of all jobs."""
        folder = self._folder
        return [] if folder is None else [each for place in job_places(folder.path) for each in _problems_of(place)]

    def close(self) -> None:
        """Nothing is needed any more."""
        self.crash()
        self._place.cleanup()


def _problems_of(place: Path) -> list[str]:
    record = JobRecord.open(place, writing=False)
    try:
        return record.problems()
    finally:
        record.close()
