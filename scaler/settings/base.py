"""The base of all tables of settings: their rows, how values become settings, and logging."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from scaler.config import ConfigError, Setting, entry, setting, uid_of

if TYPE_CHECKING:
    from typing_extensions import Self

EVENT_LOOPS = ("builtin", "uvloop")
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
_LOGGING = "logging_"

IN_CODE = {"logging_paths": ("/dev/stderr",)}
"""Defaults that differ for processes that a program starts, because the program owns standard output."""

# Descriptions that several tables share
ADDRESS = "where the scheduler listens: tcp://host:port or ipc:///path"
IO_THREADS = "network threads; one handles a few GB/s"
EVENT_LOOP = "builtin or uvloop"

# Entries that several tables share
HEARTBEAT = entry("the time between two heartbeats", "-hi", "--heartbeat-interval", unit="s", least=0.01)
DEATH_TIMEOUT = entry(
    "a cluster ends after this time without a scheduler", "-ds", "--death-timeout-seconds", unit="s", least=0.1
)
KEY_FILE = entry(
    "the file with the key for the scheduler (scaler_keys); never taken from scaler.toml",
    "--key-file",
    metavar="FILE",
    default="the file for the scheduler's address in ~/.scaler, if there is one",
    in_file=False,
)
TRUST_USERS = entry(
    "the users who may run the scheduler at an ipc:// address besides this user and root: names or uids; never taken "
    "from scaler.toml",
    "--trust-users",
    check=uid_of,
    metavar="A,B",
    default="none",
    in_file=False,
)
TRANSFER_WINDOW = entry(
    "the most bytes of large values in transfer to each peer; a greater number is faster over long distances, a "
    "smaller one delays small messages less",
    "--transfer-window-bytes",
    unit="bytes",
    least=262144,
    most=2**40,
)


def _check_file(path: str) -> None:
    if not Path(path).is_file():
        raise ConfigError(f"the logging configuration file {path!r} does not exist")


class _Checked:
    """The values of a table. When an instance is created, its values are checked one by one and then together."""

    PREFIX: ClassVar[str] = ""

    @classmethod
    @functools.cache
    def own_rows(cls) -> tuple[Setting, ...]:
        fields = dataclasses.fields(cls)  # type: ignore[arg-type]  # each of its classes is a dataclass
        return tuple(Setting(field, cls.PREFIX) for field in fields if field.metadata)

    def __post_init__(self) -> None:
        for row in self.own_rows():
            name = row.name.removeprefix(self.PREFIX)
            object.__setattr__(self, name, row.check(getattr(self, name)))
        self._check_together()

    def _check_together(self) -> None:
        """Raise `ConfigError` if values that are valid alone do not fit together."""


@dataclass(frozen=True)
class LoggingConfig(_Checked):
    """The logging settings of a process. The names of these settings start with `logging_`."""

    PREFIX = _LOGGING

    paths: tuple[str, ...] = setting(
        ("/dev/stdout",),
        "files to log to; each worker appends its name to the file names",
        "-lp",
        "--logging-paths",
        metavar="PATH",
    )
    level: str = setting(
        "INFO",
        f"log messages of this level and above: {', '.join(LEVELS)}",
        "-ll",
        "--logging-level",
        choices=LEVELS,
        metavar="LEVEL",
    )
    config_file: str | None = setting(
        None,
        "a file in the format of Python's logging.config.fileConfig; never taken from scaler.toml; replaces the "
        "paths and the level",
        "-lc",
        "--logging-config-file",
        check=_check_file,
        metavar="FILE",
        in_file=False,
    )
    text_characters: int = setting(
        256,
        "the most characters of a name, version or reason from another process in the log; the rest is cut off",
        "--logging-text-characters",
        least=16,
    )


class Settings(_Checked):
    """The base class of all tables of settings. Settings are sent to child processes as JSON."""

    OPTIONS: ClassVar[type] = object
    """the types of the settings that the constructor of the process takes by keyword only"""
    TABLE: ClassVar[str]
    """the name of the table in `scaler.toml`"""

    @classmethod
    @functools.cache
    def rows(cls) -> tuple[Setting, ...]:
        """Return the rows of the table of the process, including logging."""
        has_logging = any(field.name == "logging" for field in dataclasses.fields(cls))  # type: ignore[arg-type]
        return cls.own_rows() + (LoggingConfig.own_rows() if has_logging else ())

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Return the settings with the given values, by setting name; names that are not settings are ignored.

        Raises:
            ConfigError: if a value is bad, or a required value is missing.
        """
        names = {row.name for row in cls.rows()}
        known = {name: value for name, value in values.items() if name in names}
        for row in cls.rows():
            if row.default is dataclasses.MISSING and row.name not in known:
                option = f" ({', '.join(row.flags)})" if row.flags[0].startswith("-") else ""
                raise ConfigError(f"{row.name}{option} is required: give it as an argument or as {row.variable}")
        own = {name: value for name, value in known.items() if not name.startswith(_LOGGING)}
        logging = {name.removeprefix(_LOGGING): value for name, value in known.items() if name not in own}
        return cls(**own, **({"logging": LoggingConfig(**logging)} if logging else {}))

    def to_json(self) -> str:
        """Return the settings as one line of text."""
        return json.dumps(dataclasses.asdict(self))  # type: ignore[call-overload]

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the settings that `to_json` wrote. Raises `ConfigError` for an unknown setting or a bad value."""
        values = json.loads(text)
        unknown = set(values) - {field.name for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
        if unknown:
            raise ConfigError(f"unknown settings: {', '.join(sorted(unknown))}")
        if "logging" in values:
            values["logging"] = LoggingConfig(**values["logging"])
        return cls(**values)
