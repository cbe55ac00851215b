"""Long tasks are spread over the workers, whatever was run before."""

from __future__ import annotations

import time

from scaler import Client, SchedulerClusterCombo

NAPS = [0.5, 0.05, 0.05, 0.5] * 3
"""if they were all given at once to two workers, one after the other, one worker would get all the long ones"""
IDEAL_SECONDS = 1.8
"""two workers, one task at a time, first come, first served"""


def no_op(value: int) -> int:
    return value


def nap(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def test_naps_after_a_map_of_no_ops_take_little_longer_than_they_must() -> None:
    with SchedulerClusterCombo(n_workers=2, logging_level="WARNING") as combo, Client(combo.get_address()) as client:
        assert list(client.map(no_op, [(value,) for value in range(2000)])) == list(range(2000))
        start = time.monotonic()
        assert list(client.map(nap, [(seconds,) for seconds in NAPS])) == NAPS
        assert IDEAL_SECONDS <= time.monotonic() - start < 2.4
