"""Memory: measures the memory of this process and returns unused memory to the system.

The C library keeps freed memory for later use, so a process would keep the gigabytes of one large task for good. Used
by scheduler, agent and processors. Only glibc can return memory.
"""

from __future__ import annotations

import ctypes
import mmap
import resource
from collections.abc import Callable, Iterator
from pathlib import Path

from scaler.cores import along, memberships

LONGEST_PAUSE = 63
"""The most calls in a row that `SpareMemory` skips. After each try that frees too little, it skips more calls than
before.
"""

VALUE_LEAST_BYTES = 1 << 20
"""The size up to which a value is accepted, however little memory is free."""

_STATM = Path("/proc/self/statm")
_NO_LIMIT = 2**62


def resident_bytes() -> int:
    """Return the memory of this process, including shared memory; 0 if the system does not report it (not Linux)."""
    try:
        return int(_STATM.read_bytes().split()[1]) * mmap.PAGESIZE
    except OSError:
        return 0


def largest_value_bytes(root: Path = Path("/")) -> int:
    """Return the size of the largest value that this process can hold: four fifths of the free memory."""
    return max(VALUE_LEAST_BYTES, free_bytes(root) * 4 // 5)


def free_bytes(root: Path = Path("/")) -> int:
    """Return the memory that this process can still get: the least of what host, control groups and address space
    leave.

    Limits that the system does not report are ignored. `root`: the folder that contains `proc` and `sys`.
    """
    return max(0, min([_NO_LIMIT, *_left_by_host(root / "proc"), *_left_by_groups(root), *_left_by_limit(root)]))


def _left_by_host(proc: Path) -> Iterator[int]:
    """Yield the available memory of the host, with swap. Without overcommit, yield the unused commit limit, too."""
    host = _numbers(proc / "meminfo")
    if "MemAvailable" in host:
        yield 1024 * (host["MemAvailable"] + host.get("SwapFree", 0))
    if _text(proc / "sys/vm/overcommit_memory") == "2" and "CommitLimit" in host:
        yield 1024 * (host["CommitLimit"] - host.get("Committed_AS", 0))


def _left_by_groups(root: Path) -> Iterator[int]:
    """Yield the memory that each control group of this process leaves; a parent's limit applies to its children."""
    groups = root / "sys/fs/cgroup"
    for controllers, path in memberships(root / "proc/self/cgroup"):
        if not controllers:
            yield from along(groups, path, _left_v2)
            yield from along(groups / "unified", path, _left_v2)
        elif "memory" in controllers.split(","):
            yield from along(groups / "memory", path, _left_v1)


def _left_v2(group: Path) -> int:
    most = int((group / "memory.max").read_text())  # "max" is no number: no limit
    files = _numbers(group / "memory.stat")
    used = int((group / "memory.current").read_text())
    return most - used + files.get("inactive_file", 0) + files.get("active_file", 0)


def _left_v1(group: Path) -> int:
    most = int((group / "memory.limit_in_bytes").read_text())
    files = _numbers(group / "memory.stat")
    used = int((group / "memory.usage_in_bytes").read_text())
    return most - used + files.get("total_inactive_file", 0) + files.get("total_active_file", 0)


def _left_by_limit(root: Path) -> Iterator[int]:
    most, _ = resource.getrlimit(resource.RLIMIT_AS)
    pages = _text(root / "proc/self/statm").split()
    if most != resource.RLIM_INFINITY and pages:
        yield most - int(pages[0]) * mmap.PAGESIZE


def _numbers(file: Path) -> dict[str, int]:
    rows = (line.replace(":", " ").split() for line in _text(file).splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) > 1 and row[1].isdigit()}


def _text(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:
        return ""


def _find_trim() -> Callable[[int], int] | None:
    try:
        trim: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None
    return trim


_trim = _find_trim()


def trim_memory(above_bytes: int) -> bool:
    """Give freed memory back to the system if the process uses more than `above_bytes`. Return whether there was a
    try.
    """
    if _trim is None or resident_bytes() <= above_bytes:
        return False
    _trim(0)
    return True


class SpareMemory:
    """Returns memory to the system from time to time, and less often while there is little to return.

    Args:
        step_bytes: memory is returned only after the process has grown by this much. A try takes milliseconds per
            hundred megabytes. If a try frees a quarter of `step_bytes`, the next one follows soon.
    """

    def __init__(self, step_bytes: int) -> None:
        self._step_bytes = step_bytes
        self._first_bytes = self._last_bytes = resident_bytes()
        self._held_bytes = 0
        """the maximum of the argument `held_bytes` since the last try"""
        self._pause = 0
        self._to_skip = 0

    def trim_if_due(self, held_bytes: int = 0) -> bool:
        """Give freed memory back to the system if a try is due. Return whether there was a try. Called regularly.

        Args:
            held_bytes: the size of all known values of this process. If this size shrinks, there is memory to return.
        """
        before = resident_bytes()
        self._held_bytes = max(self._held_bytes, held_bytes)
        if before > self._last_bytes + self._step_bytes or held_bytes < self._held_bytes - self._step_bytes:
            self._to_skip = 0  # usage has changed much
        if self._to_skip:
            self._to_skip -= 1
            return False
        if not trim_memory(self._first_bytes + self._step_bytes):
            return False
        self._last_bytes, self._held_bytes = resident_bytes(), held_bytes
        is_worth_it = before - self._last_bytes >= self._step_bytes / 4
        self._pause = 0 if is_worth_it else min(2 * self._pause + 1, LONGEST_PAUSE)
        self._to_skip = self._pause
        return True
