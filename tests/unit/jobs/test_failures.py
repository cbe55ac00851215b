"""The number of rows or tasks that may fail."""

from __future__ import annotations

import pytest

from scaler.jobs.failures import exceeds, is_too_many, too_many


@pytest.mark.parametrize("is_end", [False, True])
@pytest.mark.parametrize(
    ("most", "failed", "ended", "too_much"),
    [
        (None, 9, 9, False),
        (0, 0, 9, False),
        (0, 1, 1, True),
        (5, 5, 5, False),
        (5, 6, 1_000_000, True),
        (5.0, 5, 5, False),  # as the scheduler stores it
        (5.0, 6, 7, True),
        (0.0, 1, 2, True),
        (0.25, 25, 100, False),
        (0.25, 26, 100, True),
        (0.25, 26, 104, False),
    ],
)
def test_max_failures_as_a_number_counts_at_once_and_as_a_fraction_after_a_hundred_rows(
    most: float | None, failed: int, ended: int, too_much: bool, is_end: bool
) -> None:
    assert exceeds(most, failed, ended, is_end) is too_much


def test_max_failures_as_a_fraction_of_fewer_rows_counts_at_the_end() -> None:
    assert not exceeds(0.25, 99, 99)
    assert exceeds(0.25, 3, 10, is_end=True)
    assert not exceeds(0.3, 3, 10, is_end=True)


def test_the_reason_shows_max_failures_as_the_user_wrote_it() -> None:
    assert too_many(5.0, 6, 1015, "rows") == "6 of 1,015 ended rows failed; max_failures is 5"
    assert too_many(10**6, 10**6 + 1, 10**7, "tasks").endswith("failed; max_failures is 1,000,000")
    assert too_many(0.01, 2, 101, "tasks") == "2 of 101 ended tasks failed; max_failures is 0.01"


def test_the_reason_of_a_job_shows_whether_too_many_rows_failed() -> None:
    assert is_too_many(too_many(0, 1, 1, "rows"))
    assert not is_too_many("its functions cannot be read: they failed")
    assert too_many(0.0, 1, 1, "tasks").endswith("max_failures is 0")
