"""Logging of a process: the same format everywhere, several files at once.

Only processes of Scaler are set up here, never the user's program.
"""

from __future__ import annotations

import io
import logging
import logging.config
import os
import sys

from scaler.config import ConfigError, LoggingConfig

FORMAT = "[%(levelname)s]%(asctime)s: %(message)s"
TASK_OUTPUT = "scaler.task"
"""The logger that carries what tasks print; it is heard at any level."""


def set_up_logging(config: LoggingConfig, own_files: bool = False) -> None:
    """Send all logging of this process where `config` says.

    Args:
        own_files: append the process id to the names of files, so that no two processes write to the same one.

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
        handler = _handler(path, own_files)
        handler.setFormatter(logging.Formatter(FORMAT))
        root.addHandler(handler)
    root.setLevel(config.level)
    logging.getLogger(TASK_OUTPUT).setLevel(logging.INFO)
    logging.captureWarnings(True)


def _handler(path: str, own_files: bool) -> logging.Handler:
    if path == "/dev/stdout":
        return logging.StreamHandler(sys.stdout)
    if path == "/dev/stderr":
        return logging.StreamHandler(sys.stderr)
    name = f"{path}.{os.getpid()}" if own_files and not path.startswith("/dev/") else path
    try:
        return logging.FileHandler(name)
    except OSError as error:
        raise ConfigError(f"cannot log to {name!r}: {error.strerror}") from None


class LineWriter(io.TextIOBase):
    """A stream that logs each line written to it: what tasks print."""

    def __init__(self, level: int) -> None:
        self._logger = logging.getLogger(TASK_OUTPUT)
        self._level = level
        self._rest = ""

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            self._logger.log(self._level, "%s", line)
        return len(text)

    def flush(self) -> None:
        """Log an unfinished line as well."""
        if self._rest:
            rest, self._rest = self._rest, ""
            self._logger.log(self._level, "%s", rest)
