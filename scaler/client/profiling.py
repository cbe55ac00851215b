"""Profiling: what a task took, as users see it. It is measured where the task ran (`processor/meter.py`).

Read by futures. Must never measure anything here.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from scaler.wire.messages.common import PROFILE


@dataclass(frozen=True)
class ProfilingInfo:
    """What the call of a task took. Neither the reading of its arguments nor the way of its result are part of it."""

    duration_us: int
    """wall time in microseconds"""
    cpu_time_us: int
    """processor time of all threads of the process, in microseconds; without that of processes that the task started"""
    peak_memory: int
    """how far the memory of the process (its resident set) rose at most above where it was before, in bytes; on Linux
    as the kernel saw it, elsewhere as seen every few milliseconds; exact to some hundred KiB. Room that Python
    keeps for small objects of earlier tasks, and that is used again, is not seen"""

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
    """Return what is in the profile of a result.

    Raises:
        ValueError: if it cannot be read.
    """
    try:
        return ProfilingInfo(*PROFILE.unpack(data))
    except struct.error:
        raise ValueError(f"a profile has {PROFILE.size} bytes; this one, of {len(data)}, cannot be read") from None
