"""JobFolder: the private folder in which a scheduler keeps its jobs, with a subfolder for each owner and job.

Opened by the scheduler, which locks it exclusively or shared, and by `scaler_jobs --file`, of which only `give`
changes it. Unreadable jobs are never deleted.
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
from scaler.jobs.names import check_job_name
from scaler.jobs.record import PART, JobRecord, JobTerms, Summary, check_folder, sync_folder
from scaler.jobs.tables.schema import RecordError
from scaler.keys.private_files import check_own, check_private_folder, make_private_folder, new_private_folder

logger = logging.getLogger(__name__)

LOCK = "lock"
"""The lock file in the folder of a job."""

LOCK_OF_ALL = ".lock"
"""The lock file in the folder of all jobs. Names of owners have no leading dot."""

IN_USE_SECONDS = 3.0
"""How long `open` waits for the lock of a job: a program that was just killed holds it for a moment longer."""

REMOVAL_SECONDS = 0.02
"""Limit of the time for which files of removed jobs are deleted in one go: changes of other jobs wait meanwhile."""

NETWORK = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "9p", "ceph", "glusterfs", "lustre", "gpfs", "beegfs", "fuse.sshfs",
     "fuse.glusterfs", "fuse.s3fs", "fuse.gcsfuse", "fuse.rclone"}
)  # fmt: skip
"""Network file systems: their locks and order of writes are too weak for SQLite."""

IN_MEMORY = frozenset({"tmpfs", "ramfs"})
"""File systems in memory, lost when the machine restarts."""

MOUNTS = Path("/proc/self/mounts")
"""A line for each file system: device, mount point (a space is `\\040`), type and more."""

_OVER = object()

UNREADABLE = (
    RecordError, sqlite3.Error, OSError, ValueError, TypeError, LookupError, ArithmeticError, AttributeError,
    RecursionError, MemoryError, struct.error,
)  # fmt: skip
"""Exceptions that a damaged record can raise: any value in it may have been replaced by any other."""


class JobFolder:
    """The jobs of one folder.

    Args:
        path: the folder, created if missing.
        is_shared: whether other schedulers use the folder at the same time; each job is open in one of them.

    Raises:
        ConfigError: if the folder cannot be created or written, is accessible to other users, is on a network file
            system, or is locked by another scheduler.
    """

    def __init__(self, path: Path, is_shared: bool = False) -> None:
        self.path = whole_path(path)
        self._is_shared = is_shared
        self._locks: dict[Path, int] = {}
        self._lock: int | None = None
        self._deletions: deque[Iterator[None]] = deque()
        """of removed jobs, the first one first"""
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
            raise ConfigError(f"another scheduler keeps its jobs in {self.path}: end it, or choose another folder")
        for part in () if self._is_shared else self.path.glob(f"*/{PART}*"):
            if not (part.is_symlink() or part.parent.is_symlink()):
                self._deletions.append(_deletion(part))  # left over from an interrupted `create` or `remove`

    def _lock_all(self) -> int | None:
        """Lock the folder against schedulers of this version and of earlier ones, whose lock file is removed: it has
        the place of the owner `lock`.
        """
        kind = fcntl.LOCK_SH if self._is_shared else fcntl.LOCK_EX
        descriptor, earlier = _locked(self.path / LOCK_OF_ALL, kind), self.path / LOCK
        if descriptor is None or not earlier.is_file():
            return descriptor
        lock = _locked(earlier, kind)
        if lock is None:
            os.close(descriptor)
            return None
        with contextlib.suppress(BlockingIOError):  # others of that version share it
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            earlier.unlink()
        os.close(lock)
        return descriptor

    def close(self) -> None:
        """Release all locks. What is left of removed jobs is deleted by the next start, or now in a shared folder."""
        while self._is_shared and self.delete_some():
            pass
        for descriptor in (*self._locks.values(), self._lock):
            if descriptor is not None:
                os.close(descriptor)
        self._locks, self._lock = {}, None

    def place_of(self, owner: str, name: str) -> Path:
        """Return the folder of a job. Raises `ConfigError` for an invalid name."""
        return self.path / check_job_name(owner) / check_job_name(name)

    def create(self, terms: JobTerms) -> JobRecord:
        """Create a job, or open the job that another program has created meanwhile, with its own terms.

        Raises:
            ConfigError: if the name is invalid, or another program has the job open.
            OSError: if the disk has no room for the job.
        """
        self._enter()
        place = self.place_of(terms.owner, terms.name)
        self._make_folder_of_owner(place)
        part = JobRecord.make(place, terms)
        lock = _locked(part / LOCK, fcntl.LOCK_EX) if self._is_shared else None  # before other programs can see it
        try:
            part.rename(place)
            sync_folder(place.parent)
        except BaseException as error:
            if lock is not None:
                os.close(lock)
            shutil.rmtree(part, ignore_errors=True)
            if isinstance(error, OSError) and error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                return self.open(place)
            raise
        if lock is not None:
            self._locks[place] = lock
        return self.open(place)

    def other_owner(self, owner: str, name: str) -> str | None:
        """Return another owner of a job of this name in a shared folder, if this owner has no such job."""
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

    def open(self, place: Path) -> JobRecord:
        """Open a job.

        Raises:
            ConfigError: if another scheduler has the job open.
            RecordError, sqlite3.Error, OSError: if the job cannot be read.
        """
        self._enter()
        check_folder(place)
        self._take(place)
        try:
            return _opened(place)
        except BaseException:  # raised again
            self._give_back(place)
            raise

    def shut(self, record: JobRecord) -> None:
        """Close a job; a closed one is left as it is."""
        record.close()
        self._give_back(record.folder)

    def remove(self, record: JobRecord) -> None:
        """Delete a job durably; `delete_some` deletes its files. If that fails, the record stays open."""
        part = record.folder.with_name(f"{PART}{os.urandom(8).hex()}")
        record.folder.rename(part)
        sync_folder(part.parent)
        record.close()
        self._deletions.append(_deletion(part))
        self._give_back(record.folder)

    def delete_some(self) -> bool:
        """Delete files of removed jobs for about `REMOVAL_SECONDS`, one at least. Return whether there are more."""
        ends_at = time.monotonic() + REMOVAL_SECONDS
        while self._deletions:
            if next(self._deletions[0], _OVER) is _OVER:
                self._deletions.popleft()
            elif time.monotonic() >= ends_at:
                break
        return bool(self._deletions)

    def give(self, record: JobRecord, owner: str) -> Summary:
        """Transfer a job to another owner by moving it to the folder of that owner. If that fails, it stays open.

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
        self._give_back(record.folder)
        return _summary_of(place)

    def _take(self, place: Path) -> None:
        if self._is_shared and place not in self._locks:
            until = time.monotonic() + IN_USE_SECONDS
            while (descriptor := _locked(place / LOCK, fcntl.LOCK_EX)) is None and time.monotonic() < until:
                time.sleep(0.05)
            if descriptor is None:
                raise ConfigError(f"the job {unquote(place.name)!r} is in use: another program has it open")
            self._locks[place] = descriptor

    def _give_back(self, place: Path) -> None:
        descriptor = self._locks.pop(place, None)
        if descriptor is not None:
            os.close(descriptor)


