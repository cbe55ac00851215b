"""ProcessLimits: when a process reaches its limits, and how much memory its tasks get."""

from __future__ import annotations

import mmap
import resource
import sys

import pytest

from scaler.errors import ObjectTooLargeError
from scaler.processor.lifecycle.limits import CHECK_BYTES, ProcessLimits, check_memory, own_bytes
from scaler.settings import ClusterConfig
from tests.support.processes import run_script

ADDRESS = "tcp://127.0.0.1:1"
MB = 1_000_000


def limits(**settings: int) -> ProcessLimits:
    return ProcessLimits(ClusterConfig(ADDRESS, 1, **settings))  # type: ignore[arg-type]


def private_memory(megabytes: int) -> mmap.mmap:
    """Map memory without the allocator of this process, which would behave differently afterwards."""
    return mmap.mmap(-1, megabytes * MB, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def test_without_a_setting_there_are_no_limits() -> None:
    none = limits()
    assert not none.has_any
    assert not none.are_reached(10**9)


def test_a_process_reaches_its_limit_after_the_maximum_number_of_tasks() -> None:
    few = limits(max_tasks_per_processor=3)
    assert few.has_any
    assert [few.tasks_until_check(ran) for ran in (0, 1, 2, 3, 4)] == [3, 2, 1, 1, 1]
    assert [few.are_reached(ran) for ran in (0, 2, 3, 4)] == [False, False, True, True]


@pytest.mark.processes
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says how much memory is whose")
def test_kept_memory_counts_toward_the_limit_and_freed_memory_does_not() -> None:
    """Runs in its own process: this one may give back memory of other tests meanwhile."""
    done = run_script(f"from {__name__} import keep_and_free\nkeep_and_free()")
    assert done.returncode == 0, done.stderr


def keep_and_free() -> None:
    before = own_bytes()
    assert before > 0
    some = limits(processor_memory_bytes=(before + 200 * MB) * 4 // 3)
    assert some.tasks_until_check(0) == 1
    assert not some.are_reached(1)
    kept = private_memory(300)
    kept.write(b"x" * (300 * MB))
    assert own_bytes() - before > 250 * MB
    assert some.are_reached(1)
    kept.close()
    assert not some.are_reached(2)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has this limit")
def test_a_task_cannot_exceed_the_memory_limit_of_its_process() -> None:
    usual = resource.getrlimit(resource.RLIMIT_DATA)
    some = limits(processor_memory_bytes=own_bytes() + 300 * MB)
    for _ in range(2):
        with some.of_memory():
            private_memory(100).close()
            with pytest.raises(OSError, match="allocate memory"):
                private_memory(500)
    assert resource.getrlimit(resource.RLIMIT_DATA) == usual
    private_memory(500).close()


def test_a_result_too_large_to_copy_is_refused_and_small_results_are_not_checked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks: list[int] = []

    def room() -> int:
        looks.append(1)
        return 80_000_000

    monkeypatch.setattr("scaler.processor.lifecycle.limits.largest_value_bytes", room)
    check_memory([bytes(CHECK_BYTES - 1)], "w")
    assert looks == []
    check_memory([bytes(40_000_000), bytes(40_000_000)], "w")
    with pytest.raises(
        ObjectTooLargeError, match=r"80,000,001 bytes, and the host of worker w takes at most 80,000,000"
    ):
        check_memory([bytes(40_000_000), bytes(40_000_001)], "w")
    assert looks == [1, 1]
