"""Ranges of rows: the arguments of a job, serialised for its record, with the digests by which they are compared.

Used where a job is opened. The module sends nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

from scaler.client.calls.entry import Entry
from scaler.client.calls.items import UNFIT, check_item, of_item
from scaler.client.jobs.comparing.row_digests import RowDigests, range_digest
from scaler.client.jobs.comparing.shapes import PLAIN
from scaler.client.object_reference import ObjectReference
from scaler.jobs.values import RowArguments, pack_rows
from scaler.pickling.serialization import size_of
from scaler.wire.messages.common import ObjectInstruction

ROWS, BYTES = 4096, 4 * 1024 * 1024
"""Limits on the rows and the bytes of a range. A range that has reached one of them takes no further row."""


_UNCHANGING = PLAIN | {ObjectReference}
"""The classes of arguments that the user's iterable cannot change after it has yielded them."""


class PackedRange(NamedTuple):
    """A range of serialised rows, with the digests by which they are compared."""

    first: int
    n_rows: int
    digest: bytes
    """the digest of the range; empty if a row of the range cannot be compared"""
    row_digests: bytes
    block: bytes
    objects: Sequence[ObjectInstruction]


class PackedRow(NamedTuple):
    """A row that was serialised as soon as the iterable yielded it, because the iterable may change a value later."""

    item: Sequence[Any]
    digest: bytes
    trouble: str
    """the part of the row that cannot be compared; empty if all parts can"""
    block: RowArguments
    objects: Sequence[ObjectInstruction]


class RangeMaker:
    """Makes ranges of the rows of a job.

    Args:
        block_of: a function that serialises arguments that are all plain, and returns None for other arguments.
        make: a function that serialises any row, given its number and its arguments.
    """

    def __init__(
        self,
        digests: RowDigests,
        block_of: Callable[[Sequence[Any]], bytes | None],
        make: Callable[[int, Sequence[Any]], Entry],
    ) -> None:
        self._digests, self._block_of, self._make = digests, block_of, make
        self._are_made = False
        self.n_not_compared = 0
        """the number of rows, of all ranges made, that cannot be compared"""
        self.first_not_compared = (0, "")
        """the number of the first row that cannot be compared, and the incomparable part of that row"""

    def rows(self, items: Iterable[Sequence[Any]]) -> Iterator[tuple[Any, ...]]:
        """Iterate over items as rows. A row with values that the iterable may change is serialised at once."""
        is_kept = isinstance(items, (list, tuple))  # any other source may change what it has yielded
        if isinstance(items, (list, tuple)) and {*map(type, items)} <= {tuple}:
            return iter(items)
        self._are_made = True
        unchanging = _UNCHANGING.issuperset
        return (
            item if type(item) is tuple and (is_kept or unchanging(map(type, item))) else self._made(row, item, is_kept)
            for row, item in enumerate(items)
        )

    def _made(self, row: int, item: Any, is_kept: bool) -> tuple[Any, ...]:
        """Return the row for an item that is a list, or that the user's iterable may still change."""
        check_item(row, item)
        arguments = tuple(item)
        if is_kept or _UNCHANGING.issuperset(map(type, arguments)):
            return arguments
        block, objects = self._block(row, arguments)
        digest, not_compared = self._digests.of_rows((arguments,)), self._digests.not_compared
        trouble = not_compared[0][1] if not_compared else ""
        return PackedRow(
            arguments, digest, trouble, block if isinstance(block, RowArguments) else RowArguments(block), objects
        )

    def _block(self, row: int, item: Sequence[Any]) -> tuple[bytes | RowArguments, Sequence[ObjectInstruction]]:
        try:
            block = self._block_of(item)
            if block is not None:
                return block, ()
            task, _, _, objects, _ = self._make(row, item)
        except UNFIT as error:
            raise of_item(error, row) from error.__cause__
        return RowArguments(task.payload, task.object_ids, task.frames), objects

    def ranges(self, rows: Iterator[tuple[Any, ...]], first: int) -> Iterator[PackedRange]:
        """Make ranges of the remaining rows. `first`: the number of the first remaining row.

        Raises:
            TypeError: if an item is neither a tuple nor a list, or the function does not take the item.
            SerializeObjectError: if an argument cannot be serialised.
        """
        while new := self.next_range(rows, first, ROWS, BYTES):
            yield new
            first += new.n_rows

    def next_range(
        self, rows: Iterator[tuple[Any, ...]], first: int, most_rows: int, most_bytes: int
    ) -> PackedRange | None:
        """Make a range of the next rows, at most `most_rows`; None if no rows are left. Raises as `ranges`."""
        blocks: list[bytes | RowArguments] = []
        taken: list[tuple[Any, ...]] = []
        objects: list[ObjectInstruction] = []
        n_bytes = 0
        for item in islice(rows, most_rows):
            if type(item) is PackedRow:
                block: bytes | RowArguments = item.block
                needed = item.objects
            else:
                block, needed = self._block(first + len(blocks), item)
            objects += needed
            n_bytes += len(block) if isinstance(block, bytes) else len(block.payload) + size_of(block.frames)
            blocks.append(block)
            taken.append(item)
            if n_bytes > most_bytes:
                break
        if not blocks:
            return None
        digest, row_digests, not_compared = self.digests_of(taken)
        if not_compared and not self.n_not_compared:
            self.first_not_compared = first + not_compared[0][0], not_compared[0][1]
        self.n_not_compared += len(not_compared)
        return PackedRange(first, len(blocks), digest, row_digests, pack_rows(blocks), objects)

    def digests_of(self, rows: Sequence[tuple[Any, ...]]) -> tuple[bytes, bytes, list[tuple[int, str]]]:
        """Return the digest of a range, the digests of its rows, and (index, reason) of each incomparable row."""
        if PackedRow not in {*map(type, rows)}:
            return *self._digests.of_both(rows), self._digests.not_compared
        parts = [row.digest if type(row) is PackedRow else self._digests.of_rows((row,)) for row in rows]
        troubles = [(at, row.trouble) for at, row in enumerate(rows) if type(row) is PackedRow and row.trouble]
        row_digests = b"".join(parts)
        return b"" if troubles else range_digest(row_digests), row_digests, troubles

    def digest_of(self, rows: Sequence[tuple[Any, ...]]) -> bytes:
        """Return the digest of a range of rows; empty if a row of the range cannot be compared."""
        is_made = self._are_made and PackedRow in {*map(type, rows)}
        return self.digests_of(rows)[0] if is_made else self._digests.of_range(rows)


def item_of(row: tuple[Any, ...]) -> Sequence[Any]:
    """Return the arguments of a row, for display."""
    return row.item if isinstance(row, PackedRow) else row
