"""Forked: ends a process that a task has forked with `os.fork()`, when it returns from the task's function.

Such a process is a copy of its processor without a connection to the agent: `Processor.forked` and `Uplink.leave` cut
it off as soon as it exists. It ends here like a program: with the exit code of `sys.exit`, or with a traceback on its
standard error.

Used by the code that calls user functions. Must never: return, or run handlers of `atexit`, which belong to the parent.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from typing import NoReturn

_INTERRUPTED = 130
"""the exit code that a shell shows after Ctrl-C"""


def end_forked(error: BaseException | None) -> NoReturn:
    """End this process as a program ends, after its threads.

    Args:
        error: the exception of the task's function; None if it has returned.
    """
    code = 1
    try:
        code = _exit_code(error)
        for thread in threading.enumerate():
            if not thread.daemon and thread is not threading.current_thread():
                thread.join()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):  # the task may have replaced them
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
