from __future__ import annotations

import math

from scaler.client.link.timers import Timers


def timers() -> Timers:
    return Timers(now=0, timeout_seconds=60, heartbeat_seconds=2)


def test_work_waits_from_its_own_beginning() -> None:
    times = timers()
    assert times.gives_up_at() == math.inf
    times.set_waiting(True, 100)
    assert times.gives_up_at() == 160
    times.set_waiting(False, 160)
    times.set_waiting(True, 200)
    assert times.gives_up_at() == 260


def test_silence_counts_only_after_a_question() -> None:
    times = timers()
    times.set_waiting(True, 0)
    times.welcomed(1)
    assert times.gives_up_at() == times.silent_at() == math.inf
    assert times.seconds_to_next(1) == 2
    times.heartbeat_sent(1000)  # the process was stopped in between: nobody's fault
    assert times.gives_up_at() == 1060
    assert times.silent_at() == 1006
    times.heard()
    assert times.gives_up_at() == math.inf


def test_lost_connections_are_opened_at_once_then_ever_later() -> None:
    times = timers()
    pauses = []
    for now in range(0, 1000, 100):
        times.lost(now)
        pauses.append(times.opens_at - now)
        assert times.silent_at() == math.inf
        times.opened(times.opens_at)
        assert times.opens_at == math.inf
    assert pauses[0] == 0
    assert pauses == sorted(pauses)
    assert pauses[-1] == 2
    times.proved()
    times.lost(2000)
    assert times.opens_at == 2000


def test_a_new_connection_does_not_prolong_the_wait() -> None:
    times = timers()
    times.welcomed(0)
    times.set_waiting(True, 0)
    times.lost(10)
    times.opened(50)
    assert times.gives_up_at() == 70
