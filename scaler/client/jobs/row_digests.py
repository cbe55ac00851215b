"""Row digests: hashes of rows by which they are compared in another process.

Rows of plain values are hashed as marshal writes them, all others by their description. Must never: raise because of a
value.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Sequence
from itertools import chain
from typing import Any

from scaler.client.jobs.description import Descriptions, KnownClasses, written
from scaler.client.jobs.shapes import PLAIN
from scaler.client.object_reference import ObjectReference

ROW_BYTES, RANGE_BYTES = 8, 16

NOT_COMPARED = bytes(ROW_BYTES)
"""The digest of a row that cannot be compared."""

_PARTS_MOST, _CONTAINERS_MOST, _DEPTH_MOST = 1 << 23, 1 << 17, 100
"""Plain rows have no more parts than these at one depth: each counts wherever it is met."""

_KINDS = PLAIN | {tuple, list, dict}


def are_plain(rows: Sequence[Sequence[Any]]) -> bool:
    """Return whether marshal writes equal rows in the same way in each process, and soon."""
    level: Sequence[Any] = rows
    for _ in range(_DEPTH_MOST):
        if len(level) > _CONTAINERS_MOST or sum(map(len, level)) > _PARTS_MOST:
            return False
        kinds = set(map(type, chain.from_iterable(level)))
        if kinds <= PLAIN:
            return True
        if not kinds <= _KINDS:
            return False
        inner = [each for each in chain.from_iterable(level) if type(each) not in PLAIN]
        if dict in kinds:
            dicts = [each for each in inner if type(each) is dict]
            inner = [each for each in inner if type(each) is not dict] + [each.values() for each in dicts] + dicts
        level = inner
    return False


class RowDigests:
    """Hashes of rows.

    Args:
        content_of: returns the hash of the object of a reference.
        own_modules: the modules that travel.

    Attributes:
        not_compared: the index of each row of the last call that cannot be compared, and what of it.
    """

    def __init__(
        self, content_of: Callable[[ObjectReference], bytes] | None = None, own_modules: Collection[str] = ()
    ) -> None:
        self._content_of, self._own_modules = content_of, own_modules
        self._known = KnownClasses()
        self.not_compared: list[tuple[int, str]] = []

    def of_range(self, rows: Sequence[Sequence[Any]]) -> bytes:
        """Return the hash of a range of rows; none if not all of them can be compared."""
        self.not_compared = []
        tuples = [row if type(row) is tuple else tuple(row) for row in rows]
        if are_plain(tuples):
            return hashlib.blake2b(written(tuples), digest_size=RANGE_BYTES).digest()
        return self._of_digests(self.of_rows(tuples))

    def of_both(self, rows: Sequence[Sequence[Any]]) -> tuple[bytes, bytes]:
        """Return what `of_range` and `of_rows` return, for less."""
        tuples = [row if type(row) is tuple else tuple(row) for row in rows]
        digests = self.of_rows(tuples)
        return self.of_range(tuples) if are_plain(tuples) else self._of_digests(digests), digests

    def _of_digests(self, digests: bytes) -> bytes:
        return b"" if self.not_compared else hashlib.blake2b(digests, digest_size=RANGE_BYTES).digest()

    def of_rows(self, rows: Sequence[Sequence[Any]]) -> bytes:
        """Return the hashes of rows, of 8 bytes each."""
        self.not_compared = []
        hashed, write, size = hashlib.blake2b, written, ROW_BYTES
        tuples = [row if type(row) is tuple else tuple(row) for row in rows]
        if are_plain(tuples):
            return b"".join([hashed(write(row), digest_size=size).digest() for row in tuples])
        described = Descriptions(self._own_modules, self._content_of, self._known)
        return b"".join(
            [
                hashed(write(row), digest_size=size).digest()
                if are_plain((row,))
                else self._described(described, at, row)
                for at, row in enumerate(tuples)
            ]
        )

    def _described(self, descriptions: Descriptions, index: int, row: Sequence[Any]) -> bytes:
        digest, trouble = descriptions.of_row(row)
        if trouble:
            at = next((at for at, value in enumerate(row) if descriptions.of(value)[1]), 0)
            self.not_compared.append((index, f"argument {at}: {trouble}"))
            return NOT_COMPARED
        return digest[:ROW_BYTES]
