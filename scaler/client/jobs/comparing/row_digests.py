"""Row digests: hashes by which rows are compared in another process.

Rows of plain values are hashed in the form that marshal writes, other rows by their description. The functions here
never raise an error, whatever the rows contain.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Sequence
from itertools import chain
from typing import Any

from scaler.client.jobs.comparing.description import Descriptions, KnownClasses, written
from scaler.client.jobs.comparing.shapes import PLAIN
from scaler.client.object_reference import ObjectReference

ROW_BYTES, RANGE_BYTES = 8, 16

NOT_COMPARED = bytes(ROW_BYTES)
"""The digest of a row that cannot be compared."""

_PARTS_MOST, _CONTAINERS_MOST, _DEPTH_MOST = 1 << 23, 1 << 17, 100
"""Limits up to which rows count as plain: the values in a level, the containers in a level, the levels of nesting."""

_KINDS = PLAIN | {tuple, list, dict}


def are_plain(rows: Sequence[Sequence[Any]]) -> bool:
    """Return whether marshal serialises equal rows to the same bytes in each process, in acceptable time."""
    level: Sequence[Any] = rows
    for _ in range(_DEPTH_MOST):
        kinds = set(map(type, chain.from_iterable(level)))
        if kinds <= PLAIN:
            return True
        if len(level) > _CONTAINERS_MOST or sum(map(len, level)) > _PARTS_MOST:
            return False
        if not kinds <= _KINDS:
            return False
        inner = [each for each in chain.from_iterable(level) if type(each) not in PLAIN]
        if dict in kinds:
            dicts = [each for each in inner if type(each) is dict]
            inner = [each for each in inner if type(each) is not dict] + [each.values() for each in dicts] + dicts
        level = inner
    return False


class RowDigests:
    """A hasher of rows.

    Args:
        content_of: returns the hash of the object that a reference refers to.

    Attributes:
        not_compared: (index, reason) of each row of the last call that cannot be compared.
    """

    def __init__(
        self, content_of: Callable[[ObjectReference], bytes] | None = None, own_modules: Collection[str] = ()
    ) -> None:
        self._content_of, self._own_modules = content_of, own_modules
        self._known = KnownClasses()
        self.not_compared: list[tuple[int, str]] = []

    def of_range(self, rows: Sequence[tuple[Any, ...]]) -> bytes:
        """Return the hash of a range of rows; empty if a row cannot be compared."""
        self.not_compared = []
        if are_plain(rows):
            return hashlib.blake2b(written(list(rows)), digest_size=RANGE_BYTES).digest()
        digests = self.of_rows(rows)
        return b"" if self.not_compared else range_digest(digests)

    def of_both(self, rows: Sequence[tuple[Any, ...]]) -> tuple[bytes, bytes]:
        """Return the results of `of_range` and `of_rows`, describing each value once."""
        if are_plain(rows):
            return self.of_range(rows), self.of_rows(rows)
        digests = self.of_rows(rows)
        return b"" if self.not_compared else range_digest(digests), digests

    def of_rows(self, rows: Sequence[tuple[Any, ...]]) -> bytes:
        """Return the concatenated hashes of rows, of `ROW_BYTES` bytes each."""
        self.not_compared = []
        hashed, write, size = hashlib.blake2b, written, ROW_BYTES
        if are_plain(rows):
            return b"".join([hashed(write(row), digest_size=size).digest() for row in rows])
        described = Descriptions(self._own_modules, self._content_of, self._known)
        return b"".join(
            [
                hashed(write(row), digest_size=size).digest()
                if are_plain((row,))
                else self._described(described, at, row)
                for at, row in enumerate(rows)
            ]
        )

    def _described(self, descriptions: Descriptions, index: int, row: Sequence[Any]) -> bytes:
        digest, trouble = descriptions.of_row(row)
        if trouble:
            at = next((at for at, value in enumerate(row) if descriptions.of(value)[1]), 0)
            self.not_compared.append((index, f"argument {at}: {trouble}"))
            return NOT_COMPARED
        return digest[:ROW_BYTES]


def range_digest(row_digests: bytes) -> bytes:
    """Return the digest of a range from the digests of its rows, which are not all plain."""
    return hashlib.blake2b(row_digests, digest_size=RANGE_BYTES).digest()
