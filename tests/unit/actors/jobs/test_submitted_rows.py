"""The sizes of ranges: which rows of a job travel together."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.actors.jobs.submitted_rows import RowSizes, pieces_of
from scaler.wire.messages.client import TaskResult
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.rows import pack, row_id, unpack

STATUSES = st.lists(st.sampled_from([0, 0, 0, TaskStatus.FAILED, TaskStatus.CANCELED]), min_size=1, max_size=12)


@given(STATUSES, st.integers(0, 1000))
def test_successful_neighbouring_rows_of_a_range_are_stored_together(statuses: list[int], first: int) -> None:
    blocks = [b"%d" % row for row in range(len(statuses))]
    result = TaskResult(
        row_id(bytes(16), first),
        0,
        pack(blocks),
        0,
        rows=len(statuses),
        statuses=bytes(statuses),
        duration_us=10 * len(statuses),
    )
    found: list[tuple[int, int, bytes]] = []
    for each in pieces_of(result):
        parts = unpack(each.frames[0], each.n_rows) if each.n_rows > 1 else each.frames
        found += [(row, each.status, bytes(part)) for row, part in enumerate(parts, each.row)]
        assert each.n_rows == 1 or not each.status
    assert found == [(first + row, status, blocks[row]) for row, status in enumerate(statuses)]
    assert sum(each.duration_us for each in pieces_of(result)) == 10 * len(statuses)
    n_failed = sum(map(bool, statuses))
    assert len(pieces_of(result)) <= 2 * n_failed + 1


@pytest.mark.parametrize(
    ("most", "rows", "total_us", "n_open", "size"),
    [
        (1, 1, 10, 10_000, 1),  # the scheduler allows none
        (256, 1, 1, 10**6, 256),
        (256, 1, 1_000, 10**6, 5),  # 5 ms
        (256, 1, 10_000, 10**6, 1),
        (256, 10, 100, 640, 100),  # the end is near: 1 ms
        (256, 10, 100, 6_400, 200),
    ],
)
def test_rows_of_a_few_milliseconds_travel_as_a_range(
    most: int, rows: int, total_us: int, n_open: int, size: int
) -> None:
    sizes = RowSizes(most)
    assert sizes.size(n_open) == 1, "nothing is known"
    sizes.learn(rows, total_us)
    assert sizes.size(n_open) == size


def test_ranges_shrink_fast_and_grow_slowly() -> None:
    sizes, found = RowSizes(256), []
    for total_us in (50, 1_000, 1_000, 50):
        sizes.learn(1, total_us)
        found.append(sizes.size(10**6))
    assert found == [100, 9, 6, 7]
