"""SpillFolder: the values of one store that are on disk, each in a file of its own, in a folder of mode 0700.

The folder is created with the first value, and removed when its store closes. The process of the store locks a file in
the folder. When another store opens, it removes the folders without such a lock, if they contain only files that a
store has created.

Files are written and read, never mapped, because a disk error under a mapping would kill the process that reads.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import re
import shutil
import socket
import stat
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path

from scaler.ids import ObjectId
from scaler.keys.private_files import new_private_folder
from scaler.shared_memory import SharedBlock, write_at
from scaler.store.host_share import is_locked, new_locked
from scaler.wire.session.too_large import NO_LIMIT

logger = logging.getLogger(__name__)

PIECE_BYTES = 4 << 20
"""The number of bytes written at a time, so that an agent is not busy for long."""
FREE_PART = 10
"""Unless a setting limits the spilled bytes, the disk's size divided by this number stays free."""
RETRY_SECONDS = 5.0
"""The pause before the next try to remove a file that could not be removed."""

_LOCK = "lock"
_MADE_HERE = re.compile(r"[0-9a-f]{32}|lock|\.lock\.new")
_IN_MEMORY = {"tmpfs", "ramfs"}


def is_in_memory(folder: Path) -> bool:
    """Return whether the files of a folder are in memory, not on a disk."""
    device = folder.stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    with contextlib.suppress(OSError):  # not Linux
        for line in Path("/proc/self/mountinfo").read_text(errors="surrogateescape").splitlines():
            mount, _, system = line.partition(" - ")
            if mount.split()[2] == number:
                return system.split()[0] in _IN_MEMORY
    return False


