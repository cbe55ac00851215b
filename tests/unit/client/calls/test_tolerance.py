"""How many tasks of a map may fail."""

from __future__ import annotations

import pytest

from scaler.client.calls.tolerance import Tolerance
from scaler.errors import TooManyFailuresError


def test_without_a_number_the_first_failure_is_the_last() -> None:
    with pytest.raises(ValueError, match="first"):
        Tolerance(return_exceptions=False).take(ValueError("first"), 1)


def test_errors_that_are_results_are_all_tolerated() -> None:
    tolerance = Tolerance(return_exceptions=True)
    for n_ended in range(1, 1000):
        tolerance.take(ValueError(), n_ended)
    tolerance.end()


def test_so_many_may_fail_and_then_the_first_is_raised_at_the_end() -> None:
    tolerance = Tolerance(return_exceptions=False, max_failures=2)
    tolerance.take(ValueError("first"), 1)
    tolerance.take(ValueError("second"), 2)
    with pytest.raises(ValueError, match="first"):
        tolerance.end()
    with pytest.raises(TooManyFailuresError, match="3 of 9 tasks of the map have failed, and at most 2 may"):
        tolerance.take(ValueError("third"), 9)


def test_a_part_counts_when_a_hundred_have_ended() -> None:
    tolerance = Tolerance(return_exceptions=True, max_failures=0.1)
    for n_ended in range(1, 100):
        tolerance.take(ValueError(), n_ended)
    with pytest.raises(TooManyFailuresError, match=r"100 of 100 .* at most 0\.1 may"):
        tolerance.take(ValueError(), 100)
