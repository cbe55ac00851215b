"""PriorityRows: the highest priority is first."""

from __future__ import annotations

from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from scaler.priority_rows import PriorityRows


def new_rows() -> PriorityRows[deque[int]]:
    return PriorityRows(deque)


def test_there_is_always_a_first_row() -> None:
    rows = new_rows()
    assert rows.first() == deque()
    rows[0].append(1)
    assert list(rows.first()) == [1]


def test_empty_rows_above_the_first_are_removed() -> None:
    rows = new_rows()
    rows[5].append(1)
    assert rows.first() is rows[5]
    rows[5].popleft()
    assert rows.first() is rows[0]
    assert list(rows) == [0]


@given(st.lists(st.integers(-3, 3) | st.none(), max_size=60))
def test_priority_rows_behave_as_a_sorted_list(story: list[int | None]) -> None:
    rows, model = new_rows(), []
    for number, priority in enumerate(story):
        if priority is not None:
            rows[priority].append(number)
            model.append((-priority, number))
        elif model:
            model.sort()
            assert rows.first().popleft() == model.pop(0)[1]
        assert [number for row in rows.in_order() for number in row] == [number for _, number in sorted(model)]
    assert bool(rows.first()) == bool(model)