def _deletion(folder: Path) -> Iterator[None]:
    """Delete a folder, one file in each step. What cannot be deleted is left to a later start."""
    for place, _, files in os.walk(folder):
        for name in files:
            with contextlib.suppress(OSError):
                Path(place, name).unlink()
            yield
    shutil.rmtree(folder, ignore_errors=True)


def job_places(folder: Path) -> list[Path]:
    """Return the folders of all jobs, including unreadable ones."""
    return sorted(place for place in folder.glob("*/*/") if place.is_dir() and not place.name.startswith(PART))


def read_jobs(folder: Path) -> Iterator[tuple[Path, Summary | Exception]]:
    """Yield the summary of each job in a folder, or the error that makes it unreadable. No lock is taken.

    Raises:
        ConfigError: if `folder` is not a folder of jobs.
    """
    check_private_folder(folder, "folder of jobs")
    for place in job_places(folder):
        try:
            yield place, _summary_of(place)
        except UNREADABLE as error:
            yield place, error


def _opened(place: Path, *, writing: bool = True) -> JobRecord:
    """Open a record, owned by the owner of its folder: the job may have been transferred since it was made."""
    owner = unquote(place.parent.name)
    check_job_name(owner)
    record = JobRecord.open(place, writing=writing)
    record.belong_to(owner)
    return record


def _summary_of(place: Path) -> Summary:
    record = _opened(place, writing=False)
    try:
        return record.summary()
    finally:
        record.close()


def is_over_age(summary: Summary) -> bool:
    """Return whether a job has expired. A job that can still run without a client never expires."""
    return not summary.runs_alone and summary.changed + summary.terms.keep_seconds < time.time()


def _locked(file: Path, kind: int) -> int | None:
    """Lock a file, created if missing. Return its descriptor, or None if another process has it locked."""
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.fchmod(descriptor, 0o600)  # whatever the umask
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(descriptor), file.stat()):
            return descriptor
    except (BlockingIOError, FileNotFoundError):  # locked elsewhere, or removed with its job meanwhile
        pass
    os.close(descriptor)
    return None


def _mounts() -> dict[str, str]:
    """Return the type of the file system at each mount point."""
    if not MOUNTS.exists():  # not Linux
        import psutil  # noqa: PLC0415 - its import takes a tenth of the startup of a scheduler

        return {each.mountpoint: each.fstype for each in psutil.disk_partitions(all=True)}
    rows = (line.split() for line in MOUNTS.read_text(errors="surrogateescape").splitlines())
    return {re.sub(r"\\(\d{3})", lambda code: chr(int(code[1], 8)), place): kind for _, place, kind, *_ in rows}


def _check_local(path: Path) -> None:
    """Raise `ConfigError` if a folder is on a network file system; warn if it is in memory."""
    mounts = _mounts()
    real = path.resolve()
    for each in (real, *real.parents):
        kind = mounts.get(str(each))
        if kind in NETWORK:
            raise ConfigError(
                f"{path} is on a network file system ({kind}), where locks and the order of writes cannot be "
                "relied on: choose a folder on a disk of this machine"
            )
        if kind in IN_MEMORY:
            logger.warning("%s is in memory: a restart of this machine loses all jobs; choose a folder on a disk", path)
        if kind is not None:
            return
