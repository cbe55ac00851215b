from __future__ import annotations

import pytest

from scaler.process.wakeful_clock import WakefulClock


class Time:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def real() -> Time:
    return Time()


def test_while_nothing_is_late_it_is_the_real_time(real: Time) -> None:
    clock = WakefulClock(real)
    for step in (0.0, 0.9, 0.5, 0.99):
        real.now += step
        assert clock.look() == real.now


def test_a_pause_does_not_count(real: Time) -> None:
    clock = WakefulClock(real)
    real.now += 30.0
    assert clock.look() == 100.0
    real.now += 0.5
    assert clock.look() == 100.5
    real.now += 5.0
    assert clock.look() == 100.5


def test_a_planned_sleep_counts_unless_it_ends_much_too_late(real: Time) -> None:
    clock = WakefulClock(real)
    clock.sleep_until(110.0)
    real.now = 110.25
    assert clock.look() == 110.25
    clock.sleep_until(120.0)
    real.now = 150.0
    assert clock.look() == 110.25


def test_an_early_wake_up_ends_the_sleep(real: Time) -> None:
    clock = WakefulClock(real)
    clock.sleep_until(110.0)
    real.now = 102.0
    assert clock.look() == 102.0
    real.now = 109.0
    assert clock.look() == 102.0


def test_a_sleep_without_an_end_counts(real: Time) -> None:
    clock = WakefulClock(real)
    clock.sleep_until(None)
    real.now += 3600.0
    assert clock.look() == real.now
