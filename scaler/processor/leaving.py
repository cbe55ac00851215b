"""Leaving: ends a processor in good order, as the interpreter ends a program.

Threads of user code are joined and handlers of `atexit` run. Then the background helpers of libraries see the ends of
their pipes and clean up: those of `multiprocessing` and loky delete the shared memory that tasks have left. All of this
may take one second.

Must never: return to user code, or delay the end of its process.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

LEAVE_SECONDS = 1.0
_LOOK_SECONDS = 0.005


def leave(channel: int, last_words: Callable[[], None]) -> None:
    """End all that user code has begun in this process; the process itself is ended by the caller, or after a second.

    Args:
        channel: the descriptor that stays open, since its end is news to the agent.
        last_words: called when user code does not run any more.
    """
    watchdog = threading.Timer(LEAVE_SECONDS, os._exit, (0,))
    watchdog.daemon = True
    watchdog.start()
    for end in (threading._shutdown, atexit._run_exitfuncs):  # type: ignore[attr-defined]  # noqa: SLF001
        with contextlib.suppress(BaseException):  # handlers of user code may raise anything
            end()  # as `multiprocessing` ends its children
    last_words()
    with contextlib.suppress(ChildProcessError):
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        _close_all_but(channel)
        while True:  # until there is no child any more
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(_LOOK_SECONDS)


def _close_all_but(channel: int) -> None:
    """Close the ends of pipes that helpers look at."""
    try:
        descriptors = [int(path.name) for path in Path("/proc/self/fd").iterdir()]
    except OSError:
        descriptors = list(range(os.sysconf("SC_OPEN_MAX")))
    for descriptor in descriptors:
        if descriptor > 2 and descriptor != channel:
            with contextlib.suppress(OSError):
                os.close(descriptor)
