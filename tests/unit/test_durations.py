"""The expected durations of tasks."""

from __future__ import annotations

import pytest

from scaler.durations import Durations, moving_mean
from scaler.ids import ObjectId

UNKNOWN_US = 50_000


def make(most: int = 1024) -> Durations:
    return Durations(UNKNOWN_US, most)


def function(number: int) -> ObjectId:
    return ObjectId(number.to_bytes(16, "big"))


def test_a_task_of_an_unknown_function_fills_a_worker() -> None:
    assert make().expected_us(function(1)) == UNKNOWN_US


def test_each_function_has_a_duration_of_its_own() -> None:
    durations = make()
    durations.learn(function(1), 30, 10)
    durations.learn(function(2), 2_000_000, 1)
    assert [durations.expected_us(function(n)) for n in (1, 2, 3)] == [3, 2_000_000, UNKNOWN_US]


def test_a_task_may_take_no_time_at_all() -> None:
    durations = make()
    durations.learn(function(1), 0, 10)
    assert durations.expected_us(function(1)) == 0


def test_the_most_recently_learned_functions_are_remembered() -> None:
    most = 1024
    durations = make(most)
    for number in range(most):
        durations.learn(function(number), 7, 1)
    durations.learn(function(0), 7, 1)
    durations.learn(function(most), 7, 1)
    assert len(durations) == most
    assert [durations.expected_us(function(n)) for n in (0, 1, 2)] == [7, UNKNOWN_US, 7]


def test_the_first_mean_is_the_mean_of_the_first_batch() -> None:
    assert moving_mean(None, 6.0, 3) == 2.0


def test_a_mean_rises_fast_and_falls_slowly() -> None:
    assert moving_mean(1.0, 3.0, 1) == pytest.approx(2.0)
    assert moving_mean(2.0, 1.0, 1) == pytest.approx(1.9)


def test_recent_tasks_weigh_most_but_never_all() -> None:
    assert moving_mean(3.0, 1000.0, 1000) == pytest.approx(2.0)
    assert moving_mean(1.0, 3000.0, 1000) == pytest.approx(2.0)


def test_a_doubted_function_has_no_duration_until_one_of_its_tasks_ends() -> None:
    durations = make()
    durations.learn(function(1), 10, 1)
    durations.distrust(function(1))
    durations.distrust(function(2))
    assert durations.expected_us(function(1)) == UNKNOWN_US
    durations.learn(function(1), 10, 1)
    assert durations.expected_us(function(1)) == 10


def test_a_forgotten_function_has_no_duration() -> None:
    durations = make()
    durations.learn(function(1), 10, 1)
    durations.distrust(function(1))
    durations.forget([function(1), function(2)])
    durations.learn(function(1), 30, 1)
    assert durations.expected_us(function(1)) == 30
