"""Profiling: the time and memory of a task, for users. `processor/meter.py` measures them where the task runs.

Read by futures. Must never measure anything here.
"""

from __future__ import annotations

from dataclasses import dataclass

from scaler.wire.messages.common import PROFILE


@dataclass(frozen=True)
class ProfilingInfo:
    """The time and memory of a task's call, without the reading of its arguments and the transport of its result."""

    duration_us: int
    """wall time in microseconds"""
    cpu_time_us: int
    """CPU time of all threads of the process, in microseconds, without processes that the task started"""
    peak_memory: int
    """the greatest rise of the resident set above its size before the call, in bytes; on Linux measured by the kernel,
    elsewhere sampled every few milliseconds; exact to a few hundred KiB. Room that Python keeps for small objects of
    earlier tasks and uses again does not count"""

    @property
    def duration_s(self) -> float:
        """The wall time in seconds."""
        return self.duration_us / 1e6

    @property
    def cpu_time_s(self) -> float:
        """The processor time in seconds."""
        return self.cpu_time_us / 1e6

    @property
    def memory_peak(self) -> int:
        """The same as `peak_memory`."""
        return self.peak_memory


def read_profile(data: bytes) -> ProfilingInfo:
    """Return what is in the profile of a result."""
    return ProfilingInfo(*PROFILE.unpack(data))
