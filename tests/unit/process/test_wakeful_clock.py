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


def test_the_clock_shows_the_real_time_while_no_look_is_late(real: Time) -> None:
    clock = WakefulClock(real)
    for step in (0.0, 0.9, 0.5, 0.99):
        real.now += step
        assert clock.update() == real.now


def test_a_pause_does_not_count(real: Time) -> None:
    clock = WakefulClock(real)
    real.now += 30.0
    assert clock.update() == 100.0
    real.now += 0.5
    assert clock.update() == 100.5
    real.now += 5.0
    assert clock.update() == 100.5


def test_a_planned_sleep_counts_unless_it_ends_very_late(real: Time) -> None:
    clock = WakefulClock(real)
    clock.sleep_until(110.0)
    real.now = 110.25
    assert clock.update() == 110.25
    clock.sleep_until(120.0)
    real.now = 150.0
    assert clock.update() == 110.25


def test_an_early_wake_up_ends_the_sleep(real: Time) -> None:
    clock = WakefulClock(real)
    clock.sleep_until(110.0)
    real.now = 102.0
    assert clock.update() == 102.0
    real.now = 109.0
    assert clock.update() == 102.0


def test_a_sleep_without_an_end_counts(real: Time) -> None:
    clock = WakefulClock(real)
    clock.sleep_until(None)
    real.now += 3600.0
    assert clock.update() == real.now


def test_a_clock_with_regular_looks_notices_a_pause_in_a_long_sleep(real: Time) -> None:
    clock = WakefulClock(real, update_seconds=2.5)
    clock.sleep_until(700.0)
    real.now += 2.6
    assert clock.update() == 102.6
    clock.sleep_until(700.0)
    real.now += 15.0
    assert clock.update() == 102.6


def test_the_clock_reports_how_long_it_was_paused(real: Time) -> None:
    clock = WakefulClock(real)
    real.now += 0.5
    clock.update()
    real.now += 30.0
    clock.update()
    real.now += 0.5
    clock.update()
    real.now += 4.0
    clock.update()
    assert [clock.paused_since(since) for since in (100.0, 100.5, 100.75, 101.5)] == [34.0, 34.0, 4.0, 0.0]
