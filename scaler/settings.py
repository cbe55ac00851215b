"""The settings of each process, as one table each. To add one: write a field with its `entry` here, use it, and put the
parameter into the signatures (`Scheduler`, `Cluster`, `SchedulerClusterCombo`, `Client`) that a test then asks for.

All else comes from the table: the checks, the option of the command and its `-h`, the environment variable, the key in
`scaler.toml`, and the page `docs/reference/settings.md`. Durations are in seconds, sizes in bytes.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from scaler.config import ConfigError, Setting, check_address, entry

if TYPE_CHECKING:
    from typing_extensions import Self

EVENT_LOOPS = ("builtin", "uvloop")
POLICIES = ("fair", "fifo")
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
_LOGGING = "logging_"
_ADDRESS = "tcp://host:port or ipc:///path"
_IO_THREADS = "threads for the network; one does some GB/s"
_EVENT_LOOP = "builtin or uvloop"


def usable_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _check_listening_address(address: str) -> None:
    check_address(address, may_be_any_port=True)


def _check_file(path: str) -> None:
    if not Path(path).is_file():
        raise ConfigError(f"the logging configuration file {path!r} does not exist")


class _Checked:
    """Values of a table, checked one by one and then together when they are made."""

    PREFIX: ClassVar[str] = ""

    @classmethod
    @functools.cache
    def own_rows(cls) -> tuple[Setting, ...]:
        """Return the rows of the table."""
        fields = dataclasses.fields(cls)  # type: ignore[arg-type]  # each of its classes is a dataclass
        return tuple(Setting(field, cls.PREFIX) for field in fields if field.metadata)

    def __post_init__(self) -> None:
        for row in self.own_rows():
            name = row.name.removeprefix(self.PREFIX)
            object.__setattr__(self, name, row.check(getattr(self, name)))
        self._check_together()

    def _check_together(self) -> None:
        """Raise `ConfigError` if values that are good by themselves do not go together."""


@dataclass(frozen=True)
class LoggingConfig(_Checked):
    """Where a process logs to. Its settings have `logging_` before their names."""

    PREFIX = _LOGGING

    paths: tuple[str, ...] = field(
        default=("/dev/stdout",),
        metadata=entry(
            "files that are logged to, several at once; processes that run tasks append their pid to file names",
            "-lp",
            "--logging-paths",
            metavar="PATH",
        ),
    )
    level: str = field(
        default="INFO",
        metadata=entry(
            f"the least level that is logged: {', '.join(LEVELS)}",
            "-ll",
            "--logging-level",
            choices=LEVELS,
            metavar="LEVEL",
        ),
    )
    config_file: str | None = field(
        default=None,
        metadata=entry(
            "a file in the format of Python's logging.config.fileConfig, instead of the paths and the level",
            "-lc",
            "--logging-config-file",
            check=_check_file,
            metavar="FILE",
        ),
    )


class Settings(_Checked):
    """What all processes have in common: they travel to child processes as JSON."""

    TABLE: ClassVar[str]
    """the name of the table in `scaler.toml`"""

    @classmethod
    @functools.cache
    def rows(cls) -> tuple[Setting, ...]:
        """Return the table of the process, those of its logging included."""
        has_logging = any(field.name == "logging" for field in dataclasses.fields(cls))  # type: ignore[arg-type]
        return cls.own_rows() + (LoggingConfig.own_rows() if has_logging else ())

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Return the settings with these values, each under the name of its row; what is not there has its default.

        Args:
            values: may have names that are no settings.

        Raises:
            ConfigError: if one has a bad value.
        """
        names = {row.name for row in cls.rows()}
        known = {name: value for name, value in values.items() if name in names}
        for row in cls.rows():
            if row.default is dataclasses.MISSING and row.name not in known:
                raise ConfigError(f"{row.name} must be given, as an argument or as {row.variable}")
        own = {name: value for name, value in known.items() if not name.startswith(_LOGGING)}
        logging = {name.removeprefix(_LOGGING): value for name, value in known.items() if name not in own}
        return cls(**own, **({"logging": LoggingConfig(**logging)} if logging else {}))

    def to_json(self) -> str:
        """Return the settings as one line of text."""
        return json.dumps(dataclasses.asdict(self))  # type: ignore[call-overload]

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the settings that `to_json` wrote.

        Raises:
            ConfigError: if one is unknown or has a bad value.
        """
        values = json.loads(text)
        unknown = set(values) - {field.name for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
        if unknown:
            raise ConfigError(f"unknown settings: {', '.join(sorted(unknown))}")
        values["logging"] = LoggingConfig(**values["logging"])
        return cls(**values)


@dataclass(frozen=True)
class SchedulerConfig(Settings):
    """Settings of a scheduler process."""

    TABLE = "scheduler"

    address: str = field(
        metadata=entry(
            f"where the scheduler listens: {_ADDRESS}", "address", check=_check_listening_address, metavar="ADDRESS"
        )
    )
    io_threads: int = field(default=1, metadata=entry(_IO_THREADS, "--io-threads", least=1))
    max_number_of_tasks_waiting: int = field(
        default=-1,
        metadata=entry(
            "new tasks are refused with NoWorkerError when so many wait and no worker has a free place; "
            "-1: none is refused",
            "-mt",
            "--max-number-of-tasks-waiting",
            least=-1,
        ),
    )
    client_timeout_seconds: float = field(
        default=60,
        metadata=entry(
            "a client silent for so long is dead: its tasks are cancelled",
            "-ct",
            "--client-timeout-seconds",
            unit="s",
            least=1,
        ),
    )
    worker_timeout_seconds: float = field(
        default=60,
        metadata=entry(
            "a cluster silent for so long is dead: its tasks go to other workers",
            "-wt",
            "--worker-timeout-seconds",
            unit="s",
            least=1,
        ),
    )
    object_retention_seconds: float = field(
        default=60,
        metadata=entry(
            "clusters keep the functions that are not needed any more for so long",
            "-ot",
            "--object-retention-seconds",
            unit="s",
        ),
    )
    load_balance_seconds: float = field(
        default=1,
        metadata=entry(
            "the shortest time between two rounds of balancing, in which waiting tasks are taken from busy workers "
            "for idle ones; 0: there are none",
            "-ls",
            "--load-balance-seconds",
            unit="s",
        ),
    )
    load_balance_trigger_times: int = field(
        default=2,
        metadata=entry(
            "how many looks in a row, 25 ms apart, must find idle workers while tasks wait at others, before there is "
            "a round of balancing",
            "-lbt",
            "--load-balance-trigger-times",
            least=1,
        ),
    )
    policy: str = field(
        default="fair",
        metadata=entry(
            "in which order waiting tasks go: fair: clients take turns; fifo: first come, first served, whoever it is",
            "--policy",
            choices=POLICIES,
            metavar="NAME",
        ),
    )
    per_worker_queue_size: int = field(
        default=1000,
        metadata=entry(
            "the most tasks at one worker, the running one included", "-qs", "--per-worker-queue-size", least=1
        ),
    )
    crash_limit: int = field(
        default=3,
        metadata=entry(
            "how often a task may be running when its process dies before it fails", "--crash-limit", least=1
        ),
    )
    protected: bool = field(
        default=True, metadata=entry("whether clients that ask for a shutdown are refused", "-p", "--protected")
    )
    event_loop: str = field(
        default="builtin",
        metadata=entry(_EVENT_LOOP, "-e", "--event-loop", choices=EVENT_LOOPS, metavar="LOOP"),
    )
    logging: LoggingConfig = LoggingConfig()


@dataclass(frozen=True)
class ClusterConfig(Settings):
    """Settings of a cluster process: one agent and its workers."""

    TABLE = "cluster"

    address: str = field(
        metadata=entry(f"where the scheduler listens: {_ADDRESS}", "address", check=check_address, metavar="ADDRESS")
    )
    n_workers: int = field(
        metadata=entry(
            "how many tasks run at once",
            "-n",
            "--num-of-workers",
            least=1,
            most=65535,
            default="as many as there are names, else one for each core",
        )
    )
    worker_names: tuple[str, ...] = field(
        default=(),
        metadata=entry(
            "a name for each worker",
            "-wn",
            "--worker-names",
            metavar="A,B",
            default="made of the name of the host and the process id",
        ),
    )
    io_threads: int = field(default=1, metadata=entry(_IO_THREADS, "-it", "--io-threads", least=1))
    heartbeat_interval_seconds: float = field(
        default=2,
        metadata=entry("the time between two signs of life", "-hi", "--heartbeat-interval", unit="s", least=0.01),
    )
    task_timeout_seconds: float = field(
        default=0,
        metadata=entry(
            "a task that runs for longer is ended with TimeoutError; 0: none is",
            "-tts",
            "--task-timeout-seconds",
            unit="s",
        ),
    )
    death_timeout_seconds: float = field(
        default=300,
        metadata=entry(
            "a cluster without a scheduler for so long ends itself",
            "-ds",
            "--death-timeout-seconds",
            unit="s",
            least=0.1,
        ),
    )
    garbage_collect_interval_seconds: float = field(
        default=30,
        metadata=entry(
            "objects and functions that no task of a worker used for so long are dropped from its process",
            "-gc",
            "--garbage-collect-interval-seconds",
            unit="s",
            least=0.1,
        ),
    )
    trim_memory_threshold_bytes: int = field(
        default=1073741824,
        metadata=entry(
            "a process with more memory than this gives back to the system what it does not use",
            "-tm",
            "--trim-memory-threshold-bytes",
            unit="bytes",
            most=2**63,
        ),
    )
    hard_processor_suspend: bool = field(
        default=False,
        metadata=entry(
            "whether the process of a task that waits for others is stopped (SIGSTOP) until what it waits for is there",
            "-hps",
            "--hard-processor-suspend",
        ),
    )
    engine: str = field(
        default="processes",
        metadata=entry(
            "what runs the tasks: an engine that is installed, NAME, or NAME://ARGUMENTS if it takes any",
            "--engine",
            metavar="NAME",
        ),
    )
    event_loop: str = field(
        default="builtin",
        metadata=entry(_EVENT_LOOP, "-el", "--event-loop", choices=EVENT_LOOPS, metavar="LOOP"),
    )
    logging: LoggingConfig = LoggingConfig()

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        if values.get("n_workers") is None:
            values = {**values, "n_workers": len(values.get("worker_names", ())) or usable_cores()}
        return super().of(values)

    def _check_together(self) -> None:
        names = self.worker_names
        if names and len(names) != self.n_workers:
            raise ConfigError(f"{self.n_workers} workers need as many names, not {len(names)}")
        if len(set(names)) != len(names) or any(not name or "," in name for name in names):
            raise ConfigError(f"worker names must be different and not empty: {', '.join(names)}")


@dataclass(frozen=True)
class ClientConfig(Settings):
    """Settings of a client. None of a command's: a client is made in code."""

    TABLE = "client"

    address: str | None = field(
        default=None,
        metadata=entry(
            f"where the scheduler listens: {_ADDRESS}",
            check=check_address,
            default="inside a task, the scheduler that runs it; else a cluster of its own",
        ),
    )
    profiling: bool = field(
        default=False, metadata=entry("whether to measure what each task takes, for ScalerFuture.profiling_info")
    )
    timeout_seconds: float = field(
        default=60,
        metadata=entry(
            "how long work waits for a scheduler that stays away, before it fails with TimeoutError",
            unit="s",
            least=0.001,
        ),
    )
    heartbeat_interval_seconds: float = field(
        default=2, metadata=entry("the time between two signs of life", unit="s", least=0.001)
    )


PROCESSES: tuple[type[Settings], ...] = (SchedulerConfig, ClusterConfig, ClientConfig)
"""Everything that has settings."""
