"""What the commands have in common: options, and how they end on bad ones."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar

from scaler.config import EVENT_LOOPS, ConfigError, LoggingConfig, Settings

T = TypeVar("T")
S = TypeVar("S", bound=Settings)


class Option(NamedTuple):
    """An option that is a number of the settings; its type and its default are theirs."""

    setting: str
    flags: tuple[str, ...]
    metavar: str
    help: str


class HelpFormatter(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Shows defaults, where there are any, and examples as they were typed."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        if action.default in (None, ()) or (action.help and "(default" in action.help):
            return action.help
        if isinstance(action.default, list):
            return f"{action.help} (default: {' '.join(action.default)})"
        return super()._get_help_string(action)


def add_number_options(parser: argparse.ArgumentParser, settings: type[Settings], options: Iterable[Option]) -> None:
    """Add options for numbers of `settings`."""
    fields = {field.name: field for field in dataclasses.fields(settings)}
    for option in options:
        field = fields[option.setting]
        parser.add_argument(
            *option.flags,
            dest=option.setting,
            type={"int": int, "float": float}[str(field.type)],
            default=field.default,
            metavar=option.metavar,
            help=option.help,
        )


def add_event_loop_option(parser: argparse.ArgumentParser, *flags: str) -> None:
    """Add the choice of the event loop."""
    parser.add_argument(
        *flags, dest="event_loop", type=_event_loop, default="builtin", metavar="LOOP", help="builtin or uvloop"
    )


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


def make_settings(kind: type[S], arguments: argparse.Namespace) -> S:
    """Return the settings that the options say, each under its name.

    Raises:
        ConfigError: if one has a bad value.
    """
    values: dict[str, Any] = {
        field.name: getattr(arguments, field.name) for field in dataclasses.fields(kind) if field.name != "logging"
    }
    values["logging"] = LoggingConfig(
        tuple(arguments.logging_paths), arguments.logging_level, arguments.logging_config_file
    )
    return kind(**values)


def _event_loop(text: str) -> str:
    if text not in EVENT_LOOPS:
        raise argparse.ArgumentTypeError(f"choose from {', '.join(EVENT_LOOPS)}")
    return text


def checked(parser: argparse.ArgumentParser, make: Callable[[], T]) -> T:
    """Return what `make` returns; a bad setting ends the command with exit code 2 and one sentence."""
    try:
        return make()
    except ConfigError as error:
        parser.error(str(error))
