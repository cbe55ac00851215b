"""Which rows of a job have ended, and which are next."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scaler.actors.jobs.open_rows import OpenRows
from scaler.jobs.record import Range
from scaler.jobs.values import Row

COUNTS = st.lists(st.integers(1, 6), min_size=1, max_size=5)


def made(counts: list[int]) -> OpenRows:
    rows, first = OpenRows((), {}), 0
    for count in counts:
        rows.add(first, count)
        first += count
    return rows


def take_all(rows: OpenRows, said: set[int], most: int = 3) -> list[int]:
    taken: list[int] = []
    while True:
        some = rows.take(most, said)
        taken += [row for row, arguments in some if arguments.payload == b"%d" % row]
        if some:
            continue
        first = rows.next_range()
        if first is None:
            return taken
        at = rows._firsts.index(first)
        rows.load(first, [Row(b"%d" % row) for row in range(first, first + rows._counts[at])])


@given(COUNTS, st.sets(st.integers(0, 30)), st.sets(st.integers(0, 30)))
def test_what_is_next_is_what_has_neither_ended_nor_was_said(
    counts: list[int], ended: set[int], said: set[int]
) -> None:
    rows, total = made(counts), sum(counts)
    ended = {row for row in ended if row < total}
    for row in ended:
        assert rows.end(row, is_failure=bool(row % 2))
        assert not rows.end(row, is_failure=False)
    assert take_all(rows, said) == [row for row in range(total) if row not in ended | said]
    assert (rows.done + rows.failed, rows.n_open) == (len(ended), total - len(ended))
    assert rows.failed == sum(row % 2 for row in ended)
    for row in range(total + 1):
        expected = 0
        while row + expected in ended and expected < 4:
            expected += 1
        assert rows.ended_from(row, 4) == expected


@given(COUNTS, st.data())
def test_failed_rows_are_next_again(counts: list[int], data: st.DataObject) -> None:
    rows, total = made(counts), sum(counts)
    for row in range(total):
        rows.end(row, is_failure=True)
    assert take_all(rows, set()) == []
    again = data.draw(st.sets(st.integers(0, total - 1)))
    rows.reopen(sorted(again))
    assert take_all(rows, set()) == sorted(again)
    assert (rows.done, rows.failed) == (0, total - len(again))


def test_rows_of_a_record_are_taken_up_where_they_were() -> None:
    ranges = (Range(0, 3, b"", done=3), Range(3, 3, b"", done=1, failed=1), Range(6, 2, b""))
    rows = OpenRows(ranges, {3: bytearray((1, 0, 1))})
    assert (rows.rows, rows.done, rows.failed) == (8, 4, 1)
    assert take_all(rows, set()) == [4, 6, 7]
    assert rows.ended_from(0, 100) == 4


def test_a_range_that_ended_while_it_was_said_has_no_next() -> None:
    rows = made([3])
    rows.load(0, [Row(b"0"), Row(b"1"), Row(b"2")])
    assert [row for row, _ in rows.take(1, set())] == [0]
    for row in range(3):
        rows.end(row, is_failure=False)
    assert rows.take(5, set()) == []
