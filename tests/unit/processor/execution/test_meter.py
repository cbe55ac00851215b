"""CallMeter: measures a call without changing it."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from scaler.processor.execution import meter as module
from scaler.processor.execution.meter import CallMeter, KernelWatch, SampledWatch, elapsed_us
from scaler.wire.messages.common import PROFILE

MB = 1_000_000
WATCHES = [
    pytest.param(KernelWatch, marks=pytest.mark.skipif(sys.platform != "linux", reason="a file of Linux")),
    SampledWatch,
]


class Forbidden:
    def __init__(self) -> None:
        raise PermissionError("/proc/self/clear_refs")


@pytest.fixture(params=WATCHES)
def watch(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param is SampledWatch:
        monkeypatch.setattr(module, "KernelWatch", Forbidden)
    watch = module.new_memory_watch()
    watch.end()
    assert type(watch) is request.param


def measure(function: Callable[..., Any], *arguments: Any) -> tuple[int, int, int]:
    meter = CallMeter(function)
    meter(*arguments)
    duration_us, cpu_us, peak_bytes = PROFILE.unpack(meter.profile)
    return duration_us, cpu_us, peak_bytes


@pytest.mark.parametrize(("ns", "us"), [(0, 0), (1, 1), (1000, 1), (1001, 2), (10**18, 2**32 - 1)])
def test_a_duration_is_rounded_up_and_bounded(ns: int, us: int) -> None:
    assert elapsed_us(5, 5 + ns) == us


def test_a_call_gets_its_arguments_and_returns_its_value() -> None:
    meter = CallMeter(lambda *positional, **keywords: (positional, keywords))
    assert meter.profile == b""
    assert meter(1, 2, three=3) == ((1, 2), {"three": 3})
    assert len(meter.profile) == PROFILE.size


def test_a_call_that_raises_is_measured() -> None:
    def fail() -> None:
        time.sleep(0.05)
        raise ValueError("mine")

    meter = CallMeter(fail)
    with pytest.raises(ValueError, match="mine"):
        meter()
    assert PROFILE.unpack(meter.profile)[0] >= 50_000


def test_a_sleeping_call_takes_wall_time_and_no_cpu_time() -> None:
    duration_us, cpu_us, _ = measure(time.sleep, 0.2)
    assert 200_000 <= duration_us < 2_000_000
    assert cpu_us < 100_000


def test_cpu_time_counts_all_threads_of_a_call() -> None:
    def compute() -> None:
        end = time.thread_time() + 0.1
        while time.thread_time() < end:
            pass

    def compute_beside() -> None:
        thread = threading.Thread(target=compute)
        thread.start()
        compute()
        thread.join()

    duration_us, cpu_us, _ = measure(compute_beside)
    assert cpu_us >= 190_000
    assert duration_us >= 100_000


def allocate(n_bytes: int) -> None:
    data = bytearray(n_bytes)
    data[::1024] = data[::1024].replace(b"\0", b"x")  # touched, so that it is really allocated
    time.sleep(0.05)


@pytest.mark.usefixtures("watch")
def test_peak_memory_counts_only_the_current_call() -> None:
    kept = bytearray(b"x") * (30 * MB)
    measure(allocate, 150 * MB)
    for n_bytes in (80 * MB, 20 * MB):  # after a larger allocation
        assert abs(measure(allocate, n_bytes)[2] - n_bytes) < 4 * MB
    assert measure(int)[2] < 2 * MB
    del kept


@pytest.mark.skipif(sys.platform != "linux", reason="only glibc gives memory back")
def test_reused_memory_of_earlier_calls_counts_for_the_current_call() -> None:
    def allocate_many() -> None:
        pieces = [bytearray(b"x") * 20_000 for _ in range(2500)]
        kept.append(pieces[-1])  # the rest lies below it, where the C library keeps it

    kept: list[bytearray] = []
    for _ in range(3):
        assert abs(measure(allocate_many)[2] - 50 * MB) < 4 * MB


@pytest.mark.usefixtures("watch")
def test_memory_that_a_call_frees_is_not_counted() -> None:
    holder = [bytearray(b"x") * (50 * MB)]
    assert measure(holder.clear)[2] < 2 * MB


def test_memory_is_measured_by_sampling_if_the_kernel_watch_is_forbidden(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = threading.active_count()
    monkeypatch.setattr(module, "KernelWatch", Forbidden)
    assert abs(measure(allocate, 50 * MB)[2] - 50 * MB) < 4 * MB
    assert threading.active_count() <= threads
