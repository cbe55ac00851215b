"""Settings of each process, as values that are checked where they are made.

A bad value is refused at once, by a `ConfigError` that names the setting, says what is wrong with it and what a good
one looks like. Durations are in seconds, sizes in bytes.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Self

_TCP = re.compile(r"tcp://(?P<host>\[[0-9a-fA-F:.]+\]|[A-Za-z0-9_.*-]+):(?P<port>\d+|\*)")
_IPC = re.compile(r"ipc://(?P<path>/.+)")
_IPC_PATH_BYTES = 100  # the kernel's limit is 107, and some systems take a little for themselves
EVENT_LOOPS = ("builtin", "uvloop")


class ConfigError(ValueError):
    """A setting has a value that cannot work."""


def check_address(address: str, may_be_any_port: bool = False) -> str:
    """Return `address` if it is one that peers can meet at.

    Args:
        address: `tcp://host:port` or `ipc:///path`.
        may_be_any_port: whether the port may be `*`: any free one.

    Raises:
        ConfigError: if it is not; the text says what a good one looks like.
    """
    if not isinstance(address, str):
        raise ConfigError(f"an address is a text such as tcp://127.0.0.1:2345, not {address!r}")
    ipc = _IPC.fullmatch(address)
    if ipc:
        if len(os.fsencode(ipc["path"])) > _IPC_PATH_BYTES:
            raise ConfigError(f"the path of {address!r} is longer than {_IPC_PATH_BYTES} bytes; take a shorter one")
        return address
    tcp = _TCP.fullmatch(address)
    if not tcp:
        raise ConfigError(
            f"{address!r} is not an address; a good one looks like tcp://127.0.0.1:2345 or ipc:///tmp/scaler"
        )
    if tcp["port"] == "*":
        if may_be_any_port:
            return address
        raise ConfigError(f"{address!r} has no port; a good address looks like tcp://127.0.0.1:2345")
    if not 0 < int(tcp["port"]) < 65536:
        raise ConfigError(f"the port of {address!r} is not between 1 and 65535")
    return address


def check_number(name: str, value: Any, least: float, most: float = float("inf")) -> None:
    """Raise `ConfigError` unless `value` is a number between `least` and `most`."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ConfigError(f"{name} must be a number, not {value!r}")
    if not least <= value <= most:
        limit = f"at least {least:g}" if most == float("inf") else f"between {least:g} and {most:g}"
        raise ConfigError(f"{name} must be {limit}, not {value!r}")


def _check_whole(name: str, value: Any, least: int, most: float = float("inf")) -> None:
    check_number(name, value, least, most)
    if not isinstance(value, int):
        raise ConfigError(f"{name} must be a whole number, not {value!r}")


@dataclass(frozen=True)
class LoggingConfig:
    """Where a process logs to."""

    paths: Sequence[str] = ("/dev/stdout",)
    """files, a tuple; one may be given as text; `/dev/stdout` and `/dev/stderr` are the process's own streams"""
    level: str = "INFO"
    config_file: str | None = None
    """a file in the format of `logging.config.fileConfig`, instead of the paths and the level"""

    def __post_init__(self) -> None:
        object.__setattr__(self, "paths", (self.paths,) if isinstance(self.paths, str) else tuple(self.paths))
        if self.level not in ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"):
            raise ConfigError(f"logging level must be DEBUG, INFO, WARNING, ERROR or CRITICAL, not {self.level!r}")
        if self.config_file is not None and not Path(self.config_file).is_file():
            raise ConfigError(f"the logging configuration file {self.config_file!r} does not exist")


@dataclass(frozen=True)
class Settings:
    """What all processes have in common: they travel to child processes as JSON."""

    def to_json(self) -> str:
        """Return the settings as one line of text."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the settings that `to_json` wrote.

        Raises:
            ConfigError: if one is unknown or has a bad value.
        """
        values = json.loads(text)
        unknown = set(values) - {field.name for field in dataclasses.fields(cls)}
        if unknown:
            raise ConfigError(f"unknown settings: {', '.join(sorted(unknown))}")
        values["logging"] = LoggingConfig(**values["logging"])
        return cls(**values)


def _check_event_loop(name: str) -> None:
    if name not in EVENT_LOOPS:
        raise ConfigError(f"event loop must be {' or '.join(EVENT_LOOPS)}, not {name!r}")


