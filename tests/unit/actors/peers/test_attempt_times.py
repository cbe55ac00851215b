"""For how long a task has waited is known without a look at the clock for each."""

from __future__ import annotations

from itertools import count

from scaler.actors.peers.attempt_times import MARKS_MOST, AttemptTimes
from scaler.ids import ATTEMPTS


def test_an_attempt_is_older_than_the_first_mark_after_it() -> None:
    times, numbers = AttemptTimes(), map((ATTEMPTS - 1).__and__, count(ATTEMPTS - 2))
    times.mark(numbers.__next__, 10.0)
    first, second = next(numbers), next(numbers)
    assert times.seconds_since(first, 11.0) == 0.0
    times.mark(numbers.__next__, 12.0)
    times.mark(numbers.__next__, 12.9)
    third = next(numbers)
    times.mark(numbers.__next__, 15.0)
    assert second < first, "the numbers have begun again"
    assert [times.seconds_since(each, 20.0) for each in (first, second, third)] == [8.0, 8.0, 5.0]


def test_of_old_times_less_is_known() -> None:
    times, numbers = AttemptTimes(), count()
    attempts = []
    for second in range(50 * MARKS_MOST):
        attempts.append(next(numbers))
        times.mark(numbers.__next__, float(second))
    now = 50.0 * MARKS_MOST
    assert len(times._marks) < MARKS_MOST
    for second, attempt in list(enumerate(attempts))[::97]:
        age = now - second
        assert 0.94 * age <= times.seconds_since(attempt, now) <= age
    assert times.seconds_since(attempts[-1], now) == 1.0
