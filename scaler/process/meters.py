"""Meters: processor time and memory of processes and of this machine, as the system reports them.

Used by the scheduler and the agents, only while viewers are subscribed. Values are 0 where the system does not report
them (not Linux), or if the process has ended.
"""

from __future__ import annotations

import os
import resource
from pathlib import Path
from typing import NamedTuple

_PROC = Path("/proc")
_TICK_SECONDS = 1 / os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = resource.getpagesize()
_USER_TIME, _SYSTEM_TIME, _RESIDENT_PAGES = 11, 12, 21
"""The indices in /proc/PID/stat of user time, system time and resident pages, counted after the program's name."""


class ProcessReading(NamedTuple):
    """The processor time and memory of a process, as the system reports them."""

    cpu_seconds: float = 0.0
    resident_bytes: int = 0
    is_stopped: bool = False
    """whether a signal has stopped the process"""


def read_process(pid: int) -> ProcessReading:
    """Return the usage of a process; all values are 0 if the system does not report it."""
    try:
        fields = (_PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
        ticks = int(fields[_USER_TIME]) + int(fields[_SYSTEM_TIME])
        return ProcessReading(ticks * _TICK_SECONDS, int(fields[_RESIDENT_PAGES]) * _PAGE_BYTES, fields[0] == b"T")
    except (OSError, IndexError, ValueError):
        return ProcessReading()


def peak_bytes(pid: int) -> int:
    """Return the peak memory of a process."""
    return _kilobytes(_PROC / str(pid) / "status", b"VmHWM:") * 1024


def host_free_bytes() -> int:
    """Return the memory that this machine can still give to programs."""
    return _kilobytes(_PROC / "meminfo", b"MemAvailable:") * 1024


def _kilobytes(path: Path, name: bytes) -> int:
    try:
        return int(path.read_bytes().partition(name)[2].split(None, 1)[0])
    except (OSError, IndexError, ValueError):
        return 0


class CpuMeter:
    """Measures how busy processes are between two readings of their processor time."""

    def __init__(self) -> None:
        self._before: dict[int, tuple[float, float]] = {}
        """process id -> time of the last reading, and the processor time in that reading"""

    def look(self, pid: int, now: float) -> tuple[int, ProcessReading]:
        """Return how busy a process was since its last reading (permille of a core, at first 0), and the reading."""
        reading = read_process(pid)
        before, before_seconds = self._before.get(pid, (now, reading.cpu_seconds))
        self._before[pid] = (now, reading.cpu_seconds)
        if now <= before:
            return 0, reading
        return max(0, round(1000 * (reading.cpu_seconds - before_seconds) / (now - before))), reading

    def keep_only(self, pids: set[int]) -> None:
        """Forget all processes except `pids`."""
        for pid in self._before.keys() - pids:
            del self._before[pid]
