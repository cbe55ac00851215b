"""Which rows of a job travel together."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.actors.jobs.row_sizes import RowSizes, grouped
from scaler.jobs.values import Row
from scaler.wire.messages.rows import RANGE_BYTES

TAKEN = st.lists(
    st.tuples(st.integers(1, 3), st.sampled_from([b"", b"x", b"y" * RANGE_BYTES]), st.booleans()), max_size=30
)


@given(TAKEN, st.integers(1, 8))
def test_rows_keep_their_order_and_only_neighbours_that_bring_nothing_travel_together(
    steps: list[tuple[int, bytes, bool]], size: int
) -> None:
    row, taken = 0, []
    for step, payload, brings in steps:
        row += step
        taken.append((row, Row(payload, b"i" * 16 if brings else b"")))
    groups = list(grouped(taken, size))
    assert [each for group in groups for each in group] == taken
    for group in groups:
        first = group[0][0]
        assert [number for number, _ in group] == list(range(first, first + len(group)))
        assert len(group) <= size
        assert len(group) == 1 or not any(arguments.object_ids for _, arguments in group)
        assert sum(len(arguments.payload) for _, arguments in group[:-1]) <= RANGE_BYTES


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
def test_rows_of_some_milliseconds_travel_together(most: int, rows: int, total_us: int, n_open: int, size: int) -> None:
    sizes = RowSizes(most)
    assert sizes.size(n_open) == 1, "nothing is known"
    sizes.learn(rows, total_us)
    assert sizes.size(n_open) == size


def test_the_mean_rises_fast_and_falls_slowly() -> None:
    sizes = RowSizes(256)
    sizes.learn(1, 50)
    assert sizes.size(10**6) == 100
    sizes.learn(1, 1_000)
    assert sizes.size(10**6) == 5
    sizes.learn(1, 50)
    assert 5 < sizes.size(10**6) < 10
