"""Descriptors: protects the descriptors of a process from user code that closes or redirects them.

Code that makes a process a daemon often closes the descriptors 0, 1 and 2, or all from 3 to some hundred. Libraries
redirect 1 and 2, and may fail before they restore them. Used by worker processes.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
from typing import TypeAlias

_OUT_OF_REACH = 2048
_LAST_ONES = 16
"""How many of the highest numbers duplicates may have if the limit of open files is too low for `_OUT_OF_REACH`."""

_Identity: TypeAlias = tuple[int, int] | None
"""Device and inode of the open file; None: the descriptor is closed."""


def high_duplicate(descriptor: int) -> int:
    """Return a duplicate whose number is too high for daemons to close. Raises `OSError` if no descriptor is free."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = _OUT_OF_REACH if limit == resource.RLIM_INFINITY else min(_OUT_OF_REACH, limit - _LAST_ONES)
    try:
        return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, max(lowest, 3))
    except OSError:  # the high numbers are in use
        return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)


class KeptDescriptors:
    """The files behind the descriptors 0, 1 and 2 of a process."""

    def __init__(self) -> None:
        self._saved = {number: (_identity(number), _duplicate(number)) for number in range(3)}

    def accept(self) -> None:
        """Save the files that the descriptors have now. A closed descriptor gets its former file back."""
        for number, (identity, spare) in self._saved.items():
            now = _identity(number)
            if now is None:
                _copy(spare, number)
            elif now != identity:
                self._saved[number] = now, _duplicate(number)
                if spare is not None:
                    os.close(spare)

    def restore(self) -> None:
        """Restore the descriptors that were closed or redirected."""
        for number, (identity, spare) in self._saved.items():
            if _identity(number) != identity:
                _copy(spare, number)


def _identity(descriptor: int) -> _Identity:
    try:
        status = os.fstat(descriptor)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _duplicate(descriptor: int) -> int | None:
    with contextlib.suppress(OSError):
        return high_duplicate(descriptor)
    return None


def _copy(spare: int | None, number: int) -> None:
    """Restore a descriptor from its duplicate, or from the null device if there is no duplicate."""
    try:
        if spare is not None:
            os.dup2(spare, number)
            return
    except OSError:
        pass  # the duplicate was closed, too
    with contextlib.suppress(OSError):
        null = os.open(os.devnull, os.O_RDWR)
        if null != number:
            os.dup2(null, number)
            os.close(null)
