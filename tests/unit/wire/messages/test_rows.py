"""Rows: a range is split without reading its blocks, and a malformed range is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scaler.ids import ObjectId, TaskId
from scaler.wire.messages.client import Task
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.rows import RowsError, calls_of, flaw_of, pack, results_of, row_id, row_ids, unpack
from scaler.wire.messages.worker import RunResult

BLOCKS = [b"first", b"", b"third"]
FIRST = TaskId(b"prefix--" + (255).to_bytes(8, "big"))
RANGE = Task(FIRST, ObjectId(b"f" * 16), pack(BLOCKS), b"", 3, "name", rows=3)


def test_packed_blocks_are_unpacked() -> None:
    assert unpack(pack(BLOCKS), 3) == BLOCKS


@pytest.mark.parametrize(
    ("payload", "rows"),
    [(b"", 1), (pack(BLOCKS), 2), (pack(BLOCKS), 4), (pack(BLOCKS)[:-1], 3), (pack(BLOCKS) + b"x", 3), (b"", 0)],
)
def test_bytes_that_do_not_have_the_announced_rows_are_refused(payload: bytes, rows: int) -> None:
    with pytest.raises(RowsError):
        unpack(payload, rows)


def test_ids_of_rows_follow_one_another() -> None:
    assert row_ids(FIRST, 3) == [FIRST, row_id(FIRST, 1), row_id(FIRST, 2)]
    assert int.from_bytes(row_id(FIRST, 2)[8:], "big") == 257
    assert row_ids(FIRST, 0) == [FIRST]


def test_ids_of_rows_wrap_around() -> None:
    """A peer may send such an id; the task is refused."""
    last = TaskId(b"prefix--" + b"\xff" * 8)
    assert row_ids(last, 2) == [last, row_id(last, 1)] == [last, b"prefix--" + bytes(8)]


def test_the_rows_of_a_range_are_tasks_with_its_fields() -> None:
    rows = calls_of(RANGE)
    assert [row.task_id for row in rows] == row_ids(FIRST, 3)
    assert [row.payload for row in rows] == BLOCKS
    assert {replace(row, task_id=FIRST, payload=b"").name for row in rows} == {"name"}
    assert all((row.rows, row.priority) == (0, 3) for row in rows)


def test_the_frames_of_a_range_are_split_evenly_among_its_rows() -> None:
    frames = tuple(bytes([n]) for n in range(6))
    rows = calls_of(replace(RANGE, frames=frames))
    assert [row.frames for row in rows] == [frames[:2], frames[2:4], frames[4:]]
    assert flaw_of(replace(RANGE, frames=frames), suits_rows=True) == ""
    assert flaw_of(replace(RANGE, frames=frames[1:]), suits_rows=True)
    assert [row.frames for row in calls_of(RANGE)] == [()] * 3


def test_results_of_rows_have_their_own_status() -> None:
    statuses = bytes([0, TaskStatus.FAILED, TaskStatus.CANCELED])
    result = RunResult(FIRST, 0, 7, TaskStatus.SUCCESS, pack(BLOCKS), 30, (), rows=3, statuses=statuses)
    rows = results_of(result)
    assert [(row.task_id, row.status, row.payload) for row in rows] == list(
        zip(row_ids(FIRST, 3), (0, 1, 2), BLOCKS, strict=True)
    )
    assert all((row.rows, row.attempt, row.duration_us, row.statuses) == (0, 7, 10, b"") for row in rows)


@pytest.mark.parametrize("status", [TaskStatus.SUCCESS, TaskStatus.TIMED_OUT])
def test_the_durations_of_rows_have_the_sum_that_was_measured(status: TaskStatus) -> None:
    result = RunResult(FIRST, 0, 7, status, pack(BLOCKS), 2, (), rows=3)
    assert [row.duration_us for row in results_of(result)] == [1, 1, 0]


@pytest.mark.parametrize("statuses", [b"\0", bytes(4), b"\0\0\xff"])
def test_statuses_that_do_not_match_the_rows_are_refused(statuses: bytes) -> None:
    result = RunResult(FIRST, 0, 7, TaskStatus.SUCCESS, pack(BLOCKS), 30, (), rows=3, statuses=statuses)
    with pytest.raises(RowsError, match="are not the statuses of 3 rows"):
        results_of(result)


def test_a_status_without_results_applies_to_each_row() -> None:
    result = RunResult(FIRST, 0, 7, TaskStatus.CANCELED, b"why", 0, (), rows=2)
    assert [(row.status, row.payload) for row in results_of(result)] == [(TaskStatus.CANCELED, b"why")] * 2


@pytest.mark.parametrize(
    "spec",
    [
        replace(RANGE, options=b"options"),
        replace(RANGE, object_ids=b"o" * 16),
        replace(RANGE, frames=(b"frame",)),
        replace(RANGE, rows=2),
        replace(RANGE, rows=5000),
        replace(RANGE, task_id=TaskId(b"prefix--" + b"\xff" * 8)),
    ],
)
def test_a_malformed_range_has_a_flaw(spec: Task) -> None:
    assert flaw_of(RANGE, suits_rows=True) == ""
    assert flaw_of(spec, suits_rows=not spec.options)
