"""Checksums: how a value that is not what was written is noticed, and where that is remembered.

Used by the record. The number of a row and how it has ended are part of a checksum, so a value that lies at another row
is damaged, too. Must never: decide what becomes of a damaged value.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from scaler.jobs.facts import Facts
from scaler.jobs.schema import RecordError

SUM_BYTES = 4

SIGN = 2**31
"""Taken from a checksum that is kept as a number, which has a sign in a database."""

HOW_SEED = 0x9E3779B1
"""Odd and large, so that rows that are near each other never begin alike because they have ended in different ways."""


class DamagedError(RecordError):
    """Arguments or a function are damaged or missing. The message names them."""


def seed_of(row: int, how: int) -> int:
    """Return the beginning of the checksum of a row."""
    return row + how * HOW_SEED


def sum_of(frames: Iterable[Any], seed: int) -> bytes:
    """Return the checksum of frames that belong together."""
    for frame in frames:
        seed = zlib.crc32(frame, seed)
    return (seed & 0xFFFFFFFF).to_bytes(SUM_BYTES, "little")


def number_of(checksum: bytes) -> int:
    """Return a checksum as a number of 4 bytes in a database: such a one is written sooner."""
    return int.from_bytes(checksum, "little") - SIGN


def sums_of(value: bytes, ends: Sequence[int], row: int, how: int) -> bytes:
    """Return the checksums of neighbours.

    Args:
        ends: where the block of each of them ends in the value, after where the first one begins.
    """
    n_rows, seed = len(ends) - 1, seed_of(row, how)
    blocks = [value[begin:end] for begin, end in pairwise(ends)]
    return struct.pack(f"<{n_rows}I", *map(zlib.crc32, blocks, range(seed, seed + n_rows)))


class Damage:
    """Which arguments and functions of a job are damaged, until they are written anew."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self.names: set[str] = set()
        self.read()

    def read(self) -> None:
        """Read what is on disk."""
        self.names = set(json.loads(self._facts.get("damaged", "[]")))

    def note(self, names: Iterable[str]) -> None:
        """Remember what is damaged; on disk, too, within a transaction."""
        self._set(self.names | set(names))

    def mend(self, name: str) -> None:
        """Forget what has been written anew."""
        self._set(self.names - {name})

    def _set(self, names: set[str]) -> None:
        if names != self.names:
            self.names = names
            self._facts.set("damaged", json.dumps(sorted(names)))
