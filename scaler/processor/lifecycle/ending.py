"""Ending: ends a processor, or a process that a task has forked, as the interpreter ends a program.

A processor (`leave`) joins the threads of user code and runs the handlers of `atexit`. Then the helpers of
`multiprocessing` and loky see the ends of their pipes, and delete the shared memory that tasks have left. All of this
may take at most one second.

A process that a task has forked (`end_forked`) ends when it returns from the task's function, with the exit code of
`sys.exit` or with a traceback. It runs no handlers of `atexit`, which belong to its parent.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

_INTERRUPTED = 130
"""the exit code that a shell shows after Ctrl-C"""
LEAVE_SECONDS = 1.0
_LOOK_SECONDS = 0.005


def end_forked(error: BaseException | None) -> NoReturn:
    """End this forked process as the interpreter ends a program; `error`: an exception of its function, or None."""
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


def leave(channel: int, on_user_code_ended: Callable[[], None]) -> None:
    """End all that user code has started; the caller then ends the process. A timer ends the process after a second.

    Args:
        channel: the descriptor that stays open, because its closing tells the agent that this process has ended.
        on_user_code_ended: called when user code no longer runs.
    """
    watchdog = threading.Timer(LEAVE_SECONDS, os._exit, (0,))
    watchdog.daemon = True
    watchdog.start()
    for end in (threading._shutdown, atexit._run_exitfuncs):  # type: ignore[attr-defined]  # noqa: SLF001
        with contextlib.suppress(BaseException):  # handlers of user code may raise anything
            end()  # as `multiprocessing` ends its children
    on_user_code_ended()
    with contextlib.suppress(ChildProcessError):
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        _close_all_but(channel)
        while True:  # until no child is left
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(_LOOK_SECONDS)


def _close_all_but(channel: int) -> None:
    """Close all descriptors but `channel` and the standard ones. Helper processes wait for the ends of their pipes."""
    try:
        descriptors = [int(path.name) for path in Path("/proc/self/fd").iterdir()]
    except OSError:
        descriptors = list(range(os.sysconf("SC_OPEN_MAX")))
    for descriptor in descriptors:
        if descriptor > 2 and descriptor != channel:
            with contextlib.suppress(OSError):
                os.close(descriptor)
