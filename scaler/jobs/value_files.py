"""Value files: values of a job that are too large for its database, each in a file.

Used by the record. A file is whole and on disk, its name too, before the row that names it is written, and is there as
long as a row on disk names it. Must never: delete what cannot be read.
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from scaler.jobs.checksums import DamagedError
from scaler.jobs.values import Frames, pack_sizes, take, unpack_sizes

_GONE = frozenset({errno.ENOENT, errno.EISDIR, errno.ENOTDIR, errno.ELOOP, errno.EIO, errno.ENXIO})
"""Errors that say that a file is gone or cannot be read any more, and not, say, that too many are open."""

IN_DATABASE_BYTES = 64 * 1024
"""Values up to this size are in the database."""


class ValueFiles:
    """The large values of one job.

    Args:
        folder: for them alone; it is there.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        with os.scandir(folder) as entries:
            self.sizes = {entry.name: entry.stat().st_size for entry in entries}
        """of all files, by name"""
        self.total_bytes = sum(self.sizes.values())
        self._must_sync = False
        self._left: set[str] = set()
        """files that no row names after the next commit, and that rows on disk name until then"""

    def place(self, name: str, frames: Frames) -> tuple[bytes, bytes | None]:
        """Return sizes and value for the database; a value that is too large for it goes to a file.

        While a row on disk names the file, its next value is in the database, whatever its size.
        """
        sizes = pack_sizes(frames)
        size = sum(unpack_sizes(sizes))
        if size <= IN_DATABASE_BYTES or name in self._left:
            return sizes, b"".join(frames)
        self._write(name, frames)
        self._must_sync = True
        self.total_bytes += size - self.sizes.get(name, 0)
        self.sizes[name] = size
        return sizes, None

    def _write(self, name: str, frames: Iterable[Any]) -> None:
        """Write a value. The file is on disk when this returns, its name after `sync`."""
        descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600, dir_fd=self._descriptor)
        try:
            os.fchmod(descriptor, 0o600)
            for frame in frames:
                view = memoryview(frame).cast("B")
                while view:
                    view = view[os.write(descriptor, view) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def sync(self) -> None:
        """Have the names of all files on disk."""
        if self._must_sync:
            os.fsync(self._descriptor)
            self._must_sync = False

    def take(self, name: str, sizes: bytes, value: bytes | None) -> Frames:
        """Return the frames of a value.

        Raises:
            DamagedError: if it is not there, or has another length.
            OSError: if it cannot be read now.
        """
        try:
            whole = (self.folder / name).read_bytes() if value is None else value
            known = unpack_sizes(sizes)
            if type(whole) is not bytes:
                raise TypeError
            if len(whole) == sum(known):
                return (whole,) if len(known) == 1 else tuple(take(memoryview(whole), 0, known))
            why = f"it has {len(whole):,} bytes of {sum(known):,}"
        except OSError as error:
            if error.errno not in _GONE:
                raise
            why = error.strerror or str(error)
        except (TypeError, struct.error):
            why = "its place in the database is damaged"
        raise DamagedError(why)

    def why_damaged(self, name: str, sizes: bytes) -> str:
        """Return what is wrong with a file by its size alone; nothing: it has the right one."""
        expected = sum(unpack_sizes(sizes)) if len(sizes) % 8 == 0 else -1
        if self.sizes.get(name) == expected:
            return ""
        has = self.sizes.get(name, "no file, so none")
        return f"it should have {expected} bytes, and has {has}"

    def leave(self, names: Iterable[str]) -> None:
        """Remove files after the next commit: no row names them any more."""
        self._left.update(name for name in names if name in self.sizes)

    def settle(self, *, is_kept: bool) -> None:
        """Remove what was left, if the changes are on disk; else rows name it still."""
        for name in self._left if is_kept else ():
            try:
                os.unlink(name, dir_fd=self._descriptor)
            except OSError:
                continue
            self.total_bytes -= self.sizes.pop(name)
        self._left.clear()

    def close(self) -> None:
        """Close the folder. Any number of times."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
