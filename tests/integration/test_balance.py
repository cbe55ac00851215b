"""Long tasks are spread over the workers, whatever was run before, also over those that join later."""

from __future__ import annotations

import os
import time

from scaler import Client, Cluster, SchedulerClusterCombo

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


def pid_after(seconds: float) -> int:
    time.sleep(seconds)
    return os.getpid()


def workers_of_long_tasks(was_short: bool) -> set[int]:
    """Return the processes that ran eight long tasks of one worker, after seven others had joined."""
    with SchedulerClusterCombo(n_workers=1, logging_level="WARNING") as combo, Client(combo.get_address()) as client:
        if was_short:
            client.map(pid_after, [(0,)] * 500)
        futures = [client.submit(pid_after, 2) for _ in range(8)]
        cluster = Cluster(combo.get_address(), n_workers=7, logging_level="WARNING")
        time.sleep(1)  # they join while the first task runs
        cluster.start()
        try:
            return {future.result(60) for future in futures}
        finally:
            cluster.shutdown()


def test_long_tasks_use_all_workers_that_join_while_the_first_one_runs() -> None:
    assert len(workers_of_long_tasks(was_short=False)) == 8


def test_so_do_tasks_that_were_taken_for_short_ones_and_given_ahead() -> None:
    assert len(workers_of_long_tasks(was_short=True)) == 8


def test_balancing_of_a_combo_may_be_turned_off() -> None:
    with (
        SchedulerClusterCombo(n_workers=1, load_balance_seconds=0, load_balance_trigger_times=1) as combo,
        Client(combo.get_address()) as client,
    ):
        client.map(pid_after, [(0,)] * 500)
        futures = [client.submit(pid_after, 0.5) for _ in range(4)]
        cluster = Cluster(combo.get_address(), n_workers=1)
        cluster.start()
        try:
            assert len({future.result(60) for future in futures}) == 1
        finally:
            cluster.shutdown()
