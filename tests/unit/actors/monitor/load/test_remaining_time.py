from __future__ import annotations

import pytest

from scaler.actors.monitor.load.remaining import RemainingTime, never
from scaler.wire.messages.monitor import StateWaiting
from tests.support.monitored import waiting

SECOND_US = 1_000_000


def seconds_left(*groups: StateWaiting, workers: int = 1, per_second: float | None = None) -> float | None:
    remaining = RemainingTime()
    remaining.update(groups, workers, per_second)
    return remaining.seconds


def test_remaining_time_is_open_tasks_times_mean_duration_over_slots() -> None:
    assert seconds_left(waiting(190, running=10, places=2, mean_us=1_200_000), waiting(0), workers=2) == 120


def test_tasks_that_request_a_capability_share_its_slots() -> None:
    """Four workers share one gpu: ten tasks of a second take ten, whatever the other workers do."""
    gpu = waiting(10, "taken", "gpu=1", mean_us=SECOND_US)
    assert seconds_left(waiting(40, places=8, mean_us=SECOND_US), gpu, workers=8) == 10
    assert seconds_left(waiting(200, places=8, mean_us=SECOND_US), gpu, workers=8) == 210 / 8


def test_the_remaining_time_is_at_least_that_of_the_recent_rate() -> None:
    """1,002 workers could do 231,946 tasks of 92 ms in 21 s, but 834 tasks end per second."""
    work = waiting(231_946, places=1002, mean_us=92_000)
    assert seconds_left(work, workers=1002) == pytest.approx(21.3, rel=0.01)
    assert seconds_left(work, workers=1002, per_second=834.0) == pytest.approx(278.1, rel=0.01)
    assert seconds_left(work, workers=1002, per_second=1e6) == pytest.approx(21.3, rel=0.01)


def test_tasks_that_no_worker_can_take_are_ignored() -> None:
    impossible = waiting(40, "no worker can take it", "tpu=1", places=0)
    assert seconds_left(waiting(60, mean_us=SECOND_US), impossible) == 60
    assert seconds_left(waiting(60, mean_us=SECOND_US), impossible, per_second=0.5) == 120
    assert seconds_left(waiting(0), impossible) is None
    assert never([waiting(0), impossible]) == "40 need tpu=1"


def test_nodes_that_wait_for_inputs_do_not_count_for_the_remaining_time() -> None:
    assert seconds_left(waiting(60, mean_us=SECOND_US), waiting(1000, "inputs", places=0)) == 60


def test_the_remaining_time_is_unknown_without_a_duration_or_a_worker() -> None:
    assert seconds_left(waiting(5, places=2), workers=2) is None
    assert seconds_left(waiting(5, "no worker", places=0, mean_us=100), workers=0) is None


def test_the_remaining_time_is_unknown_while_it_jumps() -> None:
    remaining = RemainingTime()
    for number, seconds in ((60, 60), (600, None), (590, 590), (0, None)):
        remaining.update([waiting(number, mean_us=SECOND_US)], 1, None)
        assert remaining.seconds == seconds


def test_few_tasks_of_unknown_duration_do_not_hide_the_remaining_time() -> None:
    known = waiting(120, places=2, mean_us=SECOND_US)
    assert seconds_left(known, waiting(6, asks="gpu=1"), workers=2) == 60
    assert seconds_left(known, waiting(7, asks="gpu=1"), workers=2) is None
