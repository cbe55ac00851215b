"""Files: raises the limit of open files. Each connection and each large object takes one."""

from __future__ import annotations

import contextlib
import resource
import threading

MANY_FILES = 65_536


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
