"""Streams: the standard output and the standard error of tasks, whose lines go to the log of the process.

A line is logged when it is complete, when it has 8 KiB, or when its task ends. Of a line that is rewritten with
carriage returns, as progress bars do, the last state is logged.

    print --> TextIOWrapper --> _LineLogger --> TaskLogHandlers --> the handlers of the process's own log
                                            `-> OutputSender --> the agent, and all that watch the output of the task

The log handlers are taken when the process starts, so that what tasks do to `logging` does not affect them.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import sys
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from scaler.process.logs import TASK_OUTPUT
from scaler.wire.messages.common import OutputStream

LINE_BYTES = 8192
"""The length at which an unfinished line is logged."""

STANDARD_OUTPUT, STANDARD_ERROR = 1, 2
LEVELS = {STANDARD_OUTPUT: logging.INFO, STANDARD_ERROR: logging.WARNING}
"""The log level of each stream: standard error has `WARNING`, because programs write warnings to it."""

_STREAMS = {STANDARD_OUTPUT: OutputStream.STANDARD_OUTPUT, STANDARD_ERROR: OutputStream.STANDARD_ERROR}


class TaskLogHandlers:
    """The handlers that log the output of tasks: those that the logger `scaler.task` has when this object is made."""

    def __init__(self) -> None:
        logger: logging.Logger | None = logging.getLogger(TASK_OUTPUT)
        assert logger is not None
        self._level = logger.getEffectiveLevel()
        self._handlers: list[logging.Handler] = []
        while logger is not None:
            self._handlers += logger.handlers
            logger = logger.parent if logger.propagate else None
        self._thread = threading.local()

    def log_line(self, level: int, text: str) -> None:
        """Log a line. Text that a handler itself writes to the streams of tasks goes to the real standard error."""
        if level < self._level:
            return
        if getattr(self._thread, "is_busy", False):
            with contextlib.suppress(OSError):
                os.write(STANDARD_ERROR, text.encode(errors="backslashreplace") + b"\n")
            return
        self._thread.is_busy = True
        try:
            record = logging.LogRecord(TASK_OUTPUT, level, "", 0, text, None, None)
            for handler in self._handlers:
                if level >= handler.level:
                    with contextlib.suppress(Exception):  # a filter of the user's configuration may raise anything
                        handler.handle(record)
        finally:
            self._thread.is_busy = False


class _LineLogger(io.BufferedIOBase):
    """Logs each line that is written to this stream, even after `close`, which the garbage collector may call."""

    mode = "wb"

    def __init__(self, descriptor: int, log_line: Callable[[str], None], written: deque[int]) -> None:
        self.written = written
        self.name = "<stdout>" if descriptor == STANDARD_OUTPUT else "<stderr>"
        self.unfinished_bytes = 0
        self._descriptor = descriptor
        self._log_line = log_line
        self._parts: list[bytes] = []
        self._lock = threading.RLock()
        self._is_forked = False

    def forked(self) -> None:
        """Reset the stream in a forked process. Another thread may have held its lock.

        From now on, `flush` logs an unfinished line, because no task ends in this process.
        """
        self._lock = threading.RLock()
        self._parts, self.unfinished_bytes = [], 0
        self._is_forked = True

    @property
    def raw(self) -> _LineLogger:
        """The unbuffered stream below this stream, which is this stream itself."""
        return self

    def fileno(self) -> int:
        return self._descriptor

    def writable(self) -> bool:
        return True

    def close(self) -> None:
        self.end_line()

    def flush(self) -> None:
        if self._is_forked:
            self.end_line()

    def write(self, data: Any, /) -> int:
        text = bytes(data)
        with self._lock:
            self._parts.append(text)
            self.unfinished_bytes += len(text)
            self.written.append(self._descriptor)
            if b"\n" not in text and self.unfinished_bytes < LINE_BYTES:
                return len(text)
            *lines, rest = b"".join(self._parts).split(b"\n")
            rest = _last_state(rest)
            if len(rest) >= LINE_BYTES:
                lines.append(rest)
                rest = b""
            self._parts, self.unfinished_bytes = [rest], len(rest)
        for line in lines:
            self._log_last_state(line)
        return len(text)

    def end_line(self) -> None:
        """Log the unfinished line. Do nothing if all lines are finished."""
        with self._lock:
            rest = b"".join(self._parts)
            self._parts, self.unfinished_bytes = [], 0
        if rest:
            self._log_last_state(rest)

    def _log_last_state(self, line: bytes) -> None:
        if b"\r" in line:
            line = _last_state(line).rstrip(b"\r")
            if not line.strip():  # a progress bar has erased itself
                return
        self._log_line(line.decode(errors="backslashreplace"))


def _last_state(line: bytes) -> bytes:
    """Return roughly what a terminal shows of a line: the text after the last carriage return inside the line."""
    return line[line.rfind(b"\r", 0, len(line.rstrip(b"\r"))) + 1 :] if b"\r" in line else line


class TaskTextStream(io.TextIOWrapper):
    """The text stream that tasks see as `sys.stdout` or `sys.stderr`."""

    is_detached = False

    def __init__(self, lines: _LineLogger) -> None:
        super().__init__(lines, "utf-8", "backslashreplace", newline="\n", write_through=True)
        self.mode = "w"  # type: ignore[misc]
        self._written = lines.written

    def detach(self) -> Any:
        self.is_detached = True
        self._written.append(0)
        return super().detach()

    def reconfigure(self, **_options: Any) -> None:
        """Ignore all options, because the stream outlives the task."""


class TaskStreams:
    """Replaces `sys.stdout` and `sys.stderr` by streams that log what tasks write."""

    def __init__(self) -> None:
        self._log = TaskLogHandlers()
        self.forward: Callable[[OutputStream, str], bool] = _discard
        """called with each line before it is logged; returns whether the line belongs to a task"""
        self.logs_tasks = True
        self.written: deque[int] = deque(maxlen=1)
        """not empty if a task has written to the streams since `after_task` was last called"""
        self._lines = [
            _LineLogger(descriptor, partial(self._log_line, descriptor), self.written) for descriptor in LEVELS
        ]
        self._output_lines, self._error_lines = self._lines
        self._output, self._error = map(TaskTextStream, self._lines)

    def _log_line(self, descriptor: int, line: str) -> None:
        is_of_task = self.forward(_STREAMS[descriptor], line)
        if self.logs_tasks or not is_of_task:
            self._log.log_line(LEVELS[descriptor], line)

    def enter(self) -> None:
        """Replace `sys.stdout` and `sys.stderr`."""
        sys.stdout, sys.stderr = self._output, self._error

    def after_task(self) -> None:
        """Log the lines that a task has left unfinished, and replace streams that the task has detached."""
        self.written.clear()
        if self._output_lines.unfinished_bytes or self._error_lines.unfinished_bytes:
            for lines in self._lines:
                lines.end_line()
        if self._output.is_detached or self._error.is_detached:
            self._renew()

    def of(self, name: str) -> TaskTextStream:
        """Return the stream for `stdout` or `stderr`."""
        return self._output if name == "stdout" else self._error

    def _renew(self) -> None:
        """Make new streams. Set each as `sys.stdout` or `sys.stderr`, unless a task has replaced that stream."""
        output, error = self._output, self._error
        self._output, self._error = map(TaskTextStream, self._lines)
        if getattr(sys, "stdout", None) is output:
            sys.stdout = self._output
        if getattr(sys, "stderr", None) is error:
            sys.stderr = self._error

    def forked(self) -> None:
        """Stop forwarding lines, in a process that a task has forked."""
        self.forward = _discard
        for lines in self._lines:
            lines.forked()


def _discard(_stream: OutputStream, _line: str) -> bool:
    return False
