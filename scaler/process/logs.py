"""Logging of a process: the same format everywhere, several files at once.

Only processes of Scaler are set up here, never the user's program.
"""

from __future__ import annotations

import contextlib
import logging
import logging.config
import os
import sys

from scaler.config import ConfigError
from scaler.settings import LoggingConfig

FORMAT = "[%(levelname)s]%(asctime)s: %(message)s"
TASK_OUTPUT = "scaler.task"
"""The logger of the prints of tasks; it ignores the level."""


def set_up_logging(config: LoggingConfig, worker: str = "") -> None:
    """Send all logging of this process where `config` says.

    Args:
        worker: of this process, which writes to the files of this worker then: their names end with its name. The
            processes of a worker append to the same files, one after the other, whole lines.

    Raises:
        ConfigError: if a file cannot be written.
    """
    if config.config_file is not None:
        logging.config.fileConfig(config.config_file, disable_existing_loggers=False)
        return
    root = logging.getLogger()
    for handler in list(root.handlers):
        root.removeHandler(handler)
        handler.close()
    for path in config.paths:
        handler = _handler(path, worker)
        handler.setFormatter(logging.Formatter(FORMAT))
        root.addHandler(handler)
    root.setLevel(config.level)
    logging.getLogger(TASK_OUTPUT).setLevel(logging.INFO)
    logging.captureWarnings(True)


def _handler(path: str, worker: str) -> logging.Handler:
    if path == "/dev/stdout":
        return _StreamHandler(sys.stdout)
    if path == "/dev/stderr":
        return _StreamHandler(sys.stderr)
    name = f"{path}.{worker.replace('/', '_')}" if worker and not path.startswith("/dev/") else path
    try:
        return _FileHandler(name)
    except OSError as error:
        raise ConfigError(f"cannot log to {name!r}: {error.strerror}") from None


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


class _FileHandler(_SaysOnce, logging.FileHandler):
    def close(self) -> None:
        with contextlib.suppress(
            OSError
        ):  # the disk is full: `logging.basicConfig(force=True)` of a task works all the same
            super().close()
