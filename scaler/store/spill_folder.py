"""SpillFolder: the values of one store that are on disk, each in a file of its own, in a folder of mode 0700.

The folder is made with the first value, and goes with its store. It has a lock in it: those of stores that were killed
have one that nobody holds, and a later start removes them, if there is nothing in them but what a store has made.

Files are written and read, never mapped: an error of the disk under a mapping would kill the process that reads.
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
from pathlib import Path

from scaler.ids import ObjectId
from scaler.shared_memory import SharedBlock, write_at
from scaler.store.host_share import is_locked, new_locked
from scaler.wire.session.too_large import NO_LIMIT

logger = logging.getLogger(__name__)

PIECE_BYTES = 4 << 20
"""So much is written at a time, so that an agent is not busy for long."""
FREE_PART = 10
"""This part of a disk, a tenth, stays free unless a setting says how much values may take of it."""

_LOCK = "lock"
_MADE_HERE = re.compile(r"[0-9a-f]{32}|lock|\.lock\.new")
_IN_MEMORY = {"tmpfs", "ramfs"}


def is_in_memory(folder: Path) -> bool:
    """Return whether the files of a folder are in memory, and not on a disk."""
    device = folder.stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    with contextlib.suppress(OSError):  # not Linux
        for line in Path("/proc/self/mountinfo").read_text(errors="surrogateescape").splitlines():
            mount, _, system = line.partition(" - ")
            if mount.split()[2] == number:
                return system.split()[0] in _IN_MEMORY
    return False


def free_for_values(base: Path) -> int:
    """Return how many bytes more may be written so that a tenth of the disk stays free."""
    disk = os.statvfs(base)
    return max(0, (disk.f_bavail - disk.f_blocks // FREE_PART) * disk.f_frsize)


def _prefix() -> str:
    """Return how the names of folders of this user's stores on this host begin: disks may have several hosts."""
    return f"scaler-values-{os.getuid()}-{socket.gethostname().replace('/', '-')}-"


def remove_abandoned(base: Path) -> None:
    """Remove the folders that stores of this user on this host have left behind."""
    for folder in base.glob(f"{_prefix()}*"):
        with contextlib.suppress(OSError):
            if _is_abandoned(folder):
                shutil.rmtree(folder)
                logger.info("removed %s: its cluster was killed", folder)


def _is_abandoned(folder: Path) -> bool:
    """Return whether a folder was made by a store whose process is gone, and has nothing else in it."""
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
    """The files of one store.

    Args:
        base: where the folder is made.
        keeps_free: whether a tenth of the disk stays free.
    """

    def __init__(self, base: Path, keeps_free: bool) -> None:
        self.base = base
        self._keeps_free = keeps_free
        self._folder: Path | None = None
        self._lock = -1

    def free_bytes(self) -> int:
        """Return how many bytes more its disk takes, if part of that stays free.

        Raises:
            OSError: if the disk fails.
        """
        return free_for_values(self.base) if self._keeps_free else NO_LIMIT

    def begin(self, object_id: ObjectId, block: SharedBlock) -> Writing:
        """Begin to write a value.

        Raises:
            OSError: if the disk is full, or fails.
        """
        if self.free_bytes() < block.n_bytes:
            raise OSError(errno.ENOSPC, f"less than a tenth of the disk of {self.base} would stay free")
        if self._folder is None:
            folder = Path(tempfile.mkdtemp(prefix=_prefix(), dir=self.base))
            self._lock = new_locked(folder / _LOCK)
            self._folder = folder
        return Writing(self._folder / object_id.hex(), block)

    def read(self, object_id: ObjectId, block: SharedBlock, checksum: int) -> None:
        """Copy a value from its file to `block`, which has room for it.

        Raises:
            OSError: if it cannot be read, or is not what was written.
        """
        assert self._folder is not None
        descriptor = os.open(self._folder / object_id.hex(), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
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
            raise OSError(errno.EIO, f"the file of the value {object_id.hex()} is not what was written")

    def remove(self, object_id: ObjectId) -> None:
        """Remove the file of a value."""
        if self._folder is not None:
            with contextlib.suppress(OSError):
                (self._folder / object_id.hex()).unlink(missing_ok=True)

    def close(self) -> None:
        """Remove all files."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            os.close(self._lock)
            self._folder = None


class Writing:
    """A value on its way to its file.

    Attributes:
        block: the value.
        checksum: of what was written so far.
    """

    def __init__(self, file: Path, block: SharedBlock) -> None:
        self.checksum = 0
        self._file = file
        self.block = block
        self._at = block.offset
        self._descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)

    def go_on(self) -> bool:
        """Write a piece. Return whether all is written now; then this is closed.

        Raises:
            OSError: if the disk is full, or fails.
        """
        piece = self.block.memory.view()[self._at : min(self._at + PIECE_BYTES, self.block.end)]
        n_bytes = os.write(self._descriptor, piece)
        self.checksum = zlib.crc32(piece[:n_bytes], self.checksum)
        self._at += n_bytes
        if self._at < self.block.end:
            return False
        os.close(self._descriptor)
        self._descriptor = -1
        return True

    def abandon(self) -> None:
        """Remove what was written."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        with contextlib.suppress(OSError):
            self._file.unlink(missing_ok=True)
