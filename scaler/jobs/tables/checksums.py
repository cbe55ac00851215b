"""Checksums: detection of damaged values, and the list of damaged objects and ranges.

Used by the record, which decides how to handle damage. The number of a row and its status are part of its checksum, so
a value in the place of another row also counts as damaged.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from scaler.jobs.tables.facts import Facts
from scaler.jobs.tables.schema import RecordError

SUM_BYTES = 4

SIGN = 2**31
"""A checksum minus this number is stored, because numbers in the database are signed."""

HOW_SEED = 0x9E3779B1
"""Factor of `how` (version and status of a row) in a seed: odd and large, so that the seeds of nearby rows differ."""


class DamagedError(RecordError):
    """Error for damaged or missing arguments, objects or functions. The message names what is damaged."""


def seed_of(row: int, how: int) -> int:
    """Return the initial value of the checksum of a row."""
    return row + how * HOW_SEED


def sum_of(frames: Iterable[Any], seed: int) -> bytes:
    """Return the checksum of the frames of one value."""
    for frame in frames:
        seed = zlib.crc32(frame, seed)
    return (seed & 0xFFFFFFFF).to_bytes(SUM_BYTES, "little")


def number_of(checksum: bytes) -> int:
    """Return a checksum as a signed number of 4 bytes, which SQLite writes faster than a blob."""
    return int.from_bytes(checksum, "little") - SIGN


def sums_of(value: bytes, ends: Sequence[int], row: int, how: int) -> bytes:
    """Return the checksums of consecutive packed rows. `ends`: where the first row starts, then where each row ends."""
    n_rows, seed = len(ends) - 1, seed_of(row, how)
    blocks = [value[begin:end] for begin, end in pairwise(ends)]
    return struct.pack(f"<{n_rows}I", *map(zlib.crc32, blocks, range(seed, seed + n_rows)))


class DamagedValues:
    """The names of damaged ranges and objects of a job, until they are rewritten."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self.names: set[str] = set()
        self.read()

    def read(self) -> None:
        """Read the names from disk."""
        self.names = set(json.loads(self._facts.get("damaged", "[]")))

    def note(self, names: Iterable[str]) -> None:
        """Add names of damaged ranges or objects. Within a transaction, the names are also written to disk."""
        self._set(self.names | set(names))

    def mend(self, name: str) -> None:
        """Remove the name of a rewritten range or object."""
        self._set(self.names - {name})

    def _set(self, names: set[str]) -> None:
        if names != self.names:
            self.names = names
            self._facts.set("damaged", json.dumps(sorted(names)))
