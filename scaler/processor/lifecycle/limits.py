"""Limits: the number of tasks and the memory of one process; at a limit a fresh process replaces it.

While a task runs, the system refuses memory above the limit, so that only this task fails, with `MemoryError`. Private
writable memory counts, also that of an argument which is mapped for its task. Shared objects do not count.
"""

from __future__ import annotations

import contextlib
import gc
import mmap
import resource
import sys
from collections.abc import Iterator
from pathlib import Path

from scaler.errors import ObjectTooLargeError
from scaler.pickling.serialization import Frames, size_of
from scaler.process.memory import largest_value_bytes, trim_memory
from scaler.settings import ClusterConfig
from scaler.wire.session.too_large import SEND_LESS

_STATM = Path("/proc/self/statm")
_STATUS = Path("/proc/self/status")

CHECK_BYTES = 64 * 1024 * 1024
"""The size from which a result is compared with the free memory: the check is cheap, compared with the copy."""


def check_memory(frames: Frames, worker: str) -> None:
    """Raise `ObjectTooLargeError`, naming `worker`, if this host lacks memory for the agent's copy of a result."""
    size = size_of(frames)
    if size >= CHECK_BYTES and size > (available_bytes := largest_value_bytes()):
        raise ObjectTooLargeError("its result", size, f"the host of worker {worker}", available_bytes, SEND_LESS)


class ProcessLimits:
    """The limits of tasks and memory for one process. `has_any`: whether the settings set a limit."""

    def __init__(self, config: ClusterConfig) -> None:
        self._most_tasks = config.max_tasks_per_processor or sys.maxsize
        self._most_bytes = config.processor_memory_bytes
        self._kept_bytes = max(self._most_bytes * 3 // 4, own_bytes()) if self._most_bytes else 0
        """memory above which a process is replaced between tasks: 3/4 of the limit, or what it uses when fresh if that
        is more
        """
        self.has_any = bool(config.max_tasks_per_processor or config.processor_memory_bytes)

    def tasks_until_check(self, ran: int) -> int:
        """Return how many tasks may run before the next check of the limits. `ran` tasks have run so far."""
        return 1 if self._most_bytes else max(1, self._most_tasks - ran)

    def are_reached(self, ran: int) -> bool:
        """Return whether a limit is reached after `ran` tasks, so that a fresh process should replace this process."""
        if ran >= self._most_tasks:
            return True
        if not self._most_bytes or own_bytes() <= self._kept_bytes:
            return False
        gc.collect()
        trim_memory(0)
        return own_bytes() > self._kept_bytes

    @contextlib.contextmanager
    def of_memory(self) -> Iterator[None]:
        """Let the system refuse memory above the limit within the context. Has an effect only on Linux."""
        data_bytes = _data_bytes() if self._most_bytes else 0
        if not data_bytes:
            yield
            return
        soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
        most_bytes = data_bytes + max(0, self._most_bytes - own_bytes())
        for limit in (soft, hard):
            if limit != resource.RLIM_INFINITY:
                most_bytes = min(most_bytes, limit)
        resource.setrlimit(resource.RLIMIT_DATA, (most_bytes, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def own_bytes() -> int:
    """Return the private memory of this process; 0 if the system does not report it."""
    try:
        _, resident, shared, *_ = _STATM.read_bytes().split()
    except OSError:
        return 0
    return (int(resident) - int(shared)) * mmap.PAGESIZE


def _data_bytes() -> int:
    """Return the memory that the system compares with the limit, including reserved memory; 0 if it is unknown."""
    with contextlib.suppress(OSError):
        for line in _STATUS.read_text().splitlines():
            if line.startswith("VmData:"):
                return int(line.split()[1]) * 1024
    return 0
