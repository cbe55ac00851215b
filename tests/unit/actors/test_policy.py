"""How many tasks a worker is given ahead, and which worker gets the next one."""

from __future__ import annotations

import pytest

from scaler.actors.policy import UNKNOWN_WINDOW, Places, moving_mean, window


def test_a_worker_whose_tasks_are_unknown_gets_one_at_a_time() -> None:
    assert window(None, 1000) == UNKNOWN_WINDOW == 1


def test_a_worker_with_long_tasks_gets_one_at_a_time() -> None:
    assert window(10.0, 1000) == 1


def test_the_shorter_the_tasks_the_more_a_worker_gets_ahead() -> None:
    sizes = [window(seconds, 1000) for seconds in (1.0, 0.02, 0.005, 0.001, 0.0001)]
    assert sizes == sorted(sizes)
    assert sizes[0] == 1
    assert sizes[-1] == 500


@pytest.mark.parametrize("seconds", [None, 0.0, 1e-9, 0.01, 3600.0])
def test_the_window_never_exceeds_what_the_user_allows(seconds: float | None) -> None:
    assert window(seconds, 1) == 1
    assert 1 <= window(seconds, 7) <= 7


def test_tasks_that_take_no_time_fill_the_queue() -> None:
    assert window(0.0, 1000) == 1000


def test_the_first_mean_is_that_of_the_first_batch() -> None:
    assert moving_mean(None, 6.0, 3) == 2.0


def test_recent_tasks_weigh_most_but_never_all() -> None:
    assert moving_mean(1.0, 2.0, 1) == pytest.approx(1.1)
    assert moving_mean(1.0, 2000.0, 1000) == pytest.approx(1.5)


def test_nobody_has_a_place_when_there_is_nobody() -> None:
    assert Places().take() is None


def test_the_worker_with_the_fewest_tasks_gets_the_next_one() -> None:
    places: Places[str] = Places()
    places.join("busy", 10, load=5)
    places.join("idle", 10, load=1)
    assert [places.take() for _ in range(4)] == ["idle"] * 4
    assert {places.take(), places.take()} == {"busy", "idle"}


def test_a_full_worker_gets_nothing_until_a_place_is_freed() -> None:
    places: Places[str] = Places()
    places.join("worker", 1)
    assert places.take() == "worker"
    assert places.take() is None
    places.free("worker", 1, 1)
    assert places.take() == "worker"


def test_a_window_that_grows_opens_places_and_one_that_shrinks_closes_them() -> None:
    places: Places[str] = Places()
    places.join("worker", 2, load=2)
    places.free("worker", 0, 3)
    assert places.take() == "worker"
    places.free("worker", 1, 1)
    assert places.load("worker") == 2
    assert places.take() is None


def test_a_worker_that_left_gets_nothing_and_its_late_news_are_ignored() -> None:
    places: Places[str] = Places()
    places.join("worker", 5)
    places.leave("worker")
    places.leave("worker")
    places.free("worker", 1, 5)
    assert places.take() is None
    assert len(places) == 0
    assert "worker" not in places


def test_a_worker_that_joins_again_is_counted_anew() -> None:
    places: Places[str] = Places()
    places.join("worker", 2)
    places.take()
    places.join("worker", 2, load=0)
    assert [places.take(), places.take(), places.take()] == ["worker", "worker", None]
