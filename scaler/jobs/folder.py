"""JobFolder: the private folder in which a scheduler keeps its jobs, with a subfolder for each owner and job.

Opened by the scheduler, which locks the folder exclusively or shared, and by `scaler_jobs --file`, which only reads the
folder, except for `give`. Unreadable jobs are never deleted.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
import re
import shutil
import sqlite3
import struct
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

from scaler.config import ConfigError, whole_path
from scaler.jobs.expiry import NEVER, Expiry, Stamp
from scaler.jobs.locks import UNKNOWN, Holder, holder_of, release, take_lock
from scaler.jobs.names import check_job_name
from scaler.jobs.record import DATABASE, PART, JobRecord, JobSummary, JobTerms, check_folder, sync_folder
from scaler.jobs.tables.schema import RecordError
from scaler.keys.private_files import check_own, check_private_folder, make_private_folder, new_private_folder

logger = logging.getLogger(__name__)

LOCK = "lock"
"""Name of the lock file in the folder of a job."""

LOCK_OF_ALL = ".lock"
"""Name of the lock file in the folder of all jobs. The leading dot distinguishes it from the folders of owners."""

REMOVAL_SECONDS = 0.02
"""How long the deletion of files, or the check of records, may delay changes of other jobs before it pauses."""

LOOK_AGAIN_SECONDS = 1.0
"""The shortest time until the next check of an expired job that was in use or has just changed."""

RUN_AGAIN_SECONDS = 3600.0
"""The time until the next check of a job that should run, but is not open because its opening failed."""

NETWORK = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "9p", "ceph", "glusterfs", "lustre", "gpfs", "beegfs", "fuse.sshfs",
     "fuse.glusterfs", "fuse.s3fs", "fuse.gcsfuse", "fuse.rclone"}
)  # fmt: skip
"""Network file systems, whose locks and order of writes are too weak for SQLite."""

IN_MEMORY = frozenset({"tmpfs", "ramfs"})
"""File systems in memory, whose files are lost when the machine restarts."""

MOUNTS = Path("/proc/self/mounts")
r"""A file with a line for each file system: device, mount point (a space is `\040`), type and more."""

_OVER = object()

UNREADABLE = (
    RecordError, sqlite3.Error, OSError, ValueError, TypeError, LookupError, ArithmeticError, AttributeError,
    RecursionError, MemoryError, struct.error,
)  # fmt: skip
"""Exceptions that a damaged record can raise, because any value in the record may have been replaced."""


class JobInUseError(ConfigError):
    """Error for a job, or a folder of jobs, that another program has open; `holder` is that program."""

    def __init__(self, reason: str, holder: Holder) -> None:
        super().__init__(reason)
        self.holder = holder


class JobFolder:
    """The jobs of one folder.

    Args:
        path: the folder, created if missing.
        is_shared: whether other schedulers use the folder at the same time. Each job is open in at most one scheduler.
        holder: the program of this process, shown to other programs that find a job locked.

    Raises:
        ConfigError: if the folder cannot be created or written, is accessible to other users, is on a network file
            system, or is locked by another scheduler.
    """

    def __init__(self, path: Path, is_shared: bool = False, holder: Holder | None = None) -> None:
        self.path = whole_path(path)
        self._is_shared = is_shared
        self._holder = holder or Holder(os.getpid(), f"process {os.getpid()}")
        self._locks: dict[Path, int | None] = {}
        """the lock of each open job; None if the lock of the whole folder is enough"""
        self._lock: int | None = None
        self._expiry = Expiry()
        self._deletions: deque[Iterator[None]] = deque()
        """unfinished deletions of removed jobs, oldest first"""
        if not is_shared:
            self._enter()

    def _enter(self) -> None:
        """Create or check the folder, and lock it. A shared folder is entered when its first job is made or opened."""
        if self._lock is not None:
            return
        try:
            make_private_folder(self.path, "folder of jobs")
            sync_folder(self.path.parent)
            _check_local(self.path)
            self._lock = self._lock_all()
        except OSError as error:
            reason = f"jobs cannot be kept in {self.path}: {error.strerror}"
            raise ConfigError(f"{reason}; name a folder on a disk of this machine that you may write to") from None
        if self._lock is None:
            raise self._in_use()
        for part in () if self._is_shared else self.path.glob(f"*/{PART}*"):
            if not (part.is_symlink() or part.parent.is_symlink()):
                self._deletions.append(_deletion(part))  # left over from an interrupted `create` or `remove`

    def _in_use(self) -> JobInUseError:
        holder = holder_of(self.path / LOCK_OF_ALL)
        holder = UNKNOWN if holder.has_ended else holder  # with several programs, the file names the last one
        what = f"another scheduler keeps its jobs in {self.path}: {holder.name}"
        return JobInUseError(f"{what}. Connect to it, end it, or choose another folder", holder)

    def _lock_all(self) -> int | None:
        """Lock the folder. Return the descriptor, or None if another scheduler has locked the folder.

        Removes the lock file of earlier versions: its name is `lock`, which could also be the name of an owner's
        folder.
        """
        kind = fcntl.LOCK_SH if self._is_shared else fcntl.LOCK_EX
        descriptor, earlier = take_lock(self.path / LOCK_OF_ALL, kind, self._holder), self.path / LOCK
        if descriptor is None or not earlier.is_file():
            return descriptor
        lock = take_lock(earlier, kind)
        if lock is None:
            os.close(descriptor)
            return None
        with contextlib.suppress(BlockingIOError):  # other schedulers of that version share it
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            earlier.unlink()
        os.close(lock)
        return descriptor

    def close(self) -> None:
        """Release all locks. Files of removed jobs are deleted at the next start or, in a shared folder, now."""
        while self._is_shared and self.delete_some():
            pass
        for descriptor in (*self._locks.values(), self._lock):
            if descriptor is not None:
                release(descriptor)
        self._locks, self._lock = {}, None

    def place_of(self, owner: str, name: str) -> Path:
        """Return the folder of a job. Raises `ConfigError` for an invalid name."""
        return self.path / check_job_name(owner) / check_job_name(name)

    def create(self, terms: JobTerms, program: str = "") -> JobRecord:
        """Create a job. If another program has just created a job of this name, open that job, whose terms stay.

        Args:
            program: the program for which the job is created, shown to other programs that find the job locked.

        Raises:
            ConfigError: if the name is invalid.
            JobInUseError: if another program has the job open.
            OSError: if the disk has no room for the job.
        """
        self._enter()
        place = self.place_of(terms.owner, terms.name)
        self._make_folder_of_owner(place)
        part = JobRecord.make(place, terms)
        # It is locked before other programs can see it.
        lock = take_lock(part / LOCK, fcntl.LOCK_EX, self._named(program)) if self._is_shared else None
        try:
            part.rename(place)
            sync_folder(place.parent)
        except BaseException as error:
            if lock is not None:
                os.close(lock)
            shutil.rmtree(part, ignore_errors=True)
            if isinstance(error, OSError) and error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                return self.open(place, program)
            raise
        self._locks[place] = lock
        return self.open(place)

    def _named(self, program: str) -> Holder:
        return Holder(self._holder.pid, program or self._holder.name)

    def other_owner(self, owner: str, name: str) -> str | None:
        """Return another owner with a job of this name in a shared folder; None if `owner` has a job of this name."""
        place = self.place_of(owner, name)
        if not self._is_shared or place.is_dir():
            return None
        owners = (each.parent.name for each in job_places(self.path) if each.name == place.name)
        return next(map(unquote, owners), None)

    def _make_folder_of_owner(self, place: Path) -> None:
        with contextlib.suppress(FileExistsError):
            new_private_folder(place.parent)
            sync_folder(self.path)
        check_own(place.parent, is_folder=True)

    def open(self, place: Path, program: str = "") -> JobRecord:
        """Open a job.

        Args:
            program: as in `create`.

        Raises:
            JobInUseError: if another program has the job open. RecordError, sqlite3.Error, OSError: if the job cannot
            be read.
        """
        self._enter()
        check_folder(place)
        self._take(place, self._named(program))
        try:
            return _opened(place)
        except BaseException:  # raised again
            self._release(place)
            raise

    def read(self, place: Path) -> JobRecord:
        """Open a job for reading, even if another program has it open. Raises as `open`, except `JobInUseError`."""
        record = _opened(place, writing=False)
        record.trust()
        return record

    def in_use_error(self, place: Path) -> JobInUseError | None:
        """Return the error that `open` would raise if another program has the job open; None if no program has.

        No lock is held after this call, because the scheduler that owns the folder may be about to start again.
        """
        is_open, of_all = place in self._locks, None
        try:
            if not self.is_entered:
                of_all = take_lock(self.path / LOCK_OF_ALL, fcntl.LOCK_SH)
                if of_all is None:
                    return self._in_use()
            self._take(place)
        except JobInUseError as error:
            return error
        except FileNotFoundError:
            return None
        finally:
            if not is_open:
                self._release(place, keeps_name=True)
            if of_all is not None:
                os.close(of_all)
        return None

    @property
    def is_entered(self) -> bool:
        """Whether this program has locked the folder, so that no scheduler can lock it exclusively."""
        return self._lock is not None

    def last_holder(self, place: Path) -> Holder:
        """Return the program that has a job open or, if a scheduler was killed, that had the job open then."""
        return holder_of(place / LOCK)

    def is_own(self, holder: Holder) -> bool:
        """Return whether `holder` is this program, in which an earlier scheduler may still be ending."""
        return holder.pid == self._holder.pid

    def shut(self, record: JobRecord) -> None:
        """Close a job; repeated calls have no effect."""
        record.close()
        self._release(record.folder)
        if record.is_in_place():
            self._expiry.note(record.folder, _due(record.summary()))

    def remove(self, record: JobRecord) -> None:
        """Remove a job durably; `delete_some` deletes its files later. If the removal fails, the record stays open.

        A job whose folder is missing counts as removed.
        """
        if record.is_in_place():
            self._discard(record.folder)
        record.close()
        self._release(record.folder)

    def _discard(self, place: Path) -> None:
        part = place.with_name(f"{PART}{os.urandom(8).hex()}")
        place.rename(part)
        sync_folder(part.parent)
        self._deletions.append(_deletion(part))

    def delete_some(self) -> bool:
        """Delete one or more files of removed jobs, for about `REMOVAL_SECONDS`. Return whether files are left."""
        ends_at = time.monotonic() + REMOVAL_SECONDS
        while self._deletions:
            if next(self._deletions[0], _OVER) is _OVER:
                self._deletions.popleft()
            elif time.monotonic() >= ends_at:
                break
        return bool(self._deletions)

    def give(self, record: JobRecord, owner: str) -> JobSummary:
        """Move a job to the folder of another owner. If the transfer fails, the job stays open.

        Raises:
            ConfigError: if the owner is invalid, or has a job of that name.
            OSError: if the job cannot be moved.
        """
        place = self.path / check_job_name(owner) / record.folder.name
        if place.exists():
            raise ConfigError(f"{owner} has a job {record.terms.name!r} already")
        self._make_folder_of_owner(place)
        record.checkpoint()
        record.folder.rename(place)
        record.close()
        for each in (place, record.folder):
            sync_folder(each.parent)
        self._release(record.folder)
        self._expiry.note(place)
        return _summary_of(place)

    # Jobs that expire

    def note_jobs(self) -> None:
        """Note which jobs exist. The next `look` reads the new ones, and those that another program has changed."""
        self._expiry.note_stamps({place: stamp for place in job_places(self.path) if (stamp := _stamp_of(place))})

    def look(self) -> tuple[list[tuple[Path, JobSummary | None]], bool]:
        """Examine one or more due jobs, for about `REMOVAL_SECONDS`. Remove expired jobs, unless in use or unreadable.

        In a folder that is not shared, the first check of a job found at the start does not remove it: its program may
        be about to reconnect.

        Returns:
            the places of the examined jobs, each with the job's summary, or None if the job is gone; whether more are
            due.
        """
        found: list[tuple[Path, JobSummary | None]] = []
        ends_at = time.monotonic() + REMOVAL_SECONDS
        places = self._expiry.due()
        for at, (place, due) in enumerate(places.items(), 1):
            self._expiry.drop(place)
            if place not in self._locks:  # an open job is noted again when it is closed
                found += self._look_at(place, may_remove=bool(due) or self._is_shared)
            if time.monotonic() >= ends_at:
                return found, at < len(places)
        return found, False

    def _look_at(self, place: Path, *, may_remove: bool) -> Iterator[tuple[Path, JobSummary | None]]:
        try:
            summary = _summary_of(place) if place.is_dir() else None
        except UNREADABLE as error:
            if not self._is_shared and os.path.lexists(place):
                logger.error("the job in %s cannot be read, and stays as it is: %s", place, error)  # noqa: TRY400
            return
        if summary is not None:
            self._expiry.note(place, max(_due(summary), time.time() + LOOK_AGAIN_SECONDS))
        is_gone = summary is None or (may_remove and is_expired(summary) and self._is_removed(place))
        yield place, None if is_gone else summary

    def _is_removed(self, place: Path) -> bool:
        """Remove an expired job, unless another program has opened or changed the job. Return whether it was removed.

        Until this program has locked the folder, nothing is removed: another scheduler may own it, and start again.
        """
        if not self.is_entered:
            return False
        try:
            self._take(place)
        except (ConfigError, OSError):  # in use, most often
            return False
        try:
            if not is_expired(_summary_of(place)):
                return False
            self._discard(place)
        except UNREADABLE as error:
            self._expiry.note(place, NEVER)
            logger.error("the job in %s has expired, and cannot be removed: %s", place, error)  # noqa: TRY400
            return False
        finally:
            self._release(place, keeps_name=True)
        self._expiry.drop(place)
        logger.info("the job in %s has expired and is removed: it has not changed for the time of its keep_for", place)
        return True

    def is_used(self, place: Path) -> bool:
        """Return whether this program or another program has a job open."""
        return place in self._locks or self.in_use_error(place) is not None

    def _take(self, place: Path, holder: Holder | None = None) -> None:
        if place in self._locks:
            return
        descriptor = take_lock(place / LOCK, fcntl.LOCK_EX, holder) if self._is_shared else None
        if self._is_shared and descriptor is None:
            holder = holder_of(place / LOCK)
            raise JobInUseError(
                f"the job {unquote(place.name)!r} is in use: {holder.name} has it open. Its progress and results can "
                "be read; to change or run it, end that program, or take another name",
                holder,
            )
        self._locks[place] = descriptor

    def _release(self, place: Path, *, keeps_name: bool = False) -> None:
        descriptor = self._locks.pop(place, None)
        if descriptor is not None:
            release(descriptor, keeps_name=keeps_name)


def _deletion(folder: Path) -> Iterator[None]:
    """Delete a folder, one file in each step. A later start deletes the files that cannot be deleted now."""
    for place, _, files in os.walk(folder):
        for name in files:
            with contextlib.suppress(OSError):
                Path(place, name).unlink()
            yield
    shutil.rmtree(folder, ignore_errors=True)


def job_places(folder: Path) -> list[Path]:
    """Return the folders of all jobs, including unreadable ones."""
    return sorted(place for place in folder.glob("*/*/") if place.is_dir() and not place.name.startswith(PART))


def read_jobs(folder: Path) -> Iterator[tuple[Path, JobSummary | Exception]]:
    """Yield the summary of each job in a folder, or the error that makes it unreadable. No lock is taken.

    Raises:
        ConfigError: if `folder` is not a folder of jobs, or this user may not read it.
    """
    check_private_folder(folder, "folder of jobs")
    if not os.access(folder, os.R_OK | os.X_OK):
        raise ConfigError(f"the folder of jobs {folder} cannot be read: it belongs to another user")
    for place in job_places(folder):
        try:
            yield place, _summary_of(place)
        except UNREADABLE as error:
            if place.is_dir():  # otherwise it was removed meanwhile
                yield place, error


def _opened(place: Path, *, writing: bool = True) -> JobRecord:
    """Open a record, and set its owner to the owner of its folder, because the job may have been transferred."""
    owner = unquote(place.parent.name)
    check_job_name(owner)
    record = JobRecord.open(place, writing=writing)
    record.belong_to(owner)
    return record


def _summary_of(place: Path) -> JobSummary:
    record = _opened(place, writing=False)
    try:
        return record.summary()
    finally:
        record.close()


def expires_at(summary: JobSummary) -> float:
    """Return when a job expires, in seconds since 1970.

    A job never expires if it can run without a client, or if the time of its last change is damaged.
    """
    if summary.runs_alone or summary.changed <= 0:
        return NEVER
    return summary.changed + summary.terms.keep_seconds


def is_expired(summary: JobSummary) -> bool:
    """Return whether a job has expired."""
    return expires_at(summary) < time.time()


def _due(summary: JobSummary) -> float:
    """Return when to examine a job that is not open: when it expires or, if it should run, after a pause."""
    return time.time() + RUN_AGAIN_SECONDS if summary.runs_alone else expires_at(summary)


def _stamp_of(place: Path) -> Stamp | None:
    try:
        found = (place / DATABASE).stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def _mounts() -> dict[str, str]:
    if not MOUNTS.exists():  # not Linux
        import psutil  # noqa: PLC0415 - its import takes a tenth of the startup of a scheduler

        return {each.mountpoint: each.fstype for each in psutil.disk_partitions(all=True)}
    rows = (line.split() for line in MOUNTS.read_text(errors="surrogateescape").splitlines())
    return {re.sub(r"\\(\d{3})", lambda code: chr(int(code[1], 8)), place): kind for _, place, kind, *_ in rows}


def _check_local(path: Path) -> None:
    """Raise `ConfigError` if a folder is on a network file system. Log a warning if the folder is in memory."""
    mounts = _mounts()
    real = path.resolve()
    for each in (real, *real.parents):
        kind = mounts.get(str(each))
        if kind in NETWORK:
            raise ConfigError(
                f"{path} is on a network file system ({kind}), where locks and the order of writes are not "
                "reliable: choose a folder on a disk of this machine"
            )
        if kind in IN_MEMORY:
            logger.warning("%s is in memory: a restart of this machine loses all jobs; choose a folder on a disk", path)
        if kind is not None:
            return
