from __future__ import annotations

import pytest

from scaler.monitor.ui.bins import BIN_ROW, SECONDS, WORKERS_MOST, Bins
from scaler.wire.messages.monitor import StateBins

KEY = (b"agent", 0)
NOON = 1_795_000_000


def row(busy_ms: int = 1000, success: int = 1, failed: int = 0, canceled: int = 0, position: int = 0) -> bytes:
    return BIN_ROW.pack(position, busy_ms, success, failed, canceled, 0, b"function")


def take(bins: Bins, second: int, *rows: bytes) -> None:
    bins.take(second * 1_000_000, [StateBins(b"agent", b"".join(rows))])


@pytest.fixture
def bins() -> Bins:
    return Bins()


def test_a_bin_shows_the_busy_share_and_the_worst_outcome(bins: Bins) -> None:
    take(bins, NOON, row(500))
    take(bins, NOON + 1, row(1000, failed=1, canceled=1))
    take(bins, NOON + 3, row(300, success=0, canceled=2))
    assert bins.read(KEY, NOON, 1, 4) == ("5a03", "1203")


def test_wider_bins_have_the_mean_and_the_worst_of_their_seconds(bins: Bins) -> None:
    take(bins, NOON, row(1000))
    take(bins, NOON + 1, row(0, failed=1))
    assert bins.read(KEY, NOON, 2, 1) == ("5", "2")


def test_work_longer_than_a_second_fills_earlier_bins(bins: Bins) -> None:
    take(bins, NOON - 5, row(0))
    take(bins, NOON, row(3000))
    assert bins.read(KEY, NOON - 4, 1, 5)[0] == "00aaa"


def test_the_start_of_changed_bins_is_known(bins: Bins) -> None:
    for second in range(10):
        take(bins, NOON + second, row(0, success=0))
    assert bins.changed_since(KEY, NOON + 9) == NOON + 9
    assert bins.changed_since((b"nobody", 0), NOON) == NOON
    take(bins, NOON + 10, row(8000))
    assert bins.changed_since(KEY, NOON + 10) == NOON + 3
    take(bins, NOON + 11, row(500))
    assert bins.changed_since(KEY, NOON + 10) == NOON + 3
    assert bins.changed_since(KEY, NOON + 11) == NOON + 11
    for second in range(12, 100):
        take(bins, NOON + second, row(2000))
    assert bins.changed_since(KEY, NOON + 10) <= NOON + 3, "more than is remembered"


def test_a_short_run_is_visible_in_its_bin(bins: Bins) -> None:
    take(bins, NOON, row(20))
    assert bins.read(KEY, NOON, 1, 1) == ("1", "1")


def test_bins_older_than_the_ring_are_dropped(bins: Bins) -> None:
    take(bins, NOON, row())
    take(bins, NOON + SECONDS, row())
    assert bins.read(KEY, NOON, 1, 1) == ("0", "0")
    assert bins.read(KEY, NOON + SECONDS, 1, 1) == ("a", "1")
    assert bins.read_all(1, NOON, 1, 1) == "0"


def test_bins_of_all_workers_are_averaged(bins: Bins) -> None:
    take(bins, NOON, row(1000), row(500, position=1))
    assert bins.read_all(2, NOON, 1, 1) == "8"


def test_functions_are_counted_in_a_range_of_bins(bins: Bins) -> None:
    take(bins, NOON, row())
    take(bins, NOON + 1, row())
    assert bins.functions_of(KEY, NOON, NOON + 2) == {b"function": 2}


def test_a_long_run_keeps_its_worker_busy_in_all_its_seconds_within_the_range(bins: Bins) -> None:
    take(bins, NOON - 60, row(0, success=0))
    take(bins, NOON, row(30_000))
    assert bins.functions_of(KEY, NOON - 60, NOON + 1) == {b"function": 30}
    assert bins.functions_of(KEY, NOON - 9, NOON + 1) == {b"function": 10}


def test_an_unknown_worker_was_idle(bins: Bins) -> None:
    assert bins.read((b"nobody", 1), NOON, 1, 3) == ("000", "000")


def test_bins_of_the_workers_gone_for_longest_are_dropped(bins: Bins, monkeypatch: pytest.MonkeyPatch) -> None:
    assert WORKERS_MOST >= 5000
    monkeypatch.setattr("scaler.monitor.ui.bins.WORKERS_MOST", 10)
    for number in range(30):
        take(bins, NOON + number, row(position=number))
    keys = bins.keys()
    assert len(keys) <= 10
    assert (b"agent", 29) in keys


def test_a_truncated_bin_row_is_left_out(bins: Bins) -> None:
    take(bins, NOON, row() + b"torn")
    assert bins.read(KEY, NOON, 1, 1) == ("a", "1")
