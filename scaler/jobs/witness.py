"""Witness: a file beside the database of a job that says how often it was written.

A database whose log was lost, or is damaged, is whole and merely older. The witness is written after each commit and
not synced: after a power cut it may be older than the database, or rubbish, and says nothing then. If it is newer,
changes are missing that were acknowledged. Must never: keep a change from being acknowledged.
"""

from __future__ import annotations

import contextlib
import os
import struct
import zlib
from pathlib import Path

FILE = "witness"

_LAYOUT = struct.Struct("<8sQI")
"""The id of the record, the number of commits, and a checksum of both."""


class Witness:
    """The witness of one record.

    Args:
        folder: of the job.
    """

    def __init__(self, folder: Path) -> None:
        self._file = folder / FILE
        self._descriptor: int | None = None
        try:
            self._found = self._file.read_bytes()
        except OSError:
            self._found = b""

    def commits(self, record_id: bytes) -> int:
        """Return how often this record had been written when the witness was read; 0 if that is not known."""
        if len(self._found) != _LAYOUT.size:
            return 0
        n_commits = int(_LAYOUT.unpack(self._found)[1])
        return n_commits if self._found == _packed(record_id, n_commits) else 0

    def write(self, record_id: bytes, n_commits: int) -> None:
        """Note how often the record was written. What cannot be written stays older."""
        with contextlib.suppress(OSError):
            if self._descriptor is None:
                flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
                self._descriptor = os.open(self._file, flags, 0o600)
                os.fchmod(self._descriptor, 0o600)
            os.pwrite(self._descriptor, _packed(record_id, n_commits), 0)

    def close(self) -> None:
        """Close the file. Any number of times."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _packed(record_id: bytes, n_commits: int) -> bytes:
    head = struct.pack("<8sQ", record_id, n_commits)
    return head + struct.pack("<I", zlib.crc32(head))
