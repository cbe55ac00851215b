"""`setup_logger`, under its path in Scaler 1.x."""

from __future__ import annotations

from collections.abc import Sequence

from scaler.process.logs import set_up_logging
from scaler.settings import LoggingConfig


def setup_logger(
    log_paths: Sequence[str] = ("/dev/stdout",), logging_config_file: str | None = None, logging_level: str = "INFO"
) -> None:
    """Write the log of this program to files, in the format of Scaler. Existing handlers are replaced.

    Args:
        log_paths: the files.
        logging_config_file: a file for `logging.config.fileConfig`. If given, the other two arguments are ignored.
        logging_level: messages of this level and above are logged.

    Raises:
        ConfigError: a `ValueError`, if an argument is invalid or a file cannot be written.
    """
    set_up_logging(LoggingConfig(tuple(log_paths), logging_level, logging_config_file))
