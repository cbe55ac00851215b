"""Signals: sets the signal handlers of a processor, also for its tasks.

Ctrl-C in the terminal of a cluster does not arrive here, because each processor has its own process group. Handlers are
Python functions, which `exec` resets, so programs that a task starts have the usual signals.

    SIGINT            KeyboardInterrupt in the task
    SIGTERM           ends the process at once
    INTERRUPT_SIGNAL  TaskInterrupt in the task that was cancelled
    SIGCONT           with hard suspension: the client reports again that the task waits, if it waits
    SIGALRM ...       ignored: an earlier task has set a timer, and its handler was removed

Handlers raise only in the code of a task.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from functools import partial
from importlib import import_module
from types import FrameType
from typing import TypeAlias

INTERRUPT_SIGNAL = signal.SIGURG
"""The signal that interrupts a task. A process without a handler for this signal ignores it."""

_OF_TIMERS = (signal.SIGALRM, signal.SIGVTALRM, signal.SIGPROF)
# The functions of `signal` convert their arguments and results to enumerations, and take fifty times as long.
_handler_of, _set_handler = import_module("_signal").getsignal, import_module("_signal").signal

Handler: TypeAlias = Callable[[int, FrameType | None], None]


def catch_signals(interrupt: Handler, keyboard: Handler, continued: Handler | None) -> None:
    """Set up the signals of a processor.

    Args:
        interrupt: interrupts the executed task if the agent has named that task.
        keyboard: raises `KeyboardInterrupt` if a task is executed.
        continued: called when the process continues after a stop; None if it is never stopped.
    """
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _set_handler(INTERRUPT_SIGNAL, interrupt)
    _set_handler(signal.SIGINT, keyboard)
    for number in _OF_TIMERS:
        _set_handler(number, ignore)
    if continued is not None:
        _set_handler(signal.SIGCONT, continued)


def ignore(_signal: int, _frame: FrameType | None) -> None:
    """Do nothing: the handler of a signal that would end the process by default."""


timer_handler: Callable[[], object] = partial(_handler_of, int(signal.SIGALRM))
"""Returns the handler of SIGALRM. If that is `ignore`, no task has set a handler, so there is no timer to stop."""


def stop_timer() -> None:
    """Stop the timer that a task may have left running (`signal.alarm`)."""
    signal.setitimer(signal.ITIMER_REAL, 0)


def forked() -> None:
    """Reset the signals to the defaults of Python, in a process that a task has forked."""
    signal.signal(INTERRUPT_SIGNAL, signal.SIG_DFL)
    signal.signal(signal.SIGCONT, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in _OF_TIMERS:
        if _handler_of(number) is ignore:
            signal.signal(number, signal.SIG_DFL)
