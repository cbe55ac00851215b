"""Ranges of rows: the arguments of a job as they travel to its record, and the hashes by which they are compared.

Used where a job is made, and where a program comes back to one. Must never: send anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

from scaler.client.calls.entry import Entry
from scaler.client.calls.items import UNFIT, check_item, of_item
from scaler.client.jobs.row_digests import RowDigests
from scaler.jobs.values import Row, pack_rows
from scaler.pickling.serialization import size_of
from scaler.wire.messages.common import ObjectInstruction

ROWS, BYTES = 4096, 4 * 1024 * 1024
"""The most rows of a range, and the most bytes, unless a row alone has more."""


class NewRange(NamedTuple):
    """Rows that are not at the scheduler yet."""

    first: int
    n_rows: int
    digest: bytes
    block: bytes
    objects: Sequence[ObjectInstruction]
    """that these rows need"""


def compare(items: Iterator[Sequence[Any]], ranges: Iterable[tuple[int, int, str]], is_sealed: bool) -> tuple[str, int]:
    """Compare the rows of a program with those of a job.

    Args:
        ranges: first row, number of rows and hash of each that the job has.
        is_sealed: whether it has no others.

    Returns: what differs, and how many rows are known, but could not be compared.
    """
    n_unknown = 0
    digests = RowDigests()
    for first, n_rows, digest in ranges:
        here = list(islice(items, n_rows))
        if len(here) < n_rows:
            return f"it has {first + len(here)} rows now, and had more", 0
        now = digests.of_range(here)
        if now and digest and now.hex() != digest:
            return f"of its rows {first} to {first + n_rows - 1}, at least one has other arguments", 0
        n_unknown += 0 if now and digest else n_rows
    if is_sealed and next(items, items) is not items:
        return "it has more rows now than it had", 0
    return "", n_unknown


def new_ranges(
    items: Iterator[Sequence[Any]],
    first: int,
    block_of: Callable[[Sequence[Any]], bytes | None],
    make: Callable[[int, Sequence[Any]], Entry],
) -> Iterator[NewRange]:
    """Make ranges of the remaining rows.

    Args:
        first: the number of the next row.
        block_of: returns the arguments of a call that are plain, as bytes.
        make: makes any call of a row ready to be sent.

    Raises:
        TypeError: if an item is neither a tuple nor a list, or the function does not take it.
        SerializeObjectError: if an argument cannot be serialised.
    """
    digests = RowDigests()
    while True:
        rows: list[bytes | Row] = []
        taken: list[Any] = []
        objects: list[ObjectInstruction] = []
        n_bytes = 0
        for item in islice(items, ROWS):
            row = first + len(rows)
            if type(item) is not tuple:
                check_item(row, item)
            try:
                block: bytes | Row | None = block_of(item)
                if block is None:
                    task, _, _, needed, _ = make(row, item)
                    n_bytes += size_of(task.frames)
                    objects += needed
                    block = Row(task.payload, task.object_ids, task.frames)
            except UNFIT as error:
                raise of_item(error, row) from error.__cause__
            rows.append(block)
            taken.append(item)
            n_bytes += len(block) if isinstance(block, bytes) else len(block.payload)
            if n_bytes > BYTES:
                break
        if not rows:
            return
        yield NewRange(first, len(rows), digests.of_range(taken), pack_rows(rows), objects)
        first += len(rows)
