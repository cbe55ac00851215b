"""Rows of a job in ranges, and how they are compared."""

from __future__ import annotations

from typing import Any

import pytest

from scaler.client.jobs import row_ranges
from scaler.client.jobs.row_ranges import compare, new_ranges
from scaler.jobs.values import Arguments
from scaler.wire.messages.client import Task


def make(row: int, item: Any) -> Any:
    payload = repr(item).encode()
    return Task(bytes(16), bytes(16), payload, b""), None, None, (), ()


def no_block(_item: Any) -> None:
    """All need a pickler."""


def ranges_of(items: list[Any], first: int = 0) -> list[Any]:
    return list(new_ranges(iter(items), first, no_block, make))


def known(items: list[Any]) -> list[tuple[int, int, str]]:
    return [(each.first, each.n_rows, each.digest.hex()) for each in ranges_of(items)]


def test_ranges_are_bounded_by_rows_and_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_ranges, "ROWS", 3)
    monkeypatch.setattr(row_ranges, "BYTES", 20)
    found = ranges_of([(1,), (2,), (3,), (4,), ("x" * 30,), (6,)], first=10)
    assert [(each.first, each.n_rows) for each in found] == [(10, 3), (13, 2), (15, 1)]
    assert [Arguments(found[0].block, 3).one(at).payload for at in range(3)] == [b"(1,)", b"(2,)", b"(3,)"]


def test_an_item_that_cannot_be_sent_is_named() -> None:
    with pytest.raises(TypeError, match="each item must be a tuple or a list of arguments; item 1 is 5"):
        ranges_of([(1,), 5])

    def bad(row: int, item: Any) -> Any:
        raise TypeError("f: missing a required argument")

    with pytest.raises(TypeError, match="item 7 of the map: f: missing"):
        list(new_ranges(iter([()]), 7, no_block, bad))


def test_rows_are_compared_with_those_that_are_known() -> None:
    items = [(each, str(each)) for each in range(10)]
    assert compare(iter(items), known(items), is_sealed=True) == ("", 0)
    other = [*items[:5], (5, "five"), *items[6:]]
    assert compare(iter(other), known(items), is_sealed=True)[0] == (
        "of its rows 0 to 9, at least one has other arguments"
    )
    assert compare(iter(items[:8]), known(items), is_sealed=True)[0] == "it has 8 rows now, and had more"
    assert compare(iter([*items, (10, "")]), known(items), is_sealed=True)[0] == "it has more rows now than it had"


def test_a_job_whose_rows_had_not_all_come_takes_the_others() -> None:
    items = [(each,) for each in range(10)]
    rest = iter(items)
    assert compare(rest, known(items[:6]), is_sealed=False) == ("", 0)
    assert next(rest) == (6,)


def test_rows_that_cannot_be_compared_are_counted() -> None:
    items = [((x for x in ()),) for _ in range(10)]
    assert compare(iter(items), known(items), is_sealed=True) == ("", 10)
