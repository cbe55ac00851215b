"""Logging of a process: the same format everywhere, several files at once.

Only processes of Scaler are set up here, never the user's program.
"""

from __future__ import annotations

import contextlib
import errno
import io
import logging
import logging.config
import os
import select
import sys

from scaler.config import ConfigError
from scaler.settings import LoggingConfig
from scaler.texts import escaped, printable

FORMAT = "[%(levelname)s]%(asctime)s: %(message)s"
OURS = "scaler."
"""The loggers of Scaler are below this name."""
TASK_OUTPUT = "scaler.task"
"""The logger of the prints of tasks; it ignores the level."""
_DESCRIPTORS = ("/dev/fd/", "/proc/self/fd/")
_DEVICES = ("/dev/stdout", "/dev/stderr", "/dev/null")


def set_up_logging(config: LoggingConfig, worker: str = "", is_strict: bool = True) -> None:
    """Send all logging of this process where `config` says.

    Args:
        worker: of this process, which writes to the files of this worker then: their names end with its name. The
            processes of a worker append to the same files, one after the other, whole lines.
        is_strict: whether a file that cannot be opened is an error. Otherwise it is tried again with each line: a
            folder that was removed, or a full disk, keeps no process of a running cluster from its work.

    Raises:
        ConfigError: if a file cannot be opened.
    """
    if config.config_file is not None:
        logging.config.fileConfig(config.config_file, disable_existing_loggers=False)
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


def have_one_place(config: LoggingConfig) -> bool:
    """Return whether all workers log to the same devices, so that a process can set that up for those that it forks."""
    return config.config_file is None and all(
        path in _DEVICES or path.startswith(_DESCRIPTORS) for path in config.paths
    )


def _handler(path: str, worker: str, is_strict: bool) -> logging.Handler:
    if path in {"/dev/stdout", "/dev/stderr"}:
        stream = sys.stdout if path == "/dev/stdout" else sys.stderr
        return _StreamHandler(stream) if worker else _NeverWaits(stream)
    name = f"{path}.{worker.replace('/', '_')}" if worker and not path.startswith("/dev/") else path
    try:
        return _FileHandler(name)
    except OSError as error:
        if not is_strict:
            return _FileHandler(name, delay=True)
        raise ConfigError(f"cannot log to {name!r}: {error.strerror}") from None


class _Formatter(logging.Formatter):
    """Keeps the texts of other processes in their places in the lines of Scaler: names, versions, reasons.

    Args:
        most_characters: of each such text.
    """

    def __init__(self, most_characters: int) -> None:
        super().__init__(FORMAT)
        self._most_characters = most_characters

    def format(self, record: logging.LogRecord) -> str:
        if not record.name.startswith(OURS) or record.name == TASK_OUTPUT:
            return super().format(record)
        args = record.args
        if isinstance(args, tuple):
            record.args = tuple(
                argument if isinstance(argument, (int, float)) else _Shown(argument, self._most_characters)
                for argument in args
            )
        try:
            return escaped(super().format(record), "\n")
        finally:
            record.args = args


class _Shown:
    """An argument of a line."""

    def __init__(self, value: object, most_characters: int) -> None:
        self._value = value
        self._most_characters = most_characters

    def __str__(self) -> str:
        return printable(str(self._value), self._most_characters)

    def __repr__(self) -> str:
        return printable(repr(self._value), self._most_characters)


class _SaysOnce(logging.Handler):
    """A handler that cannot write says so once, on the standard error of the process, and then keeps silent.

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


class _StreamHandler(_SaysOnce, logging.StreamHandler):  # type: ignore[type-arg]
    pass


class _NeverWaits(_StreamHandler):
    """Writes to a stream while somebody reads it: that of a scheduler or an agent, which may not wait.

    A pipe that nobody reads and a terminal that is stopped (Ctrl-S) take no more. Then lines are left out, and the next
    one says how many.
    """

    _lost = 0

    def emit(self, record: logging.LogRecord) -> None:
        try:
            descriptor = self.stream.fileno()
        except (AttributeError, OSError, ValueError):  # it is no file
            super().emit(record)
            return
        try:
            lines = f"{self.format(record)}{self.terminator}"
            if self._lost:
                lines = f"scaler: {self._lost} lines are not here: nobody read this output{self.terminator}{lines}"
            if _write_now(descriptor, lines.encode(errors="backslashreplace")):
                self._lost = 0
            else:
                self._lost += 1
        except Exception:  # noqa: BLE001 - as of logging
            self.handleError(record)


def _write_now(descriptor: int, data: bytes) -> bool:
    """Write data as long as that need not wait, and return whether that was so from the beginning."""
    for start in range(0, len(data), select.PIPE_BUF):
        if not select.select((), (descriptor,), (), 0)[1]:
            return start > 0
        with contextlib.suppress(BlockingIOError):
            os.write(descriptor, data[start : start + select.PIPE_BUF])
    return True


class _FileHandler(_SaysOnce, logging.FileHandler):
    """Makes files for their user alone, and follows no link: others may have put it there."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            super().emit(record)
        except OSError:  # a file that could not be opened before still cannot
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
        return open(descriptor, "a", encoding="utf-8", errors="backslashreplace")  # noqa: PTH123 - of a descriptor

    def close(self) -> None:
        # The disk may be full: `logging.basicConfig(force=True)` of a task works all the same.
        with contextlib.suppress(OSError):
            super().close()
