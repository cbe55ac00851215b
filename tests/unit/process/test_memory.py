"""Measuring memory, and giving it back above a threshold."""

from __future__ import annotations

import mmap
import resource
import sys
from pathlib import Path

import psutil
import pytest

from scaler.process import memory
from scaler.process.memory import (
    VALUE_LEAST_BYTES,
    SpareMemory,
    free_bytes,
    largest_value_bytes,
    resident_bytes,
    trim_memory,
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing is given back")

PIECES, PIECE_BYTES = 2000, 50_000  # too small for a mapping of their own


def test_resident_memory_is_the_figure_of_the_system() -> None:
    assert resident_bytes() == pytest.approx(psutil.Process().memory_info().rss, rel=0.1)


def test_memory_below_the_threshold_is_kept() -> None:
    assert not trim_memory(resident_bytes() * 10)


@pytest.mark.skipif(memory._trim is None, reason="not glibc")
def test_memory_above_the_threshold_is_given_back() -> None:
    pieces = [bytearray(PIECE_BYTES) for _ in range(PIECES)]
    full_bytes = resident_bytes()
    pinned = pieces[-1]  # at the top of the heap: memory below it is not given back automatically
    pieces.clear()
    assert resident_bytes() > full_bytes - PIECES * PIECE_BYTES / 2
    assert trim_memory(0)
    assert resident_bytes() < full_bytes - PIECES * PIECE_BYTES / 2
    assert len(pinned) == PIECE_BYTES


def test_without_a_trim_nothing_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_trim", None)
    assert not trim_memory(0)


def test_resident_memory_is_zero_on_a_system_that_does_not_report_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_STATM", memory.Path("/nowhere"))
    assert resident_bytes() == 0


class System:
    """A process with `resident` bytes, `free` of which are free."""

    def __init__(self, resident: int, free: int) -> None:
        self.resident, self.free, self.trims = resident, free, 0

    def trim(self, _pad: int) -> int:
        self.trims += 1
        self.resident -= self.free
        self.free = 0
        return 1


@pytest.fixture
def system(monkeypatch: pytest.MonkeyPatch) -> System:
    system = System(100, 0)
    monkeypatch.setattr(memory, "resident_bytes", lambda: system.resident)
    monkeypatch.setattr(memory, "_trim", system.trim)
    return system


def test_spare_memory_is_given_back_only_above_the_level_at_the_start(system: System) -> None:
    spare = SpareMemory(step_bytes=40)
    system.resident = 140
    assert not spare.trim_if_due()
    system.resident, system.free = 160, 50
    assert spare.trim_if_due()
    assert system.resident == 110
    assert not spare.trim_if_due()


def test_searches_for_spare_memory_become_rarer_while_there_is_none(system: System) -> None:
    spare = SpareMemory(step_bytes=40)
    system.resident = 1000
    tries = [spare.trim_if_due() for _ in range(16)]
    assert [index for index, was_tried in enumerate(tries) if was_tried] == [0, 2, 6, 14]
    system.resident = 1041
    assert spare.trim_if_due(), "much memory was allocated since"
    system.resident, system.free = 1090, 30
    assert spare.trim_if_due()
    assert spare.trim_if_due(), "the last search found memory"


def test_spare_memory_is_searched_when_much_less_is_held_than_at_the_last_search(system: System) -> None:
    spare = SpareMemory(step_bytes=40)
    system.resident = 1000
    assert [spare.trim_if_due(held_bytes=800) for _ in range(15)].count(True) == 4
    assert not spare.trim_if_due(held_bytes=770)
    system.free = 700
    assert spare.trim_if_due(held_bytes=100)
    assert system.resident < 400


# Free memory

V2_GROUPS = {
    "sys/fs/cgroup/memory.stat": "anon 5",  # the root of a machine has no limit
    "sys/fs/cgroup/a/memory.max": "1000000000",
    "sys/fs/cgroup/a/memory.current": "700000000",
    "sys/fs/cgroup/a/memory.stat": "anon 400000000\ninactive_file 200000000\nactive_file 50000000\nshmem 30",
    "sys/fs/cgroup/a/b/memory.max": "max",
    "sys/fs/cgroup/a/b/memory.current": "600000000",
    "sys/fs/cgroup/a/b/memory.stat": "inactive_file 1",
}
V1_GROUPS = {
    "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712",
    "sys/fs/cgroup/memory/memory.usage_in_bytes": "5000000000",
    "sys/fs/cgroup/memory/a/memory.limit_in_bytes": "2000000000",
    "sys/fs/cgroup/memory/a/memory.usage_in_bytes": "1500000000",
    "sys/fs/cgroup/memory/a/memory.stat": "cache 9\ntotal_inactive_file 100000000\ntotal_active_file 20000000",
}
MEMINFO = (
    "MemTotal: 9000000 kB\nMemAvailable: 3000000 kB\nSwapFree: 1000 kB\nCommitLimit: 400000 kB\nCommitted_AS: 390000 kB"
)


@pytest.fixture
def no_limit_of_address_space(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _which: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


@pytest.mark.usefixtures("no_limit_of_address_space")
@pytest.mark.parametrize(
    ("files", "free"),
    [
        ({}, 2**62),
        ({"proc/meminfo": MEMINFO}, 3_001_000 * 1024),
        ({"proc/meminfo": MEMINFO, "proc/sys/vm/overcommit_memory": "0"}, 3_001_000 * 1024),
        ({"proc/meminfo": MEMINFO, "proc/sys/vm/overcommit_memory": "2"}, 10_000 * 1024),
        ({"proc/self/cgroup": "0::/a/b", **V2_GROUPS}, 550_000_000),
        ({"proc/self/cgroup": "0::/a", "proc/meminfo": MEMINFO, **V2_GROUPS}, 550_000_000),
        ({"proc/self/cgroup": "0::/", **V2_GROUPS}, 2**62),
        ({"proc/self/cgroup": "4:cpu,cpuacct:/x\n3:memory:/a/hidden", **V1_GROUPS}, 620_000_000),
        ({"proc/self/cgroup": "3:cpu:/a", **V1_GROUPS}, 2**62),
    ],
)
def test_free_memory_is_the_least_of_the_host_and_all_control_groups(
    tmp_path: Path, files: dict[str, str], free: int
) -> None:
    assert free_bytes(tree(tmp_path, files)) == free


@pytest.mark.usefixtures("no_limit_of_address_space")
def test_one_value_may_take_four_fifths_of_free_memory_and_at_least_a_megabyte(tmp_path: Path) -> None:
    assert largest_value_bytes(tree(tmp_path, {"proc/self/cgroup": "0::/a", **V2_GROUPS})) == 440_000_000
    tree(tmp_path, {"sys/fs/cgroup/a/memory.current": "1250000000"})
    assert largest_value_bytes(tmp_path) == VALUE_LEAST_BYTES


def test_a_limit_of_the_address_space_bounds_free_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _which: (500_000_000, resource.RLIM_INFINITY))
    assert free_bytes(tree(tmp_path, {"proc/self/statm": "100000 7 7 7 0 7 0"})) == max(
        0, 500_000_000 - 100_000 * mmap.PAGESIZE
    )


def test_free_memory_of_this_machine_is_between_zero_and_its_total() -> None:
    assert 0 < free_bytes() <= psutil.virtual_memory().total + psutil.swap_memory().total


def tree(root: Path, files: dict[str, str]) -> Path:
    """Make a folder that looks like the root of a machine."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return root
