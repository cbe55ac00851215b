"""Interruptions: separates exceptions that are meant for the whole thread from exceptions that a value's code raises.

Values run code while they are written and read, and that code may raise any exception, also `SystemExit`. Such an
exception is the failure of the value. Ctrl-C, an exception of a signal handler and the end of a cancelled task are no
failure of the value. They may occur at any moment, and are raised again.
"""

from __future__ import annotations

import opcode
import signal
import threading
import traceback
from types import FrameType

from scaler.errors import TaskInterrupt


def is_interruption(error: BaseException) -> bool:
    """Return whether an exception was raised while a value was written or read, but not by the code of the value."""
    if isinstance(error, TaskInterrupt):
        return True
    if threading.current_thread() is not threading.main_thread():  # no other thread receives signals
        return False
    if isinstance(error, KeyboardInterrupt) and not _is_raised_by_statement(error):
        return True
    handlers = {getattr(signal.getsignal(number), "__code__", None) for number in signal.valid_signals()}
    return any(frame.f_code in handlers for frame, _ in traceback.walk_tb(error.__traceback__))


def _is_raised_by_statement(error: BaseException) -> bool:
    """Return whether a `raise` statement raised the exception, and not Python itself between two instructions.

    In the traceback, the entries that follow the entry of a `raise` statement are older than the statement. If they
    have a frame in common with the entries before, the statement only raised the exception again. If they have none,
    the exception was new, or was kept from another run of code.
    """
    frames: list[FrameType] = []
    raised_after: list[int] = []
    place = error.__traceback__
    while place is not None:
        frames.append(place.tb_frame)
        if place.tb_frame.f_code.co_code[place.tb_lasti] == opcode.opmap["RAISE_VARARGS"]:
            raised_after.append(len(frames))
        place = place.tb_next
    return any(set(frames[:count]).isdisjoint(frames[count:]) for count in raised_after)
