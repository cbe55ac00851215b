from __future__ import annotations

import pytest

from scaler.monitor import units


@pytest.mark.parametrize(
    ("number", "width", "text"),
    [
        (None, 9, "-"),
        (0, 9, "0"),
        (9_120_377, 9, "9,120,377"),
        (12_345_678, 9, "12.3M"),
        (48_197, 6, "48,197"),
        (1000, 5, "1,000"),
        (1000, 4, "1000"),
        (999_949, 5, "1000k"),
        (1_000_000_000_000, 6, "1.0T"),
    ],
)
def test_counts_are_rounded_and_never_truncated(number: float | None, width: int, text: str) -> None:
    assert units.count(number, width) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [(None, "-"), (0, "0b"), (1023, "1023b"), (1024, "1.0k"), (1023.96 * 1024, "1.0m"), (1.9 * 2**30, "1.9g")],
)
def test_units_of_bytes_are_powers_of_1024(number: float | None, text: str) -> None:
    assert units.size(number) == text


@pytest.mark.parametrize(
    ("microseconds", "text"),
    [
        (None, "-"),
        (0, "0us"),
        (99, "99us"),
        (700, "0.7ms"),
        (41_000, "41ms"),
        (999_600, "1.0s"),
        (1_200_000, "1.2s"),
        (119e6, "119s"),
        (180e6, "3.0m"),
        (10_800e6, "3.0h"),
    ],
)
def test_durations_have_two_digits(microseconds: float | None, text: str) -> None:
    assert units.duration(microseconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "~1 s"), (47, "~50 s"), (56, "~1 min"), (130, "~2 min"), (4000, "~1 h"), (9 * 86400, "~9 d")],
)
def test_estimated_times_have_one_digit(seconds: float, text: str) -> None:
    assert units.about(seconds) == text


@pytest.mark.parametrize(("seconds", "text"), [(0.5, "now"), (2.9, "2s"), (150, "2m"), (7300, "2h"), (200_000, "2d")])
def test_ages_are_short(seconds: float, text: str) -> None:
    assert units.ago(seconds) == text


def test_shares_and_rates_are_rounded() -> None:
    assert (units.share(None), units.share(0), units.share(999)) == ("-", "0.0%", "99.9%")
    assert (units.rate(None), units.rate(0), units.rate(0.26), units.rate(385.2)) == ("-", "0", "0.3", "385")


def test_times_of_day_are_local() -> None:
    assert units.clock(0) == "-"
    assert len(units.clock(1)) == 8
    assert units.day_and_clock(1).endswith(units.clock(1))
