"""How many tasks of a map may fail."""

from __future__ import annotations

import pytest

from scaler.client.calls.tolerance import FailureTolerance
from scaler.errors import TooManyFailuresError


def test_without_max_failures_the_first_failure_is_raised() -> None:
    with pytest.raises(ValueError, match="first"):
        FailureTolerance(return_exceptions=False).take(ValueError("first"), 1, 0)


def test_errors_that_are_results_are_all_tolerated() -> None:
    tolerance = FailureTolerance(return_exceptions=True)
    for n_ended in range(1, 1000):
        tolerance.take(ValueError(), n_ended, n_ended)
    tolerance.judge(999, is_end=True)


def test_one_failure_above_max_failures_raises_an_error_that_names_the_first() -> None:
    tolerance = FailureTolerance(return_exceptions=False, max_failures=2, function="f")
    first = ValueError("bad 3")
    tolerance.take(first, 1, 3)
    tolerance.take(ValueError("second"), 2, 4)
    tolerance.judge(8, is_end=True)
    with pytest.raises(TooManyFailuresError) as error:
        tolerance.take(ValueError("third"), 1015, 5)
    assert str(error.value) == (
        "3 of 1,015 ended tasks failed; max_failures is 2; the first: ValueError: bad 3 in f (item 3)"
    )
    assert error.value.__cause__ is first


def test_a_fraction_of_failures_counts_once_a_hundred_tasks_have_ended() -> None:
    tolerance = FailureTolerance(return_exceptions=True, max_failures=0.1, function="f")
    for n_ended in range(1, 100):
        tolerance.take(ValueError("bad"), n_ended, n_ended)
    with pytest.raises(TooManyFailuresError, match=r"^99 of 100 ended tasks failed; max_failures is 0\.1; the first"):
        tolerance.judge(100)


def test_a_fraction_of_fewer_tasks_counts_at_the_end() -> None:
    tolerance = FailureTolerance(return_exceptions=False, max_failures=0.25, function="f")
    tolerance.take(ValueError("bad"), 1, 0)
    tolerance.judge(4, is_end=True)
    with pytest.raises(TooManyFailuresError, match="1 of 3 ended"):
        tolerance.judge(3, is_end=True)
