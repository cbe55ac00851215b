"""What the commands have in common: options, and how they end on bad ones."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TypeVar

from scaler.config import EVENT_LOOPS, ConfigError, LoggingConfig

T = TypeVar("T")


class HelpFormatter(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Shows defaults, where there are any, and examples as they were typed."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        if action.default in (None, ()) or (action.help and "(default" in action.help):
            return action.help
        if isinstance(action.default, list):
            return f"{action.help} (default: {' '.join(action.default)})"
        return super()._get_help_string(action)


def add_logging_options(parser: argparse.ArgumentParser, config_file_flags: tuple[str, ...]) -> None:
    """Add -lp, -ll and the option for a configuration file."""
    group = parser.add_argument_group("logging")
    group.add_argument(
        "-lp",
        "--logging-paths",
        nargs="+",
        default=["/dev/stdout"],
        metavar="PATH",
        help="where to log, several at once; processes that run tasks append their pid to file names",
    )
    group.add_argument(
        "-ll",
        "--logging-level",
        default="INFO",
        choices=("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"),
        help="the least level that is logged",
    )
    group.add_argument(
        *config_file_flags,
        dest="logging_config_file",
        metavar="FILE",
        help="a file in the format of Python's logging.config.fileConfig, instead of the two before",
    )


def logging_config(arguments: argparse.Namespace) -> LoggingConfig:
    """Return what the logging options say."""
    return LoggingConfig(tuple(arguments.logging_paths), arguments.logging_level, arguments.logging_config_file)


def event_loop(text: str) -> str:
    """Return the name of an event loop, checked."""
    if text not in EVENT_LOOPS:
        raise argparse.ArgumentTypeError(f"choose from {', '.join(EVENT_LOOPS)}")
    return text


def checked(parser: argparse.ArgumentParser, make: Callable[[], T]) -> T:
    """Return what `make` returns; a bad setting ends the command with exit code 2 and one sentence."""
    try:
        return make()
    except ConfigError as error:
        parser.error(str(error))
