"""The common part of the commands: options from the settings table of a process, and errors for bad options."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeVar

from scaler.config import ConfigError, Setting, check_reachable, whole_path
from scaler.endpoint import Endpoint
from scaler.keys.key_file import KeyFile
from scaler.settings import ClusterConfig, Settings
from scaler.settings.sources import configured_values, gather
from scaler.texts import did_you_mean, escaped
from scaler.version import __version__

S = TypeVar("S", bound=Settings)
T = TypeVar("T")

SOURCES = """\
Each option may also be set by an environment variable, such as {variable}, or in the working directory:
in the table [{table}] of scaler.toml, or [tool.scaler.{table}] of pyproject.toml. The command line comes
before the environment, and the environment before the file. A SIZE is a number of bytes; 500G is 500 * 2**30.
"""


def make_parser(name: str, kind: type[Settings], description: str, examples: str) -> argparse.ArgumentParser:
    """Return the parser of a command whose options are the settings of a process; `kind`: the class of the settings."""
    rows = kind.rows()
    sources = SOURCES.format(variable=rows[1].variable, table=kind.TABLE)
    parser = new_parser(name, description, f"{examples}\n{sources}", argument_default=argparse.SUPPRESS)
    for row in rows:
        _add_option(parser, row)
    return parser


class _Parser(argparse.ArgumentParser):
    """A parser with one-line errors. The error about an unknown option or command names a similar known one."""

    def error(self, message: str) -> NoReturn:
        super().error(escaped(message))

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        self._check_options(args)
        found, unknown = self.parse_known_args(args, namespace)
        return self._whole(found, unknown)

    def parse_intermixed_args(self, args: Any = None, namespace: Any = None) -> Any:
        self._check_options(args)
        found, unknown = self.parse_known_intermixed_args(args, namespace)
        return self._whole(found, [word for word in unknown if word.startswith("-")] or unknown)

    def _check_options(self, args: Sequence[str] | None) -> None:
        """End the command if a long option is unknown. Otherwise its value would be taken for an address."""
        options = {option for option, meant in self.known_options().items() if option == meant}
        for word in sys.argv[1:] if args is None else args:
            if word == "--":
                return
            name = word.partition("=")[0]
            if name.startswith("--") and not any(option.startswith(name) for option in options):
                self._whole(argparse.Namespace(), [word])

    def _whole(self, found: argparse.Namespace, unknown: list[str]) -> argparse.Namespace:
        if unknown:
            typed = next((word.partition("=")[0] for word in unknown if word.startswith("-")), "")
            known = self.known_options()
            similar = did_you_mean(typed.replace("_", "-"), known, text="{}")
            meant = f"; did you mean {known[similar]!r}?" if similar else ""
            self.error(f"unrecognized arguments: {' '.join(unknown)}{meant}")
        return found

    def known_options(self) -> dict[str, str]:
        """Return the options of this parser and its subcommands, by their names and by the names of their settings."""
        known: dict[str, str] = {}
        for action in self._actions:
            for name in (*action.option_strings, f"--{action.dest.replace('_', '-')}") if action.option_strings else ():
                known.setdefault(name, name if name in action.option_strings else action.option_strings[-1])
            if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - argparse has no other way
                for part in action.choices.values():
                    known |= part.known_options()
        return known

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            similar = did_you_mean(str(value), map(str, action.choices or ()))
            raise argparse.ArgumentError(action, f"{error.message}{similar}") from None


def new_parser(name: str, description: str, epilog: str, **more: Any) -> argparse.ArgumentParser:
    """Return a parser with the option `--version`. Its help shows description and epilog unchanged."""
    shown = argparse.RawDescriptionHelpFormatter
    parser = _Parser(name, description=description, epilog=epilog, formatter_class=shown, **more)
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    return parser


def read_settings(parser: argparse.ArgumentParser, kind: type[S], argv: Sequence[str] | None) -> S:
    """Return the settings from command line, environment and file. A bad value ends the command with exit code 2."""
    given = {name: value for name, value in vars(parser.parse_args(argv)).items() if value is not None}
    try:
        known = configured_values(kind, ("address", "key_file")) | given
        if "address" not in known and (place := address_in(known.get("key_file"))):
            given["address"] = place
        settings = gather(kind, given)
        check_reachable(Endpoint.parse(getattr(settings, "address", "")))
        return settings
    except ConfigError as error:
        parser.error(str(error))


def address_in(key_file: str | None) -> str:
    """Return the address of the scheduler in a key file; empty if `key_file` is empty or None.

    Raises:
        ConfigError: if the file cannot be read, or has no address.
    """
    return KeyFile.read(whole_path(key_file)).address if key_file else ""


def value_of(read: Callable[[str], T]) -> Callable[[str], T]:
    """Return a parser for option values. The parser calls `read`, and reports a `ConfigError` as a bad argument."""

    def value(text: str) -> T:
        try:
            return read(text)
        except ConfigError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return value


def seconds(least: float, most: float) -> Callable[[str], float]:
    """Return a parser for the value of an option that is a number of seconds."""

    def value(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = float("nan")
        if not least <= number <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds between {least:,g} and {most:,.0f}")
        return number

    return value


def add_trust(parser: argparse.ArgumentParser, which_key: str = "") -> None:
    """Add the options for key and trusted users to a command; `which_key` is a remark for the help text."""
    for row, which in (_row("key_file"), which_key), (_row("trust_users"), ""):
        about = f"{row.text.partition('; never')[0]}{which and f'; {which}'}"
        text = f"{about} (default: {row.variable}, or {row.default_text})"
        default = os.environ.get(row.variable) or row.default
        parser.add_argument(
            *row.flags, default=default, metavar=row.metavar, type=value_of(row.parse), help=text.replace("%", "%%")
        )


def _row(name: str) -> Setting:
    return next(row for row in ClusterConfig.rows() if row.name == name)


def _add_option(parser: argparse.ArgumentParser, row: Setting) -> None:
    text = f"{row.text} (default: {row.default_text})" if row.default_text else row.text
    options: dict[str, Any] = {"help": text.replace("%", "%%"), "metavar": row.metavar, "type": value_of(row.parse)}
    if not row.flags[0].startswith("-"):
        parser.add_argument(*row.flags, nargs="?", default=None, **options)
        return
    options["dest"] = row.name
    if row.kind == "bool":
        _add_truth(parser, row, options)
        return
    if row.name == "logging_paths":
        options |= {"nargs": "+", "type": str}
    parser.add_argument(*row.flags, **options)


def _add_truth(parser: argparse.ArgumentParser, row: Setting, options: dict[str, Any]) -> None:
    if row.default:
        parser.add_argument(*row.flags, nargs="?", const=True, **options | {"metavar": "BOOL"})
    else:
        parser.add_argument(*row.flags, action="store_true", dest=row.name, help=options["help"])
    opposite = f"--no-{row.flags[-1].removeprefix('--')}"
    parser.add_argument(opposite, dest=row.name, action="store_false", help=f"the opposite of {row.flags[-1]}")
