"""Memory: how much of it this process has, and giving back what it does not use.

The C library keeps what was freed, in the hope that it will be asked for again; after a task that needed gigabytes, a
process would have them for good. Asked by scheduler, agent and processors. Where the C library is not glibc, nothing is
given back.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable
from pathlib import Path

LONGEST_PAUSE = 63
"""So often in a row `SpareMemory` skips its turn when there was nothing to give back."""

_STATM = Path("/proc/self/statm")


def resident_bytes() -> int:
    """Return how much memory this process has, shared memory included; 0 where the system does not say (not Linux)."""
    try:
        return int(_STATM.read_bytes().split()[1]) * mmap.PAGESIZE
    except OSError:
        return 0


def _find_trim() -> Callable[[int], int] | None:
    try:
        trim: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None
    return trim


_trim = _find_trim()


def give_back_memory(above_bytes: int) -> bool:
    """Give memory that was freed back to the system, if this process has more than so many bytes.

    Returns:
        whether it had.
    """
    if _trim is None or resident_bytes() <= above_bytes:
        return False
    _trim(0)
    return True


class SpareMemory:
    """Gives memory back from time to time; less and less often while there is none to give.

    To look for it takes some milliseconds for each hundred megabytes that are in use, so it must pay.

    Args:
        step_bytes: so much more than at the beginning is worth a look; a quarter of it is worth another one soon.
    """

    def __init__(self, step_bytes: int) -> None:
        self._step_bytes = step_bytes
        self._first_bytes = self._last_bytes = resident_bytes()
        self._pause = 0
        self._to_skip = 0

    def give_back(self) -> bool:
        """Give back what was freed, if it is time. To be called regularly. Returns whether it was tried."""
        before = resident_bytes()
        if before > self._last_bytes + self._step_bytes:
            self._to_skip = 0  # much has happened
        if self._to_skip:
            self._to_skip -= 1
            return False
        if not give_back_memory(self._first_bytes + self._step_bytes):
            return False
        self._last_bytes = resident_bytes()
        is_worth_it = before - self._last_bytes >= self._step_bytes / 4
        self._pause = 0 if is_worth_it else min(2 * self._pause + 1, LONGEST_PAUSE)
        self._to_skip = self._pause
        return True
