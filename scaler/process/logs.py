"""Logging of a process: the same format everywhere, several files at once.

This module sets up only processes of Scaler, not the user's program.
"""

from __future__ import annotations

import contextlib
import errno
import io
import logging
import os
import re
import select
import stat
import sys
import time
from typing import TextIO

from scaler.config import ConfigError
from scaler.process.user_code.descriptors import high_duplicate
from scaler.settings import LoggingConfig
from scaler.texts import escaped, printable

FORMAT = "[%(levelname)s]%(asctime)s: %(message)s"
OURS = "scaler."
"""The prefix of the names of Scaler's loggers."""
TASK_OUTPUT = "scaler.task"
"""The name of the logger for what tasks print. This logger ignores the level in the settings."""
SLOW_READER_SECONDS = 0.2
"""The longest time for which a line of a task waits for a slow reader."""
_DESCRIPTORS = ("/dev/fd/", "/proc/self/fd/")
_CONTINUED = re.compile(r"\n(?=\S)")
"""Matches the start of a further line of a log record. Further lines are indented, so that none looks like a record."""
_DEVICES = ("/dev/stdout", "/dev/stderr", "/dev/null")


def set_up_logging(config: LoggingConfig, worker: str = "", is_strict: bool = True) -> None:
    """Send all logging of this process to the places that `config` names.

    Args:
        worker: the name of this process's worker; empty if this process belongs to no worker. The processes of a worker
            append whole lines to files whose names end with the name of the worker.
        is_strict: whether a file that cannot be opened is an error. Otherwise each log line tries to open the file
            again, so that a removed folder or a full disk stops no process of a running cluster.

    Raises:
        ConfigError: if a file cannot be opened.
    """
    if config.config_file is not None:
        from logging.config import fileConfig  # noqa: PLC0415 - only here, and it takes long

        fileConfig(config.config_file, disable_existing_loggers=False)
        return
    root = logging.getLogger()
    for handler in list(root.handlers):
        root.removeHandler(handler)
        handler.close()
    for path in config.paths:
        handler = _handler(path, worker, is_strict)
        handler.setFormatter(_Formatter(config.text_characters))
        root.addHandler(handler)
    root.setLevel(config.level)
    logging.getLogger(TASK_OUTPUT).setLevel(logging.INFO)
    logging.captureWarnings(True)


def share_devices(config: LoggingConfig) -> bool:
    """Return whether all workers log to devices only, so that one process can set up logging for all its forks."""
    return config.config_file is None and all(
        path in _DEVICES or path.startswith(_DESCRIPTORS) for path in config.paths
    )


def _handler(path: str, worker: str, is_strict: bool) -> logging.Handler:
    if path in {"/dev/stdout", "/dev/stderr"}:
        stream = sys.stdout if path == "/dev/stdout" else sys.stderr
        return (
            _NonBlockingHandler(_stream_of_same_descriptor(stream), SLOW_READER_SECONDS)
            if worker
            else _NonBlockingHandler(stream, 0.0)
        )
    name = f"{path}.{worker.replace('/', '_')}" if worker and not path.startswith("/dev/") else path
    try:
        return _FileHandler(name)
    except OSError as error:
        if not is_strict:
            return _FileHandler(name, delay=True)
        raise ConfigError(f"cannot log to {name!r}: {error.strerror}") from None


def _stream_of_same_descriptor(stream: TextIO) -> TextIO:
    """Return a second stream for the same descriptor, because tasks may close the stream of `sys`."""
    try:
        return open(stream.fileno(), "w", encoding="utf-8", errors="backslashreplace", closefd=False)
    except (AttributeError, OSError, ValueError):  # a preloaded module has replaced it by one without a descriptor
        return stream


def open_file(path: str) -> logging.Handler:
    """Return a handler that appends to a file for this user alone. Raises `ConfigError` if it cannot be opened."""
    return _handler(path, "", is_strict=True)


class _Formatter(logging.Formatter):
    """Escapes the texts of other processes in Scaler's log lines, and cuts each text to `most_characters`."""

    def __init__(self, most_characters: int) -> None:
        super().__init__(FORMAT)
        self._most_characters = most_characters

    def format(self, record: logging.LogRecord) -> str:
        if not record.name.startswith(OURS):
            return super().format(record)
        if record.name == TASK_OUTPUT:
            return _CONTINUED.sub("\n  ", escaped(super().format(record), "\n\t"))
        args = record.args
        if isinstance(args, tuple):
            record.args = tuple(
                argument if isinstance(argument, (int, float)) else _EscapedArgument(argument, self._most_characters)
                for argument in args
            )
        try:
            return _CONTINUED.sub("\n  ", escaped(super().format(record), "\n"))
        finally:
            record.args = args


