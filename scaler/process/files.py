"""Files: raises the limit of open files, and says when it is nearly reached. Each connection and each large object
takes one.
"""

from __future__ import annotations

import contextlib
import os
import resource
import threading

MANY_FILES = 65_536

RESERVE = 0.1
"""Fewer files than this part of the limit are few."""
RESERVE_LEAST = 256
"""Or fewer than this, but no more than a quarter: so many may be opened at once before anybody looks again."""


def allow_many_files() -> int:
    """Raise the soft limit of open files of this process, and of those that it starts.

    Only in the main thread: otherwise this is a user's program, which decides for itself.

    Returns:
        the limit that holds now.
    """
    with contextlib.suppress(ValueError, OSError):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = MANY_FILES if hard == resource.RLIM_INFINITY else min(hard, MANY_FILES)
        if soft < most and threading.current_thread() is threading.main_thread():
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


class OpenFiles:
    """Says once, each time that it comes to that, that few more files can be opened. A look costs two system calls.

    Attributes:
        are_scarce: whether few were left at the last look.
    """

    def __init__(self) -> None:
        self.are_scarce = False

    def warning(self) -> str:
        """Return a sentence if few files are left, and enough were at the last look; else nothing."""
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        reserve = max(int(RESERVE * limit), min(RESERVE_LEAST, limit // 4))
        was_scarce, self.are_scarce = self.are_scarce, _lowest_free(limit) >= limit - reserve
        if was_scarce or not self.are_scarce:
            return ""
        return (
            f"nearly all of the {limit} files that this process may have open are open: soon nobody else can connect; "
            f"raise the hard limit (ulimit -Hn, or LimitNOFILE= of systemd)"
        )


def _lowest_free(limit: int) -> int:
    """Return the number that the next file gets: the system takes the lowest free one. The limit: there is none."""
    try:
        descriptor = os.dup(0)
    except OSError:
        return limit
    os.close(descriptor)
    return descriptor
