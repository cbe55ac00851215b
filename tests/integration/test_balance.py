"""Long tasks are spread over the workers, whatever was run before, also over those that join later."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from scaler import Client, Cluster, SchedulerClusterCombo
from tests.support.processes import wait_until
from tests.support.timing import at_best

NAPS = [0.5, 0.05, 0.05, 0.5] * 3
"""if they were all given at once to two workers, one after the other, one worker would get all the long ones"""
IDEAL_SECONDS = 1.8
"""two workers, one task at a time, first come, first served"""


def no_op(value: int) -> int:
    return value


def nap(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def seconds_of_naps_after_no_ops() -> float:
    with SchedulerClusterCombo(n_workers=2, logging_level="WARNING") as combo, Client(combo.get_address()) as client:
        assert list(client.map(no_op, [(value,) for value in range(2000)])) == list(range(2000))
        start = time.monotonic()
        assert list(client.map(nap, [(seconds,) for seconds in NAPS])) == NAPS
        return time.monotonic() - start


def test_naps_after_a_map_of_no_ops_take_little_longer_than_they_must() -> None:
    assert IDEAL_SECONDS <= at_best(seconds_of_naps_after_no_ops, 2.4) < 2.4


def pid_after(seconds: float) -> int:
    time.sleep(seconds)
    return os.getpid()


def meet(folder: str, workers: int) -> bool:
    """Wait until so many processes run this at the same time. Returns whether they did within some time."""
    if not folder:
        return False
    Path(folder, str(os.getpid())).touch()
    deadline = time.monotonic() + 40
    while len(list(Path(folder).iterdir())) < workers and time.monotonic() < deadline:
        time.sleep(0.01)
    return len(list(Path(folder).iterdir())) >= workers


def all_workers_are_used(folder: Path, was_short: bool) -> bool:
    """Return whether eight long tasks of one worker run at the same time when seven others have joined."""
    with SchedulerClusterCombo(n_workers=1, logging_level="WARNING") as combo, Client(combo.get_address()) as client:
        if was_short:
            client.map(meet, [("", 0)] * 500)
        futures = [client.submit(meet, str(folder), 8) for _ in range(8)]
        wait_until(lambda: list(folder.iterdir()), "the first one runs")
        cluster = Cluster(combo.get_address(), n_workers=7, logging_level="WARNING")
        cluster.start()
        try:
            met = all(future.result(60) for future in futures)
            return met and len(list(folder.iterdir())) == 8  # and nothing that ran was stopped and begun anew
        finally:
            cluster.shutdown()


def test_long_tasks_use_all_workers_that_join_while_the_first_one_runs(tmp_path: Path) -> None:
    assert all_workers_are_used(tmp_path, was_short=False)


@pytest.mark.more
def test_long_tasks_that_were_prefetched_as_short_ones_use_all_workers(tmp_path: Path) -> None:
    assert all_workers_are_used(tmp_path, was_short=True)


def leave_or_await(mark: str, awaits: bool, _data: bytes = b"") -> bool:
    """Leave a mark, or wait for it for some time. Returns whether it is there."""
    if mark and not awaits:
        Path(mark).touch()
    deadline = time.monotonic() + 40
    while mark and not Path(mark).exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    return bool(mark) and Path(mark).exists()


@pytest.mark.more
def test_a_task_that_was_overtaken_while_its_argument_came_runs_elsewhere(tmp_path: Path) -> None:
    mark = str(tmp_path / "mark")
    with SchedulerClusterCombo(n_workers=1, logging_level="WARNING") as combo, Client(combo.get_address()) as client:
        client.map(leave_or_await, [("", False)] * 500)  # taken for short ones, and so given ahead
        large = client.send_object(bytes(30_000_000))
        client.submit(leave_or_await, mark, False, large)
        long = client.submit(leave_or_await, mark, True)
        cluster = Cluster(combo.get_address(), n_workers=1, logging_level="WARNING")
        cluster.start()
        try:
            assert long.result(60)
        finally:
            cluster.shutdown()


@pytest.mark.more
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
