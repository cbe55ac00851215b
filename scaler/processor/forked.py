"""Forked: how a process ends that a task has forked with `os.fork()`, when it comes back out of its task.

Such a process is a copy of its processor and has nothing to do with the agent: `Processor.forked` and `Uplink.leave`
cut it off as soon as it exists. What comes back from the task's function ends here as a program of its own would: with
the exit code of `sys.exit`, or with a traceback on its standard error.

Used by whoever calls functions. Must never: return, or run what the process has registered for its own end (`atexit`).
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from typing import NoReturn

_INTERRUPTED = 130
"""what a shell shows for a program that Ctrl-C has ended"""


def end_forked(error: BaseException | None) -> NoReturn:
    """End this process as a program ends, after its threads.

    Args:
        error: what came out of the task's function; None if it has returned.
    """
    code = 1
    try:
        code = _exit_code(error)
        for thread in threading.enumerate():
            if not thread.daemon and thread is not threading.current_thread():
                thread.join()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):  # the task may have put anything in their places
                stream.flush()
    finally:
        os._exit(code)


def _exit_code(error: BaseException | None) -> int:
    """Return the exit code that Python gives a program that ends with `error`, and print what Python prints."""
    if error is None:
        return 0
    if isinstance(error, SystemExit):
        if error.code is None or isinstance(error.code, int):
            return (error.code or 0) & 0xFF
        sys.stderr.write(f"{error.code}\n")
        return 1
    sys.excepthook(type(error), error, error.__traceback__)
    return _INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1
