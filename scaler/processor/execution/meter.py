"""CallMeter: measures wall time, CPU time and memory of a call. Used by the processor for profiled tasks.

`elapsed_us` is the wall time of all others, too.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from time import perf_counter_ns, process_time_ns
from typing import Any

from scaler.process.memory import trim_memory
from scaler.wire.messages.common import PROFILE

SAMPLE_SECONDS = 0.005
_LONGEST_US = 2**32 - 1


def elapsed_us(started_ns: int, ended_ns: int) -> int:
    """Return a duration in microseconds, rounded up, as a `RunResult` has it: at most the greatest UInt32."""
    return min((ended_ns - started_ns + 999) // 1000, _LONGEST_US)


class CallMeter:
    """Wraps a function, and measures the call. `profile`, a `PROFILE`, is empty until the call has ended."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.__wrapped__ = function
        self.profile = b""

    def __call__(self, *positional: Any, **keywords: Any) -> Any:
        memory = new_memory_watch()
        cpu_ns, started_ns = process_time_ns(), perf_counter_ns()
        try:
            return self.__wrapped__(*positional, **keywords)
        finally:
            duration_us = (perf_counter_ns() - started_ns) // 1000
            cpu_us = (process_time_ns() - cpu_ns) // 1000
            self.profile = PROFILE.pack(duration_us, cpu_us, memory.end())


class KernelWatch:
    """Reads the peak memory that Linux records. Raises `OSError` if the system does not permit a reset of the peak."""

    def __init__(self) -> None:
        with open("/proc/self/clear_refs", "wb", buffering=0) as file:  # noqa: PTH123 - half the time
            file.write(b"5")
        self._before_bytes = _status("VmRSS:")

    def end(self) -> int:
        """Return the peak memory above the memory at the start, in bytes."""
        return max(0, _status("VmHWM:") - self._before_bytes)


def _status(name: str) -> int:
    with open("/proc/self/status", "rb", buffering=0) as file:  # noqa: PTH123
        text = file.read(4096)
    return int(text.partition(name.encode())[2].split(None, 1)[0]) * 1024


class SampledWatch:
    """Samples the memory of this process in a thread."""

    def __init__(self) -> None:
        import psutil  # noqa: PLC0415 - only here, and it takes long

        self._process = psutil.Process()
        self._before_bytes = self._peak_bytes = self._process.memory_info().rss
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="scaler-meter", daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._is_over.wait(SAMPLE_SECONDS):
            self._sample()

    def _sample(self) -> None:
        self._peak_bytes = max(self._peak_bytes, self._process.memory_info().rss)

    def end(self) -> int:
        """Stop sampling. Return the peak memory above the memory at the start, in bytes."""
        self._is_over.set()
        self._thread.join()
        self._sample()
        return self._peak_bytes - self._before_bytes


def new_memory_watch() -> KernelWatch | SampledWatch:
    """Start to watch memory. Unused memory is freed first: a task that reused it would seem to need no memory."""
    trim_memory(0)
    if sys.platform == "linux":
        try:
            return KernelWatch()
        except (OSError, IndexError, ValueError):  # a kernel without it, a container that hides it
            pass
    return SampledWatch()
