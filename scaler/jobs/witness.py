"""Witness: a file that holds the number of commits of a job's database, to detect lost commits.

Used by the record. A database that has lost its write-ahead log looks intact, but older. The witness is written after
each commit, but not synced. So it is ignored if it is unreadable, or older than the database. A witness newer than the
database proves that acknowledged changes are missing. A failed write is ignored.
"""

from __future__ import annotations

import contextlib
import os
import struct
import zlib
from pathlib import Path

FILE = "witness"

_LAYOUT = struct.Struct("<8sQI")
"""The content of a witness: the id of the record, the number of commits, and a checksum of both."""


class Witness:
    """Reads and writes the witness of one record."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / FILE
        self._descriptor: int | None = None
        try:
            descriptor = os.open(self._file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                self._found = os.read(descriptor, _LAYOUT.size + 1)
            finally:
                os.close(descriptor)
        except OSError:
            self._found = b""

    def commits(self, record_id: bytes) -> int:
        """Return the number of commits of this record when the witness was opened; 0 if unknown."""
        if len(self._found) != _LAYOUT.size:
            return 0
        n_commits = int(_LAYOUT.unpack(self._found)[1])
        return n_commits if self._found == _packed(record_id, n_commits) else 0

    def write(self, record_id: bytes, n_commits: int) -> None:
        """Write the number of commits. If that fails, the witness keeps the earlier number, and no error is raised."""
        with contextlib.suppress(OSError):
            if self._descriptor is None:
                flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
                self._descriptor = os.open(self._file, flags, 0o600)
                os.fchmod(self._descriptor, 0o600)
            os.pwrite(self._descriptor, _packed(record_id, n_commits), 0)

    def close(self) -> None:
        """Close the file; repeated calls have no effect."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _packed(record_id: bytes, n_commits: int) -> bytes:
    head = struct.pack("<8sQ", record_id, n_commits)
    return head + struct.pack("<I", zlib.crc32(head))
