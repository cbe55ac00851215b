"""Rows of a job in ranges, and how they are compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from scaler.client.jobs import row_ranges
from scaler.client.jobs.comparing.row_digests import NOT_COMPARED, RowDigests
from scaler.client.jobs.row_ranges import RangeMaker
from scaler.jobs.values import Arguments
from scaler.wire.messages.client import Task


def make(row: int, item: Any) -> Any:
    payload = repr(item).encode()
    return Task(bytes(16), bytes(16), payload, b""), None, None, (), ()


def no_block(_item: Any) -> None:
    """Return None: no row has a plain block, so all need a pickler."""


def maker(make: Any = make) -> RangeMaker:
    return RangeMaker(RowDigests(), no_block, make)


def ranges_of(items: list[Any], first: int = 0, make: Any = make) -> list[Any]:
    ranges = maker(make)
    return list(ranges.ranges(ranges.rows(items), first))


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
        ranges_of([()], 7, bad)
    with pytest.raises(TypeError, match="item 1 of the map: f: missing"):
        list(maker(bad).rows(iter([(1,), ([],)])))


def test_each_row_has_a_digest_and_rows_that_cannot_be_compared_are_counted() -> None:
    ranges = maker()
    [found] = ranges.ranges(ranges.rows([(1,), ((x for x in ()),), [2]]), 10)
    digests = RowDigests()
    assert found.row_digests == digests.of_rows([(1,)]) + NOT_COMPARED + digests.of_rows([(2,)])
    assert found.digest == b""
    assert (ranges.n_not_compared, ranges.first_not_compared[0]) == (1, 11)
    [equal] = ranges.ranges(iter([(1,), (2,)]), 0)
    assert equal.digest == digests.of_range([(1,), (2,)])


def test_a_source_may_change_a_row_after_it_was_yielded() -> None:
    def changing() -> Any:
        number: list[int] = [0]
        for each in range(3):
            number[0] = each
            yield (number,)

    def listing() -> Any:
        row = [0, "x"]
        for each in range(3):
            row[0] = each
            yield row

    class Reused(Sequence[Any]):
        """A sequence that fills one buffer for each row."""

        def __len__(self) -> int:
            return 3

        def __getitem__(self, at: Any) -> Any:
            if at >= 3:
                raise IndexError
            self.buffer = getattr(self, "buffer", [0])
            self.buffer[0] = at
            return (self.buffer,)

    lists = [([each],) for each in range(3)]
    for source, kept in ((Reused, lists), (changing, lists), (listing, [(each, "x") for each in range(3)])):
        ranges = maker()
        [found] = ranges.ranges(ranges.rows(source()), 0)
        [expected] = ranges_of(kept)
        assert found.row_digests == expected.row_digests
        assert found.block == expected.block
        assert ranges.digests_of(list(ranges.rows(source())))[1] == expected.row_digests
