"""Memory: how much of it this process has, and giving back what it does not use.

The C library keeps what was freed, in the hope that it will be asked for again; after a task that needed gigabytes, a
process would have them for good. Asked by agent and processors. Where the C library is not glibc, nothing is given
back.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable
from pathlib import Path

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
