"""Which rows of a job have ended, in which order, and which are next."""

from __future__ import annotations

from itertools import chain

from hypothesis import given
from hypothesis import strategies as st

from scaler.actors.jobs.job_state import EndedLog, OpenRows
from scaler.jobs.record import RowRange
from scaler.jobs.values import Arguments, RowArguments, pack_rows

COUNTS = st.lists(st.integers(1, 6), min_size=1, max_size=5)


def made(counts: list[int]) -> OpenRows:
    rows, first = OpenRows((), {}), 0
    for count in counts:
        rows.add(first, count)
        first += count
    return rows


def arguments_of(first: int, count: int) -> Arguments:
    return Arguments(pack_rows([RowArguments(b"%d" % row) for row in range(first, first + count)]), count)


def take_all(rows: OpenRows, most: int = 3) -> list[int]:
    """Take all rows to submit, and return them."""
    all_taken: list[int] = []
    while True:
        taken = rows.take(most)
        if taken is not None:
            assert taken.n_rows <= most
            all_taken += [int(taken.arguments.one(taken.at + each).payload) for each in range(taken.n_rows)]
            assert all_taken[-taken.n_rows :] == list(range(taken.first, taken.first + taken.n_rows))
            continue
        first = rows.next_range()
        if first is None:
            return all_taken
        rows.load(first, arguments_of(first, rows._counts[rows._firsts.index(first)]))


@given(COUNTS, st.sets(st.integers(0, 30)), st.sets(st.integers(0, 30)))
def test_the_next_rows_are_those_neither_ended_nor_submitted(
    counts: list[int], ended: set[int], again: set[int]
) -> None:
    rows, total = made(counts), sum(counts)
    ended = {row for row in ended if row < total}
    for row in ended:
        assert list(rows.end(row, 1, is_failure=bool(row % 2))) == [row]
        assert list(rows.end(row, 1, is_failure=False)) == []
    open_rows = [row for row in range(total) if row not in ended]
    assert take_all(rows) == open_rows
    assert rows.live.handed_out == len(open_rows)
    assert take_all(rows) == []
    again = again.intersection(open_rows)
    for row in again:
        rows.requeue(row)
    assert rows.live.handed_out == len(open_rows) - len(again)
    assert take_all(rows) == sorted(again)
    assert (rows.done + rows.failed, rows.n_open) == (len(ended), total - len(ended))
    assert rows.failed == sum(row % 2 for row in ended)
    assert [row for each in rows.ended() for row in each] == sorted(ended)
    for row in range(total + 1):
        expected = 0
        while row + expected in ended and expected < 4:
            expected += 1
        assert rows.ended_from(row, 4) == expected


@given(COUNTS, st.data())
def test_reopened_rows_are_next_again(counts: list[int], data: st.DataObject) -> None:
    rows, total = made(counts), sum(counts)
    for row in range(total):
        rows.end(row, 1, is_failure=True)
    assert take_all(rows) == []
    again = data.draw(st.sets(st.integers(0, total - 1)))
    rows.reopen(sorted(again))
    assert take_all(rows) == sorted(again)
    assert (rows.done, rows.failed) == (0, total - len(again))


def test_rows_loaded_from_a_record_continue_where_they_were() -> None:
    ranges = (RowRange(0, 3, b"", done=3), RowRange(3, 3, b"", done=1, failed=1), RowRange(6, 2, b""))
    rows = OpenRows(ranges, {3: bytearray((1, 0, 1))})
    assert (rows.rows, rows.done, rows.failed) == (8, 4, 1)
    assert list(rows.ended()) == [range(3), range(3, 4), range(5, 6)]
    assert take_all(rows) == [4, 6, 7]
    assert rows.ended_from(0, 100) == 4


def test_a_range_that_ended_while_it_was_submitted_has_no_next_row() -> None:
    rows = made([3])
    rows.next_range()
    rows.load(0, arguments_of(0, 3))
    taken = rows.take(1)
    assert taken is not None
    assert (taken.first, taken.n_rows) == (0, 1)
    assert list(rows.end(0, 3, is_failure=False)) == [0, 1, 2]
    assert rows.take(5) is None
    assert (rows.live.handed_out, rows.n_open) == (0, 0)


def test_rows_of_a_range_that_have_ended_before_do_not_end_twice() -> None:
    rows = made([8])
    rows.load(0, arguments_of(0, 8))
    assert rows.take(8) is not None
    assert list(rows.end(3, 2, is_failure=False)) == [3, 4]
    assert list(rows.end(0, 8, is_failure=False)) == [0, 1, 2, 5, 6, 7]
    assert (rows.done, rows.live.handed_out) == (8, 0)


@given(COUNTS, st.integers(0, 5), st.sets(st.integers(0, 30)), st.sets(st.integers(0, 30)))
def test_rows_ended_since_an_earlier_table_are_those_it_had_open(
    counts: list[int], n_known: int, before: set[int], now: set[int]
) -> None:
    tables = []
    for ranges, ended in ((counts[:n_known], before), (counts, now)):
        rows = made(ranges)
        take_all(rows)
        for row in ended.intersection(range(rows.rows)):
            rows.end(row, 1, is_failure=False)
        tables.append(rows)
    earlier, later = tables
    expected = now.intersection(range(later.rows)) - before.intersection(range(earlier.rows))
    assert sorted(later.ended_since(earlier)) == sorted(expected)


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
