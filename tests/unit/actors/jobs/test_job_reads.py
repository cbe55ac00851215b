"""The log of ended rows. `test_job` and `test_reader` have the requests that read it."""

from __future__ import annotations

from itertools import chain

from hypothesis import given
from hypothesis import strategies as st

from scaler.actors.jobs.job_reads import EndedLog

ROWS = st.lists(st.builds(range, st.integers(0, 20), st.integers(0, 20)), max_size=12)


@given(ROWS, st.lists(st.integers(0, 20), max_size=12), st.integers(1, 9))
def test_a_log_is_read_in_the_order_of_its_rows_by_positions(ended: list[range], later: list[int], most: int) -> None:
    log = EndedLog(ended)
    log.add(later)
    found, position = list[int](), 0
    while rows := [*chain(*log.rows(log.place(position), most))]:
        assert len(rows) <= most
        found += rows
        position = log.place(position) + len(rows)
    assert found == [*chain(*ended), *later]


def test_a_position_of_another_log_is_the_beginning() -> None:
    log, other = EndedLog([range(5)]), EndedLog([range(9)])
    assert log.rows(log.place(other.place(0) + 4), 100) == [range(5)]
    assert log.rows(log.place(log.place(0) + 4), 100) == [range(4, 5)]
    assert log.rows(log.place(log.place(0) + 7), 100) == []


def test_adjacent_rows_take_memory_once() -> None:
    log = EndedLog([range(4096), range(4096, 8192)])
    for row in range(8192, 8292):
        log.add([row])
    assert log.rows(log.place(0), 10_000) == [range(8292)]
