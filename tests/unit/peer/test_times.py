from __future__ import annotations

from math import inf

import pytest

from scaler.peer.states import GOODBYE_OVER, HEARTBEAT_DUE, PAUSE_OVER, SILENCE, TIMED_OUT
from scaler.peer.times import GOODBYE_SECONDS, PAUSE_LEAST_SECONDS, Patience, Times


@pytest.fixture
def times() -> Times:
    return Times(Patience(heartbeat_seconds=2, timeout_seconds=60))


@pytest.mark.parametrize(
    ("heartbeat_seconds", "silence_seconds", "expected"), [(1, None, 5), (2, None, 6), (30, None, 90), (2, 0.5, 0.5)]
)
def test_silence_follows_from_the_heartbeat_and_the_setting(
    heartbeat_seconds: float, silence_seconds: float | None, expected: float
) -> None:
    assert Patience(heartbeat_seconds, 60, silence_seconds).silence() == expected


def test_the_first_connection_is_due_at_once(times: Times) -> None:
    assert times.next_due() == (-inf, PAUSE_OVER)


def test_pending_work_times_out_from_its_own_start(times: Times) -> None:
    times.opened(0)
    assert times.timeout_at() == inf
    times.set_waiting(True, 100)
    assert times.timeout_at() == 160
    times.set_waiting(False, 160)
    times.set_waiting(True, 200)
    assert times.timeout_at() == 260


def test_silence_counts_only_after_an_unanswered_message(times: Times) -> None:
    times.opened(0)
    times.set_waiting(True, 0)
    times.welcomed(1)
    assert times.timeout_at() == times.silent_at() == inf
    assert times.next_due() == (3, HEARTBEAT_DUE)
    times.heartbeat_sent(1000)
    assert times.silent_at() == 1006
    assert times.timeout_at() == 1060
    assert times.next_due() == (1002, HEARTBEAT_DUE)


@pytest.mark.parametrize(("dead_after_seconds", "expected"), [(0, 2), (60, 2), (8, 2), (4, 1), (1, 0.25)])
def test_heartbeats_are_frequent_enough_for_the_timeout_of_the_scheduler(
    times: Times, dead_after_seconds: float, expected: float
) -> None:
    times.limit_heartbeat(1)
    times.limit_heartbeat(dead_after_seconds)  # of the next scheduler
    times.opened(0)
    times.welcomed(0)
    assert times.next_due() == (expected, HEARTBEAT_DUE)


def test_an_unanswered_hello_counts_as_silence(times: Times) -> None:
    times.opened(10)
    assert times.next_due() == (16, SILENCE)


def test_lost_connections_are_reopened_at_once_and_then_after_growing_pauses(times: Times) -> None:
    pauses = []
    for now in range(0, 1000, 100):
        times.opened(now)
        times.lost(now + 10, had_messages=False)
        pauses.append(times.opens_at - now - 10)
        assert times.silent_at() == inf
    assert pauses == pytest.approx([0, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 2, 2, 2])
    times.lost(2000, had_messages=True)
    assert times.opens_at == 2000


def test_connections_that_end_at_once_do_not_spin(times: Times) -> None:
    times.opened(5)
    times.lost(5.001, had_messages=True)
    assert times.opens_at == 5 + PAUSE_LEAST_SECONDS


def test_a_new_connection_does_not_prolong_the_wait(times: Times) -> None:
    times.opened(0)
    times.welcomed(0)
    times.set_waiting(True, 0)
    times.lost(10, had_messages=True)
    times.opened(50)
    assert times.timeout_at() == 70
    assert times.silent_at() == 56


def test_a_short_timeout_is_due_before_the_silence() -> None:
    times = Times(Patience(heartbeat_seconds=2, timeout_seconds=1))
    times.opened(0)
    times.set_waiting(True, 0)
    assert times.next_due() == (1, TIMED_OUT)


def test_a_goodbye_waits_for_its_answer_for_a_limited_time(times: Times) -> None:
    times.opened(0)
    times.welcomed(0)
    times.left(1)
    assert times.next_due() == (1 + GOODBYE_SECONDS, GOODBYE_OVER)
    times.ended()
    assert times.next_due()[0] == inf


def test_a_pause_of_this_process_extends_silence_and_timeout(times: Times) -> None:
    times.opened(0)
    times.set_waiting(True, 0)
    times.paused(100)
    assert (times.silent_at(), times.timeout_at()) == (106, 160)
    times.set_waiting(False, 110)
    times.set_waiting(True, 110)
    assert times.timeout_at() == 170
    times.paused(1000)
    assert times.timeout_at() == 1170
