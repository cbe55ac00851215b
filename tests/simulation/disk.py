"""Disk: the folder in which a simulated scheduler keeps jobs, with the real record and clerk, and points of crash.

It outlives schedulers. What a clerk is ordered takes time to be on disk, and its answer takes time to be read. A
scheduler dies before what it has ordered is written, before that is synced, or before it is told.
"""

from __future__ import annotations

import tempfile
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from errno import ENOSPC
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from scaler.actors.jobs.job_catalog import JobCatalog
from scaler.jobs.folder import JobFolder, job_places
from scaler.jobs.record import DONE, ENDED_WELL, OPEN, JobRecord
from scaler.jobs.writer import Answer, JobWriter, Order
from scaler.kit import ActorRef

if TYPE_CHECKING:
    from tests.simulation.kept import NamedJob
    from tests.simulation.parties import SchedulerParty
    from tests.simulation.record import Record

WRITE_SECONDS = (0.0, 0.001, 0.02, 0.3)
TELL_MOST_SECONDS = 0.01
UNWRITTEN, UNSYNCED, UNTOLD = "written", "synced", "told"
IN_MEMORY = Path("/dev/shm")


class _CrashError(BaseException):
    """The scheduler is gone."""


class ClerkModel(JobWriter):
    """The clerk of one life of the scheduler."""

    def __init__(self, party: SchedulerParty, disk: DiskModel) -> None:
        super().__init__(has_thread=False)
        self._disk = disk
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
        if not self._disk.fails:
            self.work()
            return
        changes: dict[JobRecord, int] = {}
        begin, commit = JobRecord.begin, JobRecord.commit

        def note(record: JobRecord) -> None:
            begin(record)
            changes[record] = record._connection.total_changes

        def fail(record: JobRecord) -> None:
            """Nothing can be written. What changes nothing is well."""
            if record._connection.total_changes != changes[record]:
                raise OSError(ENOSPC, "No space left on device")
            commit(record)

        with patch.multiple(JobRecord, begin=note, commit=fail):
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
        """The scheduler is killed. What has been answered by then may have been read; the rest never is."""
        point = self._party.world.random.choice((UNWRITTEN, UNSYNCED, UNSYNCED, UNTOLD))
        if self._orders:
            self._party.world.log(f"{len(self._orders)} orders of jobs are not {point}")
        if point == UNTOLD:
            self.work()
        elif point == UNSYNCED:
            with patch.object(JobRecord, "commit", self._crash_in), suppress(_CrashError):
                self.work()
        self.let_go()

    def _crash_in(self) -> None:
        """The scheduler dies while the disk writes. What was answered before that is read, and passed on."""
        while self._untold and self._party.runs:
            self._party.do(self._tell)
        raise _CrashError

    def let_go(self) -> None:
        """Close all records. What is not committed is lost."""
        for record in self.records:
            record.close()


class DiskModel:
    """The disk of the machine of the scheduler."""

    def __init__(self) -> None:
        place = IN_MEMORY if IN_MEMORY.is_dir() else None
        self._place = tempfile.TemporaryDirectory(prefix="simulated-jobs-", dir=place)
        self._folder: JobFolder | None = None
        self._writer: ClerkModel
        self.fails = False
        """whether nothing can be written at the moment"""

    def catalog(self, party: SchedulerParty) -> JobCatalog:
        """Return what a new scheduler finds."""
        self._folder = JobFolder(Path(self._place.name) / "jobs")
        self._writer = ClerkModel(party, self)
        post: Callable[[ActorRef, Any], None] = self._writer.post
        return JobCatalog(self._folder, self._writer, post, "nobody", 2**50)

    @property
    def is_busy(self) -> bool:
        """Whether something is to be written."""
        return self._folder is not None and bool(self._writer._orders)

    def crash(self) -> None:
        """The scheduler is killed."""
        if self._folder is not None:
            self._writer.crash()
            self._close_folder()

    def _close_folder(self) -> None:
        if self._folder is not None:
            self._writer.let_go()
            self._folder.close()
            self._folder = None

    def lacks(self, record: Record) -> list[str]:
        """Return what programs were told of jobs, and is not on disk."""
        folder = self._folder
        if folder is None:
            return []
        jobs = ((folder.place_of(*key), job) for key, job in record.jobs.items() if job.is_kept)
        return [lacks for place, job in jobs for lacks in _lacks_of(place, job, record.acknowledged)]

    def problems(self) -> list[str]:
        """Return what is wrong with the records of all jobs."""
        folder = self._folder
        return [] if folder is None else [each for place in job_places(folder.path) for each in _problems_of(place)]

    def close(self) -> None:
        """Nothing is needed any more."""
        self._close_folder()
        self._place.cleanup()


def _lacks_of(place: Path, job: NamedJob, acknowledged: set[str]) -> Iterator[str]:
    kept = JobRecord.open(place, writing=False)
    try:
        ended = b"".join(bytes(kept.ended_rows(first)) for first in sorted(kept.ranges))
        is_whole, state = kept.is_sealed and len(ended) == len(job.scripts), kept.state
    finally:
        kept.close()
    if not is_whole:
        rows = f"{len(ended)} of {len(job.scripts)} rows, " + ("sealed" if kept.is_sealed else "not sealed")
        yield f"the job {job.name} was said to be whole on disk, and has {rows}"
    if job.is_canceled and state == OPEN:
        yield f"the job {job.name} was cancelled, and is open on disk"
    if job.is_tried_again and state != OPEN and not (state == DONE and all(ended)):
        yield f"the job {job.name} was tried again, and is {state} on disk"
    for script, how in zip(job.scripts, ended, strict=False):
        if script.key in acknowledged and how != ENDED_WELL:
            yield f"row {script.key} of the job {job.name} was acknowledged, and is not on disk"


def _problems_of(place: Path) -> list[str]:
    record = JobRecord.open(place, writing=False)
    try:
        return record.problems()
    finally:
        record.close()
