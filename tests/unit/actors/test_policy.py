"""How long tasks are expected to take, who has room, and which worker gets the next task."""

from __future__ import annotations

import pytest

from scaler.actors.policy import (
    FUNCTIONS_REMEMBERED,
    WORK_AHEAD_US,
    Durations,
    Places,
    Rules,
    moving_mean,
    tasks_to_recall,
)
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


def test_tasks_that_go_on_need_no_room() -> None:
    places: Places[str] = Places()
    places.join("one", 1)
    assert places.take(5) == "one"
    places.free("one", 1, 5)
    assert places.take(7) == "one"
    places.take_again("one", 1, 5)
    assert places.load("one") == (2, 12)
    assert places.take(1) is None
    places.free("one", 1, 7)
    assert places.take(1) is None
    places.free("one", 1, 5)
    assert places.take(1) == "one"


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


# Balance


def moving(*tasks: int) -> list[tuple[int, bool]]:
    return [(number, False) for number in tasks]


@pytest.mark.parametrize(
    ("tasks", "given_back"),
    [
        ((0, 0, 3, 3, 3, 4), (0, 0, 1, 1, 1, 1)),
        ((0, 8), (0, 4)),
        ((0, 1, 1), (0, 0, 0)),
        ((0, 2), (0, 1)),
        ((0, 0, 0, 2), (0, 0, 0, 1)),
        ((1, 9), (0, 0)),
        ((), ()),
    ],
)
def test_busy_workers_give_back_what_levels_the_work(tasks: tuple[int, ...], given_back: tuple[int, ...]) -> None:
    assert sorted(tasks_to_recall(moving(*tasks))) == sorted(given_back)


def test_one_idle_worker_among_many_busy_ones_moves_few_tasks() -> None:
    assert sum(tasks_to_recall(moving(0, *[10] * 4999))) == 9


def test_a_stuck_worker_keeps_the_task_that_it_runs() -> None:
    assert tasks_to_recall([(0, False), (900, True), (3, False)]) == [0, 899, 0]
    assert tasks_to_recall([(0, False), (5, True), (5, True)]) == [0, 4, 4]
    assert tasks_to_recall([(0, True), (2, True)]) == [0, 1]


def test_a_doubted_function_is_unknown_until_one_of_its_tasks_ends() -> None:
    durations = Durations()
    durations.learn(function(1), 10, 1)
    durations.doubt(function(1))
    durations.doubt(function(2))
    assert durations.expected_us(function(1)) == WORK_AHEAD_US
    durations.learn(function(1), 10, 1)
    assert durations.expected_us(function(1)) == 10


def test_it_is_uneven_when_a_worker_is_idle_while_tasks_wait_at_another() -> None:
    places: Places[str] = Places()
    places.join("one", 10)
    places.take(1)
    assert not places.has_waiting()
    places.take(1)
    assert places.has_waiting()
    assert not places.is_uneven()  # nobody is idle
    places.join("other", 10)
    assert places.is_uneven()
    places.free("one", 1, 1)
    assert not places.is_uneven()
    places.leave("one")
    assert not places.has_waiting()


def test_a_worker_that_shall_give_back_gets_nothing_until_one_of_its_tasks_has_ended() -> None:
    places: Places[str] = Places()
    places.join("busy", 10, tasks=3)
    places.join("idle", 10)
    assert places.level({}) == {"busy": 1}
    assert [places.take(1) for _ in range(11)] == ["idle"] * 10 + [None]
    places.give_back("busy", 2, 0)
    assert places.take(1) is None
    places.free("busy", 1, 0)
    assert places.take(1) == "busy"


def test_a_worker_where_nothing_has_ended_since_is_stuck() -> None:
    places: Places[str] = Places()
    for name, tasks in (("stuck", 5), ("moving", 5), ("idle", 0), ("single", 1)):
        places.join(name, 10, tasks=tasks)
    seen = places.ended()
    places.free("moving", 1, 0)
    assert places.unblock(seen) == {"stuck": 4}
    places.give_back("stuck", 4, 0)
    assert places.level(seen) == {"moving": 2}
    assert places.unblock({}) == {}


class TestNear:
    def places(self) -> Places[str]:
        places: Places[str] = Places()
        for worker, host in (("a0", "a"), ("a1", "a"), ("b0", "b")):
            places.join(worker, 2, host=host)
        return places

    def test_the_worker_itself_comes_first_then_those_beside_it_then_anybody(self) -> None:
        places = self.places()
        assert [places.take_near("a0", 1) for _ in range(7)] == ["a0", "a1", "a0", "a1", "b0", "b0", None]

    def test_a_worker_that_has_left_is_near_nobody(self) -> None:
        places = self.places()
        places.leave("a0")
        assert {places.take_near("a0", 1) for _ in range(2)} == {"a1", "b0"}
        assert places.take_near("a1", 1) == "a1"

    def test_it_counts_like_any_other(self) -> None:
        places = self.places()
        assert places.take_near("a1", WORK_AHEAD_US) == "a1"
        assert places.load("a1") == (1, WORK_AHEAD_US)
        assert places.take_near("a1", 1) == "a0"
        places.free("a1", 1, WORK_AHEAD_US)
        assert places.take_near("a1", 1) == "a1"
