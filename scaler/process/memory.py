"""Memory: measures the memory of this process and returns unused memory to the system.

The C library keeps freed memory for later use, so a process would keep the gigabytes of one large task for good. Used
by scheduler, agent and processors. Only glibc can give memory back.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable
from pathlib import Path

LONGEST_PAUSE = 63
"""The most turns in a row that `SpareMemory` skips when there was nothing to give back."""

_STATM = Path("/proc/self/statm")


def resident_bytes() -> int:
    """Return the memory of this process, including shared memory; 0 if the system does not tell (not Linux)."""
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

    Each try takes some milliseconds per hundred megabytes in use, so it must pay.

    Args:
        step_bytes: growth since the start, or since the last try, that is worth a try; a quarter of it freed is worth
            another try soon.
    """

    def __init__(self, step_bytes: int) -> None:
        self._step_bytes = step_bytes
        self._first_bytes = self._last_bytes = resident_bytes()
        self._held_bytes = 0
        """the most that was held since the last try"""
        self._pause = 0
        self._to_skip = 0

    def give_back(self, held_bytes: int = 0) -> bool:
        """Give back what was freed, if it is time. To be called regularly.

        Args:
            held_bytes: how much the process knows that it holds: when that becomes less, there is something to give.

        Returns:
            whether it was tried.
        """
        before = resident_bytes()
        self._held_bytes = max(self._held_bytes, held_bytes)
        if before > self._last_bytes + self._step_bytes or held_bytes < self._held_bytes - self._step_bytes:
            self._to_skip = 0  # much has happened
        if self._to_skip:
            self._to_skip -= 1
            return False
        if not give_back_memory(self._first_bytes + self._step_bytes):
            return False
        self._last_bytes, self._held_bytes = resident_bytes(), held_bytes
        is_worth_it = before - self._last_bytes >= self._step_bytes / 4
        self._pause = 0 if is_worth_it else min(2 * self._pause + 1, LONGEST_PAUSE)
        self._to_skip = self._pause
        return True
