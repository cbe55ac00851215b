from __future__ import annotations

import pytest

from scaler.monitor.model.rates import RateMeter, by_outcome
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.vocabulary import OUTCOMES
from tests.support.monitored import NOON_US

SECOND = 1_000_000


def add(meter: RateMeter, second: float, success: int, failed: int = 0) -> None:
    ended = {"success": success, "failed": failed}
    meter.add(NOON_US + int(second * SECOND), ended, {"RunTask": success}, {})


def test_every_task_status_is_one_of_four_outcomes() -> None:
    assert by_outcome(dict.fromkeys(OUTCOMES.values(), 1)) == {
        "success": 1,
        "failed": len(TaskStatus) - 3,
        "canceled": 1,
        "not_found": 1,
    }


def test_rates_are_differences_by_time() -> None:
    meter = RateMeter()
    add(meter, 0, 1000)
    assert meter.rates.tasks is None
    add(meter, 2, 1200, failed=10)
    assert meter.rates.tasks == pytest.approx(105)
    assert meter.rates.ended["failed"] == pytest.approx(5)
    assert meter.rates.sent == {"RunTask": pytest.approx(100)}


def test_two_messages_at_almost_the_same_time_make_no_rate() -> None:
    meter = RateMeter()
    add(meter, 0, 0)
    add(meter, 0.1, 50)
    assert meter.rates.tasks is None
    add(meter, 1, 100)
    assert meter.rates.tasks == pytest.approx(100)


def test_a_clock_that_was_set_back_makes_no_rate() -> None:
    meter = RateMeter()
    add(meter, 100, 1000)
    add(meter, 50, 1100)
    assert meter.rates.tasks is None
    add(meter, 51, 1200)
    assert meter.rates.tasks == pytest.approx(100)
