"""Rows: calls of one function that travel as one task (a range), and how rows are cut out of a range.

A **row** is one call of a map. The field `rows` of a task is the number of its rows. Rows of a task have consecutive
ids: 8 bytes of the map, and the number of the row. The payload of the task is a table of lengths and a block for each
row, so that blocks can be cut out without being decoded. The frames of the task are the frames of all rows; each row
has the same number of frames.

When something happens to a single row, the range **ends early**. Its result then covers the rows that are done. At
most one row, the one that runs, stays where it is, as a task of its own with the same attempt. The scheduler opens the
remaining rows again.

Used by clients, scheduler, agents and processors. This module decodes no block.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from scaler.ids import PREFIX_BYTES, TaskId, index_of
from scaler.pickling.serialization import Frames
from scaler.wire.messages.client import Task, TaskResult
from scaler.wire.messages.columns import ROWS_MOST
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.worker import RunResult, RunTask

RANGE_BYTES = 512 * 1024
"""A range gets no further rows when its arguments have this size."""

_RANGE_US = 5_000
"""The limit on the expected run time of a range. Clients take turns by ranges: a long range delays other clients."""

_SHORT_US = 1_000
"""A range with a shorter expected run time need not shrink towards the end of a map."""

_TAIL = 32
"""Unless rows are short, a range has at most the remaining rows divided by this, so that all workers end together."""

_LEAST_MEAN_US = 0.5

_END = 2**64


def rows_together(most: int, mean_us: float, left: int) -> int:
    """Return how many rows of a map travel as the next task.

    Args:
        most: the most rows of a task.
        mean_us: the mean run time of a row in microseconds.
        left: the number of remaining rows of the map.
    """
    mean_us = max(mean_us, _LEAST_MEAN_US)
    even = max(left // _TAIL, int(_SHORT_US / mean_us))
    return max(1, min(most, left, int(_RANGE_US / mean_us), even))


Call = TypeVar("Call", Task, RunTask)
Result = TypeVar("Result", RunResult, TaskResult)


class RowsError(ValueError):
    """Error for bytes that do not encode the given number of rows."""


def pack(blocks: Sequence[bytes]) -> bytes:
    """Return the payload of a range, made of the blocks of its rows."""
    return struct.pack(f"<{len(blocks)}I", *map(len, blocks)) + b"".join(blocks)


def lengths(payload: bytes, rows: int) -> tuple[int, ...]:
    """Return the length of each block in the payload of a range.

    Raises:
        RowsError: if the payload does not have this number of rows.
    """
    if not 0 < rows <= ROWS_MOST or len(payload) < 4 * rows:
        raise RowsError(f"a range of {rows:,} rows cannot have {len(payload):,} bytes")
    sizes = struct.unpack_from(f"<{rows}I", payload)
    if 4 * rows + sum(sizes) != len(payload):
        raise RowsError(f"the lengths of {rows:,} rows do not add up to their {len(payload):,} bytes")
    return sizes


def unpack(payload: bytes, rows: int) -> list[bytes]:
    """Return the block of each row.

    Raises:
        RowsError: if the payload does not have this number of rows.
    """
    blocks, offset = [], 4 * rows
    for size in lengths(payload, rows):
        blocks.append(payload[offset : offset + size])
        offset += size
    return blocks


def row_id(first: bytes, row: int) -> TaskId:
    """Return the id of a row of the range that begins with `first`."""
    number = (index_of(first) + row) % _END
    return TaskId(first[:PREFIX_BYTES] + number.to_bytes(8, "big"))


def row_ids(first: bytes, rows: int) -> list[TaskId]:
    """Return the ids of all rows of a range, or the id of a single task."""
    if not rows:
        return [TaskId(first)]
    prefix, number = first[:PREFIX_BYTES], index_of(first)
    if number + rows > _END:  # a peer may send impossible rows; `flaw_of` refuses the task
        return [row_id(first, row) for row in range(rows)]
    return [TaskId(prefix + each.to_bytes(8, "big")) for each in range(number, number + rows)]


def row_of(item: Task | RunTask, task_id: bytes) -> int | None:
    """Return the number of the row with this id in a range; None if the range has no such row."""
    if not item.rows or item.task_id[:PREFIX_BYTES] != task_id[:PREFIX_BYTES]:
        return None
    row = index_of(task_id) - index_of(item.task_id)
    return row if 0 <= row < item.rows else None


def flaw_of(spec: Task | RunTask, suits_rows: bool) -> str:
    """Return why a range from a peer is invalid; empty if the range is valid.

    Args:
        suits_rows: whether the options of the range are allowed for ranges.
    """
    if spec.object_ids or not suits_rows:
        return "a task of many rows may have no objects, and no options other than retries, a time limit and a seed"
    if len(spec.frames) % spec.rows:
        return f"its {len(spec.frames):,} frames cannot be divided evenly among {spec.rows:,} rows"
    if index_of(spec.task_id) + spec.rows > _END:
        return "the ids of its rows are out of range"
    try:
        lengths(spec.payload, spec.rows)
    except RowsError as error:
        return str(error)
    return ""


def frames_of(item: Task | RunTask) -> list[Frames]:
    """Return the frames of each row."""
    each = len(item.frames) // item.rows
    if not each:
        return [()] * item.rows
    return [item.frames[row * each : row * each + each] for row in range(item.rows)]


def part_of(item: Call, first: int, rows: int) -> Call:
    """Return `rows` consecutive rows of a range, from row number `first` on, as a range; one row as a single task."""
    sizes = lengths(item.payload, item.rows)
    begin = 4 * item.rows + sum(sizes[:first])
    body = item.payload[begin : begin + sum(sizes[first : first + rows])]
    payload = body if rows == 1 else struct.pack(f"<{rows}I", *sizes[first : first + rows]) + body
    each = len(item.frames) // item.rows
    frames = item.frames[first * each : (first + rows) * each]
    first_id = row_id(item.task_id, first)
    return replace(item, task_id=first_id, payload=payload, frames=frames, rows=rows if rows > 1 else 0)


def calls_of(item: Call) -> list[Call]:
    """Return the rows of a range as single tasks. A single task is returned unchanged."""
    if not item.rows:
        return [item]
    blocks = unpack(item.payload, item.rows)
    rows = zip(row_ids(item.task_id, item.rows), blocks, frames_of(item), strict=True)
    return [replace(item, task_id=each, payload=block, frames=frames, rows=0) for each, block, frames in rows]


def results_of(result: Result) -> list[Result]:
    """Return the results of rows as results of single tasks. A single result is returned unchanged.

    Raises:
        RowsError: if payload or statuses do not match the number of rows.
    """
    rows = result.rows
    if not rows:
        return [result]
    least_us, left_us = divmod(result.duration_us, rows)
    ids = [(each, least_us + (row < left_us)) for row, each in enumerate(row_ids(result.task_id, rows))]
    if result.status != TaskStatus.SUCCESS:
        return [replace(result, task_id=each, rows=0, duration_us=duration_us) for each, duration_us in ids]
    blocks = unpack(result.payload, rows)
    statuses = result.statuses or bytes(rows)
    if len(statuses) != rows or max(statuses) > max(TaskStatus):
        raise RowsError(f"{len(statuses):,} bytes are not the statuses of {rows:,} rows")
    whole = replace(result, rows=0, statuses=b"")
    return [
        replace(whole, task_id=each, payload=block, status=status, duration_us=duration_us)
        for (each, duration_us), block, status in zip(ids, blocks, statuses, strict=True)
    ]


def rows_of(result: Result) -> list[Result]:
    """Return the results of rows as results of single tasks. Rows whose results cannot be read fail; no rows: none."""
    if not result.rows:
        return []
    try:
        return results_of(result)
    except RowsError as error:
        text = f"the results of these rows cannot be read: {error}".encode()
        return results_of(replace(result, status=TaskStatus.INTERNAL_ERROR, payload=text, statuses=b""))
