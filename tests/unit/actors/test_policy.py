"""How long tasks are expected to take, who has room, and which worker gets the next task."""

from __future__ import annotations

import pytest

from scaler.actors.policy import FUNCTIONS_REMEMBERED, WORK_AHEAD_US, Durations, Places, Rules, moving_mean
from scaler.ids import ObjectId


def function(number: int) -> ObjectId:
    return ObjectId(number.to_bytes(16, "big"))


def test_a_task_of_an_unknown_function_fills_a_worker() -> None:
    assert Durations().expected_us(function(1)) == WORK_AHEAD_US


def test_each_function_has_a_duration_of_its_own() -> None:
    durations = Durations()
    durations.learn(function(1), 30, 10)
    durations.learn(function(2), 2_000_000, 1)
    assert [durations.expected_us(function(n)) for n in (1, 2, 3)] == [3, 2_000_000, WORK_AHEAD_US]


def test_a_task_may_take_no_time_at_all() -> None:
    durations = Durations()
    durations.learn(function(1), 0, 10)
    assert durations.expected_us(function(1)) == 0


def test_the_functions_that_were_heard_of_last_are_remembered() -> None:
    durations = Durations()
    for number in range(FUNCTIONS_REMEMBERED):
        durations.learn(function(number), 7, 1)
    durations.learn(function(0), 7, 1)
    durations.learn(function(FUNCTIONS_REMEMBERED), 7, 1)
    assert len(durations) == FUNCTIONS_REMEMBERED
    assert [durations.expected_us(function(n)) for n in (0, 1, 2)] == [7, WORK_AHEAD_US, 7]


def test_the_first_mean_is_that_of_the_first_batch() -> None:
    assert moving_mean(None, 6.0, 3) == 2.0


def test_a_mean_rises_fast_and_falls_slowly() -> None:
    assert moving_mean(1.0, 3.0, 1) == pytest.approx(2.0)
    assert moving_mean(2.0, 1.0, 1) == pytest.approx(1.9)


def test_recent_tasks_weigh_most_but_never_all() -> None:
    assert moving_mean(3.0, 1000.0, 1000) == pytest.approx(2.0)
    assert moving_mean(1.0, 3000.0, 1000) == pytest.approx(2.0)


def test_nobody_has_room_when_there_is_nobody() -> None:
    assert Places().take(0) is None


def test_the_worker_with_the_fewest_tasks_gets_the_next_one() -> None:
    places: Places[str] = Places()
    places.join("busy", 10, tasks=5)
    places.join("idle", 10, tasks=1)
    assert [places.take(1) for _ in range(4)] == ["idle"] * 4
    assert {places.take(1), places.take(1)} == {"busy", "idle"}


def test_the_queue_limits_the_number_of_tasks_however_short_they_are() -> None:
    places: Places[str] = Places()
    places.join("worker", 2)
    assert [places.take(0) for _ in range(3)] == ["worker", "worker", None]
    places.free("worker", 1, 0)
    assert places.take(0) == "worker"


def test_a_worker_has_room_while_it_has_less_than_the_work_ahead() -> None:
    places: Places[str] = Places()
    places.join("worker", 1000)
    half = WORK_AHEAD_US // 2
    assert [places.take(half) for _ in range(3)] == ["worker", "worker", None]
    places.free("worker", 1, half)
    assert places.take(10 * half) == "worker"  # whatever it takes: there was room
    places.free("worker", 1, half)
    assert places.take(1) is None
    assert places.load("worker") == (1, 10 * half)


def test_an_idle_worker_takes_a_task_of_any_length() -> None:
    places: Places[str] = Places()
    places.join("worker", 1)
    assert places.take(3600 * 1_000_000) == "worker"
    assert places.take(1) is None


def test_a_worker_that_joins_with_work_has_that_much_less_room() -> None:
    places: Places[str] = Places()
    places.join("worker", 1000, tasks=2, work_us=WORK_AHEAD_US)
    assert places.take(1) is None
    places.free("worker", 1, 1)
    assert places.take(1) == "worker"


def test_a_worker_that_left_gets_nothing_and_its_late_news_are_ignored() -> None:
    places: Places[str] = Places()
    places.join("worker", 5)
    places.leave("worker")
    places.leave("worker")
    places.free("worker", 1, 5)
    assert places.take(1) is None
    assert len(places) == 0
    assert "worker" not in places


def test_a_worker_that_joins_again_is_counted_anew() -> None:
    places: Places[str] = Places()
    places.join("worker", 2)
    places.take(WORK_AHEAD_US)
    places.join("worker", 2)
    assert [places.take(1), places.take(1), places.take(1)] == ["worker", "worker", None]


def test_free_places_are_counted_in_tasks() -> None:
    places: Places[str] = Places()
    assert places.free_places() == 0
    places.join("long", 10, tasks=1, work_us=10**9)
    places.join("full", 3, tasks=4)
    places.join("idle", 5)
    assert places.free_places() == 14


@pytest.mark.parametrize(
    ("waiting", "workers", "said"),
    [
        (7, 2, "7 tasks wait, max_number_of_tasks_waiting is 7, and 2 workers are connected, and none of them has"),
        (1, 1, "1 task waits, max_number_of_tasks_waiting is 1, and 1 worker is connected, and it does not have"),
        (0, 0, "0 tasks wait, max_number_of_tasks_waiting is 0, and no worker is connected;"),
    ],
)
def test_a_refusal_says_what_was_found_and_what_to_do(waiting: int, workers: int, said: str) -> None:
    sentence = Rules(waiting).refusal(waiting, workers)
    assert said in sentence
    assert sentence.endswith("submit it again later, add workers, or raise that setting")
