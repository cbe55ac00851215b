from __future__ import annotations

from collections.abc import Iterable

import pytest

from scaler.actors.monitor.load.recent import RecentSeconds


def recent(ended: Iterable[int], cpu_permille: int = 0, lag_us: int = 0) -> RecentSeconds:
    found = RecentSeconds()
    for second, number in enumerate(ended):
        found.add(second, 1_000_000 * second, number, cpu_permille, lag_us)
    return found


def test_the_rate_is_that_of_the_last_minute() -> None:
    assert recent(range(0, 100 * 200, 100)).per_second() == pytest.approx(100)
    before = recent([1_000_000 * second for second in range(100)] + [99_000_000 + 5 * second for second in range(61)])
    assert before.per_second() == pytest.approx(5)


def test_idle_time_before_the_work_does_not_lower_the_rate() -> None:
    assert recent([0] * 50 + list(range(0, 1100, 100))).per_second() == pytest.approx(100)


@pytest.mark.parametrize(
    "ended",
    [
        (),
        (7,),
        [5] * 60,
        list(range(0, 100 * 9, 100)),  # too short
        [0] * 30 + [1] * 20 + [9] * 10,  # too few
    ],
)
def test_the_rate_is_unknown_without_enough_ends(ended: Iterable[int]) -> None:
    assert recent(ended).per_second() is None


def test_the_scheduler_is_busy_if_it_was_in_each_of_the_last_five_seconds() -> None:
    assert not recent(range(4), cpu_permille=950).is_busy
    assert recent(range(5), cpu_permille=800).is_busy
    assert not recent(range(9), cpu_permille=799).is_busy
    calm = recent(range(5), cpu_permille=950)
    calm.add(5, 0, 5, 100, 0)
    assert not calm.is_busy


def test_the_scheduler_is_late_if_its_loop_was_in_each_of_the_last_five_seconds() -> None:
    assert recent(range(5), lag_us=50_000).is_late
    assert not recent(range(5), lag_us=49_999).is_late


def test_the_time_of_the_last_end_is_known() -> None:
    assert recent([3, 3]).last_end_us == 0
    assert recent([3, 4, 5, 5, 5]).last_end_us == 2_000_000