class _EscapedArgument:
    """An argument of a log line whose text is escaped and cut."""

    def __init__(self, value: object, most_characters: int) -> None:
        self._value = value
        self._most_characters = most_characters

    def __str__(self) -> str:
        return printable(str(self._value), self._most_characters)

    def __repr__(self) -> str:
        return printable(repr(self._value), self._most_characters)


class _LogsErrorOnce(logging.Handler):
    """A handler that reports its first write error, and no other, on the standard error of the process.

    The usual handler writes a traceback to `sys.stderr` for each record, and in a processor that stream is logged.
    """

    _has_failed = False

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - of logging
        if self._has_failed:
            return
        self._has_failed = True
        text = f"scaler: the log cannot be written: {sys.exc_info()[1]}; the first lost line: {record.getMessage()}\n"
        with contextlib.suppress(OSError):
            os.write(2, text.encode(errors="backslashreplace"))


class _NonBlockingHandler(_LogsErrorOnce, logging.StreamHandler):  # type: ignore[type-arg]
    """A stream handler that never blocks a scheduler, an agent or a task for lack of a reader.

    While a pipe or stopped terminal accepts no data, lines are dropped; the next written line reports their number.

    Args:
        wait_seconds: how long a line waits for a slow reader; if the line before it was dropped, it does not wait.
    """

    def __init__(self, stream: TextIO, wait_seconds: float) -> None:
        super().__init__(stream)
        self._wait_seconds = wait_seconds
        self._lost = 0
        self._is_line_incomplete = False
        """whether the end of the last written line is missing"""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            descriptor = self.stream.fileno()
        except (AttributeError, OSError, ValueError):  # not a file
            super().emit(record)
            return
        try:
            lines = f"{self.format(record)}{self.terminator}"
            if self._lost:
                lines = f"scaler: {self._lost} lines were dropped: this output was not read{self.terminator}{lines}"
            data = (self.terminator * self._is_line_incomplete + lines).encode(errors="backslashreplace")
            written = _write_now(descriptor, data, 0.0 if self._lost else self._wait_seconds)
            if not written:
                self._lost += 1
                return
            self._is_line_incomplete = written < len(data)
            self._lost = int(self._is_line_incomplete)
        except Exception:  # noqa: BLE001 - as of logging
            self.handleError(record)


def _write_now(descriptor: int, data: bytes, seconds: float) -> int:
    """Write as much of `data` as the reader accepts within `seconds`, and return the number of bytes written."""
    deadline = time.monotonic() + seconds
    own = _opened_nonblocking(descriptor)
    is_pipe = stat.S_ISFIFO(os.fstat(descriptor).st_mode)
    # A writable pipe accepts PIPE_BUF bytes without blocking.
    most = select.PIPE_BUF if is_pipe and own is None else len(data)
    to = descriptor if own is None else own
    written = 0
    try:
        while written < len(data) and select.select((), (to,), (), max(0.0, deadline - time.monotonic()))[1]:
            try:
                written += os.write(to, data[written : written + most])
            except BlockingIOError:  # another process was quicker
                if time.monotonic() >= deadline:
                    break
    finally:
        if own is not None:
            os.close(own)
    return written


def _opened_nonblocking(descriptor: int) -> int | None:
    """Open a pipe or terminal again as non-blocking, for this process alone; None if that is impossible.

    Other processes write to the same pipe or terminal, so it may become full between a check for space and the write.
    """
    mode = os.fstat(descriptor).st_mode
    if not (stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)):
        return None
    try:
        return os.open(f"/proc/self/fd/{descriptor}", os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:  # not on Linux, or the file of another user
        return None


class _FileHandler(_LogsErrorOnce, logging.FileHandler):
    """A handler that creates files for their user alone, and follows no link that another user may have made.

    The number of the handler's descriptor is so high that tasks which close all usual descriptors leave it open.
    """

    def emit(self, record: logging.LogRecord) -> None:
        try:
            super().emit(record)
        except OSError:  # the file still cannot be opened
            self.handleError(record)

    def _open(self) -> io.TextIOWrapper:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        if not self.baseFilename.startswith(_DESCRIPTORS):
            flags |= os.O_NOFOLLOW
        try:
            descriptor = os.open(self.baseFilename, flags, 0o600)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise OSError(errno.ELOOP, "it is a symbolic link; name the file that it leads to") from None
            raise
        with contextlib.suppress(OSError):
            moved = high_duplicate(descriptor)
            os.close(descriptor)
            descriptor = moved
        return open(descriptor, "a", encoding="utf-8", errors="backslashreplace")  # noqa: PTH123 - of a descriptor

    def close(self) -> None:
        # The disk may be full: `logging.basicConfig(force=True)` of a task works all the same.
        with contextlib.suppress(OSError):
            super().close()