@dataclass(frozen=True)
class SchedulerConfig(Settings):
    """Settings of a scheduler process."""

    address: str
    io_threads: int = 1
    max_number_of_tasks_waiting: int = -1
    """a new task is refused when so many wait and no worker has a free place; -1: never"""
    client_timeout_seconds: float = 60
    """a client that was silent for so long is dead: its tasks are cancelled"""
    worker_timeout_seconds: float = 60
    """an agent that was silent for so long is dead: its tasks go to other workers"""
    load_balance_seconds: float = 1
    """the shortest time between two rounds of balancing; 0: there are none"""
    load_balance_trigger_times: int = 2
    """how many looks in a row must find idle workers while tasks wait at others, before there is a round"""
    per_worker_queue_size: int = 1000
    """the most tasks at one worker, the running one included"""
    crash_limit: int = 3
    """how often a task may be running when its process dies before it fails"""
    object_retention_seconds: float = 60
    """how long nodes keep the functions that nobody needs any more"""
    protected: bool = True
    """whether clients are refused when they ask for a shutdown"""
    event_loop: str = "builtin"
    logging: LoggingConfig = LoggingConfig()

    def __post_init__(self) -> None:
        check_address(self.address, may_be_any_port=True)
        _check_whole("io_threads", self.io_threads, 1)
        _check_whole("max_number_of_tasks_waiting", self.max_number_of_tasks_waiting, -1)
        check_number("client_timeout_seconds", self.client_timeout_seconds, 1)
        check_number("worker_timeout_seconds", self.worker_timeout_seconds, 1)
        check_number("load_balance_seconds", self.load_balance_seconds, 0)
        _check_whole("load_balance_trigger_times", self.load_balance_trigger_times, 1)
        _check_whole("per_worker_queue_size", self.per_worker_queue_size, 1)
        _check_whole("crash_limit", self.crash_limit, 1)
        check_number("object_retention_seconds", self.object_retention_seconds, 0)
        _check_event_loop(self.event_loop)


@dataclass(frozen=True)
class ClusterConfig(Settings):
    """Settings of a cluster process: one agent and its workers."""

    address: str
    n_workers: int
    worker_names: tuple[str, ...] = ()
    """one per worker; made of the host's name and the process id if empty"""
    io_threads: int = 1
    heartbeat_interval_seconds: float = 2
    death_timeout_seconds: float = 300
    """a cluster without a scheduler for so long ends itself"""
    task_timeout_seconds: float = 0
    """a task that runs for longer is ended with `TimeoutError`; 0: none is"""
    garbage_collect_interval_seconds: float = 30
    """what a processor did not use for so long is forgotten there"""
    trim_memory_threshold_bytes: int = 1073741824
    """a process with more memory than this gives back what it does not use"""
    engine: str = "processes"
    """what runs the tasks: the name of an entry point in the group `scaler.engines`"""
    hard_processor_suspend: bool = False
    """whether the process of a task that waits for others is stopped meanwhile"""
    event_loop: str = "builtin"
    logging: LoggingConfig = LoggingConfig()

    def __post_init__(self) -> None:
        object.__setattr__(self, "worker_names", tuple(self.worker_names))
        check_address(self.address)
        _check_whole("n_workers", self.n_workers, 1, 65535)
        if self.worker_names and len(self.worker_names) != self.n_workers:
            raise ConfigError(f"{self.n_workers} workers need as many names, not {len(self.worker_names)}")
        if len(set(self.worker_names)) != len(self.worker_names) or any(
            not name or "," in name for name in self.worker_names
        ):
            raise ConfigError(f"worker names must be different and not empty: {', '.join(self.worker_names)}")
        _check_whole("io_threads", self.io_threads, 1)
        check_number("heartbeat_interval_seconds", self.heartbeat_interval_seconds, 0.01)
        check_number("death_timeout_seconds", self.death_timeout_seconds, 0.1)
        check_number("task_timeout_seconds", self.task_timeout_seconds, 0)
        check_number("garbage_collect_interval_seconds", self.garbage_collect_interval_seconds, 0.1)
        _check_whole("trim_memory_threshold_bytes", self.trim_memory_threshold_bytes, 0, 2**63)
        if not isinstance(self.hard_processor_suspend, bool):
            raise ConfigError(f"hard_processor_suspend must be True or False, not {self.hard_processor_suspend!r}")
        _check_event_loop(self.event_loop)
