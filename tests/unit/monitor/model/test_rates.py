from __future__ import annotations

import pytest

from scaler.monitor.model.rates import History, by_outcome
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.vocabulary import OUTCOMES
from tests.support.monitored import NOON_US, scheduler

SECOND = 1_000_000


def add(history: History, second: float, success: int, failed: int = 0) -> None:
    ended = {"success": success, "failed": failed}
    history.add(NOON_US + int(second * SECOND), scheduler(waiting=7), ended, {"RunTask": success}, {})


def test_every_end_is_one_of_four() -> None:
    assert by_outcome(dict.fromkeys(OUTCOMES.values(), 1)) == {
        "success": 1,
        "failed": len(TaskStatus) - 3,
        "canceled": 1,
        "not_found": 1,
    }


def test_rates_are_differences_by_time() -> None:
    history = History()
    add(history, 0, 1000)
    assert history.rates.tasks is None
    add(history, 2, 1200, failed=10)
    assert history.rates.tasks == pytest.approx(105)
    assert history.rates.ended["failed"] == pytest.approx(5)
    assert history.rates.sent == {"RunTask": pytest.approx(100)}


def test_two_messages_at_almost_the_same_time_make_no_rate() -> None:
    history = History()
    add(history, 0, 0)
    add(history, 0.1, 50)
    assert history.rates.tasks is None
    add(history, 1, 100)
    assert history.rates.tasks == pytest.approx(100)


def test_the_history_is_a_row_of_seconds_with_holes_where_nothing_was_heard() -> None:
    history = History(60)
    for second in (0, 1, 2, 6, 7):
        add(history, second, second * 100)
    row = history.seconds(8)
    assert [moment is not None for moment in row] == [True, True, True, False, False, False, True, True]
    assert row[7] is not None
    assert row[7].open == 7


def test_one_late_message_is_no_hole() -> None:
    history = History(60)
    for second in (0, 0.99, 2.01, 3):
        add(history, second, 0)
    assert all(history.seconds(4))


def test_the_history_is_no_longer_than_asked_for() -> None:
    history = History(60)
    for second in range(200):
        add(history, second, second)
    assert len(history.moments) == 60


def test_a_clock_that_was_set_back_makes_no_rate() -> None:
    history = History(60)
    add(history, 100, 1000)
    add(history, 50, 1100)
    assert history.rates.tasks is None
    add(history, 51, 1200)
    assert history.rates.tasks == pytest.approx(100)
