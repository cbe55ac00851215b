"""Value files: the values of a job that are too large for its database, one file each.

Used by the record. A file is durable before the transaction that names it commits, and is removed after the transaction
that drops its name. Damaged files are kept.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from scaler.jobs.tables.checksums import DamagedError
from scaler.jobs.values import Frames, pack_sizes, take, unpack_sizes

_GONE = frozenset({errno.ENOENT, errno.EISDIR, errno.ENOTDIR, errno.ELOOP, errno.EIO, errno.ENXIO})
"""The error numbers of lost or unreadable files, without temporary errors such as too many open files."""

ASIDE = "aside-"
"""The prefix that the name of a directory or link gets when it stands in the place of a value file, and is renamed."""

IN_DATABASE_BYTES = 64 * 1024
"""The size of the largest values that are stored in the database."""


class ValueFiles:
    """Writes, reads and removes the files of large values of one job, in a folder that holds nothing else."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        with os.scandir(folder) as entries:
            found = {entry.name: entry.stat() for entry in entries if entry.is_file(follow_symlinks=False)}
        self.sizes = {name: each.st_size for name, each in found.items() if each.st_uid in (os.geteuid(), 0)}
        """name -> size of each regular file of this user or root; every other entry of the folder counts as damage"""
        self.total_bytes = sum(self.sizes.values())
        self._must_sync = False
        self._released: set[str] = set()
        """files to remove after the next commit; until then, the database on disk still names these files"""

    def place(self, name: str, frames: Frames) -> tuple[bytes, bytes | None]:
        """Write a value to a file if it is large. Return the sizes of its frames, and None; if it is small, the value.

        While the database on disk still names an old file with this name, even a large value is returned, not written.
        """
        sizes = pack_sizes(frames)
        size = sum(unpack_sizes(sizes))
        if size <= IN_DATABASE_BYTES or name in self._released:
            return sizes, b"".join(frames)
        self._write(name, frames)
        self._must_sync = True
        self.total_bytes += size - self.sizes.get(name, 0)
        self.sizes[name] = size
        return sizes, None

    def _write(self, name: str, frames: Iterable[Any]) -> None:
        """Write a value to a file and sync the file. A later call of `sync` makes the directory entry durable."""
        descriptor = self._opened(name)
        try:
            os.fchmod(descriptor, 0o600)
            for frame in frames:
                view = memoryview(frame).cast("B")
                while view:
                    view = view[os.write(descriptor, view) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _opened(self, name: str) -> int:
        """Open a file for writing. A directory or link with the same name is renamed."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            return os.open(name, flags, 0o600, dir_fd=self._descriptor)
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.EISDIR):
                raise
        aside = f"{ASIDE}{os.urandom(4).hex()}-{name}"
        os.rename(name, aside, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)
        return os.open(name, flags, 0o600, dir_fd=self._descriptor)

    def sync(self) -> None:
        """Sync the directory entries of all files."""
        if self._must_sync:
            os.fsync(self._descriptor)
            self._must_sync = False

    def take(self, name: str, sizes: bytes, value: bytes | None) -> Frames:
        """Return the frames of a value.

        Raises:
            DamagedError: if the value is missing, or has another length.
            OSError: if the value cannot be read at the moment.
        """
        try:
            known = unpack_sizes(sizes)
            whole = self._read(name, sum(known)) if value is None else value
            if type(whole) is not bytes:
                raise TypeError
            if len(whole) == sum(known):
                return (whole,) if len(known) == 1 else tuple(take(memoryview(whole), 0, known))
            why = f"it has {len(whole):,} bytes instead of {sum(known):,}"
        except OSError as error:
            if error.errno not in _GONE:
                raise
            why = error.strerror or str(error)
        except (TypeError, struct.error):
            why = "its database entry is damaged"
        raise DamagedError(why)

    def _read(self, name: str, size: int) -> bytes:
        """Return the content of a file. Raises `DamagedError` if the file is not regular, or not of `size` bytes."""
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=self._descriptor)
        with os.fdopen(descriptor, "rb", buffering=0) as file:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode) or found.st_uid not in (os.geteuid(), 0):
                raise DamagedError("it is not a regular file of this user")
            if found.st_size != size:
                raise DamagedError(f"it has {found.st_size:,} bytes instead of {size:,}")
            return file.readall()

    def why_damaged(self, name: str, sizes: bytes) -> str:
        """Return why a file is damaged: it is missing, or has the wrong size. Return an empty text if it is intact."""
        expected = sum(unpack_sizes(sizes)) if len(sizes) % 8 == 0 else -1
        if self.sizes.get(name) == expected:
            return ""
        has = self.sizes.get(name, "no file")
        return f"it should have {expected} bytes, and has {has}"

    def release(self, names: Iterable[str]) -> None:
        """Remove files after the next commit, which drops the names of these files from the database."""
        self._released.update(name for name in names if name in self.sizes)

    def settle(self, *, is_kept: bool) -> None:
        """End a group of changes. If it was committed (`is_kept`), remove the released files; else keep these files."""
        for name in self._released if is_kept else ():
            try:
                os.unlink(name, dir_fd=self._descriptor)
            except OSError:
                continue
            self.total_bytes -= self.sizes.pop(name)
        self._released.clear()

    def close(self) -> None:
        """Close the folder; repeated calls have no effect."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