def free_for_values(base: Path) -> int:
    """Return how many more bytes may be written so that a tenth of the disk stays free."""
    disk = os.statvfs(base)
    return max(0, (disk.f_bavail - disk.f_blocks // FREE_PART) * disk.f_frsize)


def _prefix() -> str:
    """Return the prefix of the folder names of this user's stores on this host. Hosts may share a disk."""
    return f"scaler-values-{os.getuid()}-{socket.gethostname().replace('/', '-')}-"


def remove_abandoned(base: Path) -> None:
    """Remove the folders of ended stores. Only stores of this user on this host count."""
    for folder in base.glob(f"{_prefix()}*"):
        with contextlib.suppress(OSError):
            if _is_abandoned(folder):
                shutil.rmtree(folder)
                logger.info("removed %s: its cluster was killed", folder)


def _is_abandoned(folder: Path) -> bool:
    """Return whether a folder belongs to a store whose process has ended, and contains only files of that store."""
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        return False
    if not all(file.is_file() and _MADE_HERE.fullmatch(file.name) for file in folder.iterdir()):
        return False
    descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        return not is_locked(descriptor)
    finally:
        os.close(descriptor)


class SpillFolder:
    """The files of one store. The folder is accessed by its descriptor, since another program may remove or replace it.

    Args:
        base: the folder in which the folder of the store is created.
        keeps_free: whether a tenth of the disk stays free.

    Attributes:
        n_bytes: the bytes of all files, including files of removed values that are not unlinked yet.
    """

    def __init__(self, base: Path, keeps_free: bool) -> None:
        self.base = base
        self._keeps_free = keeps_free
        self._folder: Path | None = None
        self._lock = self._descriptor = -1
        self._sizes: dict[ObjectId, int] = {}
        self.n_bytes = 0
        self._removed: dict[ObjectId, None] = {}
        """removed values whose files are to be unlinked, the first removed first"""
        self._stuck: dict[ObjectId, None] = {}
        """removed values whose files could not be unlinked"""
        self._retry_at = float("-inf")

    def free_bytes(self) -> int:
        """Return how many more bytes may be written to the disk. Raises `OSError` if the disk fails."""
        return free_for_values(self.base) if self._keeps_free else NO_LIMIT

    def begin(self, object_id: ObjectId, block: SharedBlock) -> ValueWrite:
        """Start writing a value; create the folder if it is missing. Raises `OSError` if the disk is full or fails."""
        try:
            return self._begin(object_id, block)
        except FileNotFoundError:
            self._leave_removed_folder()
            return self._begin(object_id, block)

    def _begin(self, object_id: ObjectId, block: SharedBlock) -> ValueWrite:
        if self.free_bytes() < block.n_bytes:
            raise OSError(errno.ENOSPC, f"less than a tenth of the disk of {self.base} would stay free")
        if self._folder is None:
            self._make()
        if object_id in self._sizes:
            self._unlink(object_id)
        return ValueWrite(self._descriptor, object_id, block)

    def _make(self) -> None:
        folder = Path(tempfile.mkdtemp(prefix=_prefix(), dir=self.base))
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            if os.fstat(descriptor).st_uid != os.getuid():
                raise PermissionError(errno.EPERM, f"another user has put a folder in the place of {folder}")
            self._lock = new_locked(folder / _LOCK)
        except OSError:
            os.close(descriptor)
            shutil.rmtree(folder, ignore_errors=True)
            raise
        self._folder, self._descriptor = folder, descriptor

    def _leave_removed_folder(self) -> None:
        """Forget a folder that was removed. If the parent folder was removed, too, create the parent folder."""
        if self._folder is not None:
            logger.warning(
                "%s was removed by another program, with the values in it: a new folder is created", self._folder
            )
        self._close()
        if not self.base.exists():
            new_private_folder(self.base)
            if is_in_memory(self.base):
                raise OSError(
                    errno.ENODEV, f"{self.base} was removed, and its parent is in memory (tmpfs), not on a disk"
                )

    def add(self, object_id: ObjectId, n_bytes: int) -> None:
        """Count the file of a value that was written."""
        self._sizes[object_id] = n_bytes
        self.n_bytes += n_bytes

    def read(self, object_id: ObjectId, block: SharedBlock, checksum: int) -> None:
        """Copy a value from its file to `block`, which has the size of the value.

        Raises:
            OSError: if the file cannot be read, or differs from what was written.
        """
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(object_id.hex(), flags, dir_fd=self._descriptor)
        found = 0
        at = block.offset
        try:
            while data := os.read(descriptor, min(PIECE_BYTES, block.end - at)):
                found = zlib.crc32(data, found)
                write_at(block.memory.descriptor, data, at)
                at += len(data)
        finally:
            os.close(descriptor)
        if at != block.end or found != checksum:
            raise OSError(errno.EIO, f"the file of the value {object_id.hex()} differs from what was written")

    def remove(self, object_id: ObjectId) -> None:
        """Remove a value; `unlink_some` unlinks its file later. Values lost with a removed folder are ignored."""
        if object_id in self._sizes:
            self._removed[object_id] = None

    @property
    def has_removed(self) -> bool:
        """Whether files of removed values can be unlinked now."""
        return bool(self._removed)

    def unlink_some(self, now: Callable[[], float], ends_at: float) -> bool:
        """Unlink files of removed values until `ends_at`, at least one. Return whether more can be unlinked now.

        A file that cannot be unlinked is retried in calls after `RETRY_SECONDS`, and when the folder is closed.
        """
        if self._stuck and now() >= self._retry_at:
            self._removed.update(self._stuck)
        while self._removed:
            object_id = next(iter(self._removed))
            try:
                self._unlink(object_id)
            except OSError as error:
                self._postpone(object_id, error, now())
            if now() >= ends_at:
                break
        return bool(self._removed)

    def _unlink(self, object_id: ObjectId) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(object_id.hex(), dir_fd=self._descriptor)
        self._removed.pop(object_id, None)
        self._stuck.pop(object_id, None)
        self.n_bytes -= self._sizes.pop(object_id)

    def _postpone(self, object_id: ObjectId, error: OSError, now: float) -> None:
        if not self._stuck:
            text = "%s of %s cannot be removed: %s; its %s bytes still count, and removal is tried again later"
            name, size = object_id.hex(), f"{self._sizes[object_id]:,}"
            logger.warning(text, name, self._folder, error.strerror, size)
        self._removed.pop(object_id, None)
        self._stuck[object_id] = None
        self._retry_at = now + RETRY_SECONDS

    def close(self) -> None:
        """Remove the folder with all files."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            if self._folder.exists():
                logger.warning("%s cannot be removed completely: remove the rest", self._folder)
        self._close()

    def _close(self) -> None:
        if self._folder is not None:
            os.close(self._lock)
            os.close(self._descriptor)
        self._folder, self._lock, self._descriptor, self.n_bytes = None, -1, -1, 0
        for each in (self._sizes, self._removed, self._stuck):
            each.clear()


class ValueWrite:
    """Writes a value, `block`, to its file, piece by piece. `checksum`: the checksum of the bytes written so far."""

    def __init__(self, folder: int, object_id: ObjectId, block: SharedBlock) -> None:
        """Create the file. `folder`: the descriptor of the folder for the file."""
        self.checksum = 0
        self._folder, self._name = folder, object_id.hex()
        self.block = block
        self._at = block.offset
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self._descriptor = os.open(self._name, flags, 0o600, dir_fd=folder)

    def write_piece(self) -> bool:
        """Write a piece of the value. Return whether the whole value is written; the file is then closed.

        Raises:
            OSError: if the disk is full or fails, or if another program has removed the file.
        """
        piece = self.block.memory.view()[self._at : min(self._at + PIECE_BYTES, self.block.end)]
        n_bytes = os.write(self._descriptor, piece)
        self.checksum = zlib.crc32(piece[:n_bytes], self.checksum)
        self._at += n_bytes
        if self._at < self.block.end:
            return False
        is_removed = not os.fstat(self._descriptor).st_nlink
        os.close(self._descriptor)
        self._descriptor = -1
        if is_removed:
            raise FileNotFoundError(errno.ENOENT, f"another program has removed the file {self._name}")
        return True

    def abandon(self) -> None:
        """Stop writing the value, and remove the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        with contextlib.suppress(OSError):
            os.unlink(self._name, dir_fd=self._folder)
