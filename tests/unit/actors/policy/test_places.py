"""Who has room, which worker gets the next task, and who gives tasks back."""

from __future__ import annotations

import pytest

from scaler.actors.policy.places import MAP_AHEAD_US, WORK_AHEAD_US, Places, tasks_to_recall


def take(places: Places[str], work_us: int, near: str | None = None) -> str | None:
    if not places.with_room:
        return None
    return places.take(work_us) if near is None else places.take_near(near, work_us)


def test_nobody_has_room_when_there_is_nobody() -> None:
    assert take(Places(), 0) is None


def test_the_worker_with_the_fewest_tasks_gets_the_next_one() -> None:
    places: Places[str] = Places()
    places.join("busy", 10, tasks=5)
    places.join("idle", 10, tasks=1)
    assert [take(places, 1) for _ in range(4)] == ["idle"] * 4
    assert {take(places, 1), take(places, 1)} == {"busy", "idle"}


def test_the_queue_limits_the_number_of_tasks_however_short_they_are() -> None:
    places: Places[str] = Places()
    places.join("worker", 2)
    assert [take(places, 0) for _ in range(3)] == ["worker", "worker", None]
    places.free("worker", 1, 0)
    assert take(places, 0) == "worker"


def test_a_worker_has_room_while_it_has_less_than_the_work_ahead() -> None:
    places: Places[str] = Places()
    places.join("worker", 1000)
    half = WORK_AHEAD_US // 2
    assert [take(places, half) for _ in range(3)] == ["worker", "worker", None]
    places.free("worker", 1, half)
    assert take(places, 10 * half) == "worker"  # whatever it takes: there was room
    places.free("worker", 1, half)
    assert take(places, 1) is None
    assert places.load("worker") == (1, 10 * half)


def test_an_idle_worker_takes_a_task_of_any_length() -> None:
    places: Places[str] = Places()
    places.join("worker", 1)
    assert take(places, 3600 * 1_000_000) == "worker"
    assert take(places, 1) is None


def test_a_worker_that_joins_with_work_has_that_much_less_room() -> None:
    places: Places[str] = Places()
    places.join("worker", 1000, tasks=2, work_us=WORK_AHEAD_US)
    assert take(places, 1) is None
    places.free("worker", 1, 1)
    assert take(places, 1) == "worker"


def test_a_worker_that_left_gets_nothing_and_its_late_news_are_ignored() -> None:
    places: Places[str] = Places()
    places.join("worker", 5)
    places.leave("worker")
    places.leave("worker")
    places.free("worker", 1, 5)
    assert take(places, 1) is None
    assert len(places) == 0
    assert "worker" not in places


def test_a_worker_that_joins_again_is_counted_anew() -> None:
    places: Places[str] = Places()
    places.join("worker", 2)
    take(places, WORK_AHEAD_US)
    places.join("worker", 2)
    assert [take(places, 1), take(places, 1), take(places, 1)] == ["worker", "worker", None]


def test_tasks_that_go_on_need_no_room() -> None:
    places: Places[str] = Places()
    places.join("one", 1)
    assert take(places, 5) == "one"
    places.free("one", 1, 5)
    assert take(places, 7) == "one"
    places.take_again("one", 1, 5)
    assert places.load("one") == (2, 12)
    assert take(places, 1) is None
    places.free("one", 1, 7)
    assert take(places, 1) is None
    places.free("one", 1, 5)
    assert take(places, 1) == "one"


def test_free_places_are_counted_in_tasks() -> None:
    places: Places[str] = Places()
    assert places.free_places() == 0
    places.join("long", 10, tasks=1, work_us=10**9)
    places.join("full", 3, tasks=4)
    places.join("idle", 5)
    assert places.free_places() == 14


# Tasks of a map

TENTH_US = WORK_AHEAD_US // 10


def filled(queue_size: int = 1000, work_us: int = TENTH_US) -> Places[str]:
    """Return places of one worker without room."""
    places: Places[str] = Places()
    places.join("worker", queue_size)
    while places.with_room:
        assert not places.has_map_room
        places.take(work_us)
    return places


