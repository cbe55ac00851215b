from __future__ import annotations

import pytest

from scaler.client import large_values
from scaler.client.large_values import LargeValues


@pytest.fixture(autouse=True)
def few_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_values, "UNREAD_BYTES", 100)


def test_large_values_above_the_limit_are_fetched_after_earlier_ones_were_read() -> None:
    large: LargeValues = LargeValues()
    assert [large.add(number, 60) for number in range(4)] == [[0], [1], [], []]
    assert large.fetched == {0: 60, 1: 60}
    assert large.read(1) == [2]
    assert large.read(7) == [], "it is none of these"
    assert large.read(0) == [3]


def test_a_value_larger_than_the_limit_is_fetched_alone() -> None:
    large: LargeValues = LargeValues()
    assert [large.add(number, 1000) for number in range(2)] == [[0], []]
    assert large.read(0) == [1]


def test_a_value_that_was_lost_and_added_again_counts_once() -> None:
    large: LargeValues = LargeValues()
    assert [large.add(0, 80), large.add(0, 90), large.add(1, 10)] == [[0], [0], [1]]
    assert large.read(0) == []
    assert large.read(1) == []
    assert large.fetched == {}


def test_at_the_end_values_that_were_not_fetched_are_returned_and_forgotten() -> None:
    large: LargeValues = LargeValues()
    for number in range(4):
        large.add(number, 60)
    assert large.end() == [2, 3]
    assert large.end() == []
    assert large.add(4, 60) is None
