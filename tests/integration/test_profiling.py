"""What tasks took, measured by real processes."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest

from scaler import Client, SchedulerClusterCombo

MB = 1_000_000


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with SchedulerClusterCombo(n_workers=1, logging_level="WARNING", task_timeout_seconds=5) as combo:
        yield combo.get_address()


def work(compute_seconds: float, sleep_seconds: float, n_bytes: int) -> bytes:
    memory = bytearray(b"x") * n_bytes
    end = time.process_time() + compute_seconds
    while time.process_time() < end:
        pass
    time.sleep(sleep_seconds)
    return bytes(memory[:1])


def test_a_task_is_measured_alone_whatever_ran_before_it(address: str) -> None:
    with Client(address, profiling=True) as client:
        client.submit(work, 0, 0, 300 * MB).result(30)
        future = client.submit(work, 0.1, 0.5, 50 * MB)
        assert future.result(30) == b"x"
        info = future.profiling_info()
        assert 0.6 <= info.duration_s < 30
        assert info.duration_us == round(info.duration_s * 1e6)
        assert 0.1 <= info.cpu_time_s < 0.5
        assert 45 * MB < info.peak_memory == info.memory_peak < 60 * MB
        small = client.submit(int)
        small.result(30)
        assert small.profiling_info().duration_us < 1_000_000
        assert small.profiling_info().peak_memory < 2 * MB


@pytest.mark.more
def test_failed_large_and_timed_out_tasks_are_profiled(address: str) -> None:
    with Client(address) as client:
        failed = client.submit(os.stat, "/not/there", profiling=True)
        assert isinstance(failed.exception(30), FileNotFoundError)
        assert failed.profiling_info().duration_s < 1
        large = client.submit(bytes, MB, profiling=True)
        assert large.exception(30) is None
        assert large.profiling_info().duration_s < 1  # not fetched for that
        timed_out = client.submit(time.sleep, 60, profiling=True)
        assert isinstance(timed_out.exception(30), TimeoutError)
        assert 5 <= timed_out.profiling_info().duration_s < 30


def test_a_graph_is_measured_and_a_map_works_as_ever(address: str) -> None:
    with Client(address, profiling=True) as client:
        futures = client.get({"a": (work, 0, 0.5, 0), "b": (len, "a")}, ["a", "b"], block=False)
        assert futures["b"].result(30) == 0
        assert futures["a"].profiling_info().duration_s >= 0.5
        assert futures["b"].profiling_info().duration_us < futures["a"].profiling_info().duration_us
        assert client.map(abs, [(-number,) for number in range(2000)]) == list(range(2000))


def test_without_asking_nothing_is_measured(address: str) -> None:
    with Client(address) as client:
        future = client.submit(int)
        with pytest.raises(ValueError, match="not"):
            future.profiling_info()
        future.result(30)
        with pytest.raises(ValueError, match="was not measured"):
            future.profiling_info()