def take_far(places: Places[str], work_us: int = TENTH_US) -> int:
    count = 0
    while places.has_map_room:
        assert places.take_far(work_us) == "worker"
        count += 1
    return count


def test_of_a_map_a_worker_gets_more_than_of_other_tasks() -> None:
    places = filled()
    assert take_far(places) == (MAP_AHEAD_US - WORK_AHEAD_US) // TENTH_US
    assert places.load("worker") == (MAP_AHEAD_US // TENTH_US, MAP_AHEAD_US)
    assert list(places.far_ahead) == ["worker"]
    places.free("worker", 2, 2 * TENTH_US)
    assert take_far(places) == 2
    assert places.tasks == MAP_AHEAD_US // TENTH_US
    assert places.with_room == 0


def test_a_worker_that_has_room_again_is_not_far_ahead_any_more() -> None:
    places = filled()
    places.take_far(TENTH_US)
    places.free("worker", 1, TENTH_US)
    assert list(places.far_ahead) == ["worker"]
    places.free("worker", 1, TENTH_US)
    assert not places.far_ahead
    assert not places.has_map_room
    assert places.with_room == 1


def test_the_queue_limits_tasks_of_a_map_too() -> None:
    assert take_far(filled(queue_size=10)) == 0
    places = filled(queue_size=12)
    assert take_far(places) == 2
    places.free("worker", 1, TENTH_US)
    assert take_far(places) == 1


def test_what_a_worker_has_too_much_for_others_is_called_back_once() -> None:
    places = filled()
    take_far(places)
    recalled = places.too_far()
    assert recalled == {"worker": 21}
    places.give_back("worker", 21, 21 * TENTH_US)
    assert places.load("worker") == (9, 9 * TENTH_US)
    assert places.with_room == 1
    assert not places.has_map_room
    assert places.too_far() == {}


def test_a_worker_with_a_long_task_keeps_it_and_has_no_room_for_a_map() -> None:
    places = filled(work_us=100 * WORK_AHEAD_US)
    assert not places.has_map_room
    places = filled()
    places.take_far(100 * WORK_AHEAD_US)
    assert places.too_far() == {"worker": 10}


def test_a_worker_that_is_asked_for_tasks_or_has_left_gets_none_of_a_map() -> None:
    places = filled()
    places.join("idle", 1000)
    places.take_far(TENTH_US)
    assert places.level({})["worker"]
    assert not places.has_map_room
    places.free("worker", 1, TENTH_US)
    assert places.has_map_room
    places.leave("worker")
    assert not places.has_map_room
    assert not places.far_ahead


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


def test_it_is_uneven_when_a_worker_is_idle_while_tasks_wait_at_another() -> None:
    places: Places[str] = Places()
    places.join("one", 10)
    take(places, 1)
    assert not places.has_waiting()
    take(places, 1)
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
    assert [take(places, 1) for _ in range(11)] == ["idle"] * 10 + [None]
    places.give_back("busy", 2, 0)
    assert take(places, 1) is None
    places.free("busy", 1, 0)
    assert take(places, 1) == "busy"


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
        assert [take(places, 1, "a0") for _ in range(7)] == ["a0", "a1", "a0", "a1", "b0", "b0", None]

    def test_a_worker_that_has_left_is_near_nobody(self) -> None:
        places = self.places()
        places.leave("a0")
        assert {take(places, 1, "a0") for _ in range(2)} == {"a1", "b0"}
        assert take(places, 1, "a1") == "a1"

    def test_it_counts_like_any_other(self) -> None:
        places = self.places()
        assert take(places, WORK_AHEAD_US, "a1") == "a1"
        assert places.load("a1") == (1, WORK_AHEAD_US)
        assert take(places, 1, "a1") == "a0"
        places.free("a1", 1, WORK_AHEAD_US)
        assert take(places, 1, "a1") == "a1"
