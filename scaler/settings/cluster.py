"""The settings of a cluster process: one agent and its workers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypedDict

from scaler.amounts import read_amounts, to_texts
from scaler.config import WORKERS_MOST, ConfigError, check_address, entry, setting
from scaler.endpoint import Endpoint
from scaler.settings.base import (
    ADDRESS,
    DEATH_TIMEOUT,
    EVENT_LOOP,
    EVENT_LOOPS,
    HEARTBEAT,
    IO_THREADS,
    KEY_FILE,
    TRANSFER_WINDOW,
    TRUST_USERS,
    LoggingConfig,
    Settings,
)
from scaler.settings.functions import check_initializer, functions_texts, initializer_text, read_functions
from scaler.texts import NAME_CHARACTERS, printable

if TYPE_CHECKING:
    from typing_extensions import Self


SERVES_FUNCTIONS = "processes", "inline"
"""The engines whose workers run named functions."""


class ClusterOptions(TypedDict, total=False):
    """The types of the settings that `Cluster` takes by keyword only. Everything else about them is in the table."""

    preload: Sequence[str]
    initializer: str | Callable[[], object]
    max_tasks_per_processor: int
    max_waiting_per_worker: int | None
    drain_seconds: float
    processor_memory_bytes: int | str
    object_memory_bytes: int | str | None
    spill_folder: str
    spill_bytes: int | str | None
    capabilities: Mapping[str, int | str] | Sequence[str]
    functions: Mapping[str, str | Callable[..., object]] | Sequence[str]
    engine: str
    task_output_lines_per_second: int
    task_output_in_log: bool


class LocalClusterOptions(ClusterOptions, total=False):
    """The types of the settings that clients take for the cluster that they start on this machine."""

    worker_io_threads: int
    task_timeout_seconds: float
    death_timeout_seconds: float
    garbage_collect_interval_seconds: float
    trim_memory_threshold_bytes: int | str
    transfer_window_bytes: int | str
    hard_processor_suspend: bool
    event_loop: str
    logging_paths: str | Sequence[str]
    logging_level: str
    logging_config_file: str | None
    logging_text_characters: int


@dataclass(frozen=True)
class ClusterConfig(Settings):
    """Settings of a cluster process: one agent and its workers."""

    OPTIONS = ClusterOptions
    TABLE = "cluster"

    address: str = field(metadata=entry(ADDRESS, "address", check=check_address, metavar="ADDRESS"))
    n_workers: int | None = setting(
        None,
        "how many tasks run at once",
        "-n",
        "--num-of-workers",
        least=1,
        most=WORKERS_MOST,
        default="one for each of worker_names; else as many as the engine runs at once; else one per core",
    )
    worker_names: tuple[str, ...] = setting(
        (),
        "a name for each worker",
        "-wn",
        "--worker-names",
        metavar="A,B",
        default="made from the host name and the process id",
    )
    io_threads: int = setting(1, IO_THREADS, "-it", "--io-threads", least=1)
    heartbeat_interval_seconds: float = field(default=2, metadata=HEARTBEAT)
    task_timeout_seconds: float = setting(
        0,
        "a task that runs longer than this fails with TimeoutError; 0: no limit",
        "-tts",
        "--task-timeout-seconds",
        unit="s",
    )
    death_timeout_seconds: float = field(default=300, metadata=DEATH_TIMEOUT)
    drain_seconds: float = setting(
        0,
        "after SIGTERM, the time for running tasks to finish, while no new ones start; 0: end at once",
        "--drain",
        unit="s",
    )
    garbage_collect_interval_seconds: float = setting(
        30,
        "a worker process drops objects and functions that its tasks have not used for this time",
        "-gc",
        "--garbage-collect-interval-seconds",
        unit="s",
        least=0.1,
    )
    trim_memory_threshold_bytes: int = setting(
        1073741824,
        "a process of the cluster with more memory than this returns unused memory to the system",
        "-tm",
        "--trim-memory-threshold-bytes",
        unit="bytes",
        most=2**63,
    )
    transfer_window_bytes: int = field(default=1048576, metadata=TRANSFER_WINDOW)
    hard_processor_suspend: bool = setting(
        False,
        "whether to stop (SIGSTOP) the process of a task while it waits for other tasks",
        "-hps",
        "--hard-processor-suspend",
    )
    preload: tuple[str, ...] = setting(
        (),
        "modules to import once for all worker processes, which then share the memory of these modules",
        "--preload",
        metavar="A,B",
        default="none",
    )
    initializer: str = setting(
        "",
        "the function that each new worker process calls before its first task; in code also the function itself",
        "--initializer",
        check=check_initializer,
        metavar="MODULE:FUNCTION",
        default="none",
    )
    max_tasks_per_processor: int = setting(
        0, "replace a worker process after this many tasks; 0: never", "--max-tasks-per-processor"
    )
    max_waiting_per_worker: int | None = setting(
        None,
        "the most tasks of one worker that may be waiting for nested tasks, each in a process of its own; a further "
        "task that starts to wait fails with TaskFailedError",
        "--max-waiting-per-worker",
        least=1,
        default="as many as fit into half of the memory that is free at the start, but at least 100",
    )
    processor_memory_bytes: int = setting(
        0,
        "a task whose process uses this much private memory gets MemoryError; a process that still uses "
        "75 % of this between two tasks is replaced; 0: no limit",
        "--processor-memory-bytes",
        unit="bytes",
        most=2**63,
    )
    object_memory_bytes: int | None = setting(
        None,
        "the most shared memory for the objects of all clusters of this user on this host; beyond it, objects that no "
        "task reads are spilled to disk",
        "--object-memory-bytes",
        unit="bytes",
        least=1048576,
        most=2**62,
        default="half of the memory that is free at the start",
    )
    spill_folder: str = setting(
        "",
        "a folder on a disk, in which each cluster creates a private folder for spilled objects",
        "--spill-folder",
        metavar="FOLDER",
        default="/var/tmp",  # noqa: S108 - a private folder is made in it
    )
    spill_bytes: int | None = setting(
        None,
        "the most disk space for the spilled objects of all clusters of this user on this host; 0: never spill",
        "--spill-bytes",
        unit="bytes",
        most=2**62,
        default="as much as leaves a tenth of the disk free",
    )
    capabilities: tuple[str, ...] = setting(
        (),
        "what this machine offers to tasks that request it, and how much of each; NAME alone means NAME=1, and K, M, "
        "G, T are powers of 1024; in code also a dict",
        "--capabilities",
        metavar="NAME=AMOUNT,...",
        default="none",
    )
    functions: tuple[str, ...] = setting(
        (),
        "functions that clients in any language may call by name (client.call), with JSON as arguments and "
        "results; in code also a dict",
        "--functions",
        metavar="NAME=MODULE:FUNCTION,...",
        default="none",
    )
    task_output_lines_per_second: int = setting(
        500,
        "the most output lines of tasks per worker that are sent to future.logs() and viewers; a cluster as a whole "
        "sends at most twice as many; 0: lines are only logged",
        "--task-output-lines-per-second",
        most=100_000,
    )
    task_output_in_log: bool = setting(
        True,
        "whether the cluster also logs what its tasks write; off: only clients and viewers receive it",
        "--task-output-in-log",
    )
    engine: str = setting(
        "processes",
        "the installed engine that runs the tasks: NAME, or NAME://ARGUMENTS if it takes arguments",
        "--engine",
        metavar="NAME",
    )
    key_file: str | None = field(default=None, metadata=KEY_FILE)
    trust_users: tuple[int, ...] = field(default=(), metadata=TRUST_USERS)
    event_loop: str = setting("builtin", EVENT_LOOP, "-el", "--event-loop", choices=EVENT_LOOPS, metavar="LOOP")
    logging: LoggingConfig = field(default_factory=LoggingConfig)
    authentication_key: str = field(default="", repr=False)
    """not a setting: the parent process's `authkey` in hexadecimal, which its `multiprocessing.Manager` needs"""

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        if values.get("n_workers") is None:
            values = {**values, "n_workers": len(values.get("worker_names", ())) or None}
        if "capabilities" in values:
            values = {**values, "capabilities": to_texts(values["capabilities"])}
        if "functions" in values:
            values = {**values, "functions": functions_texts(values["functions"])}
        return super().of({**values, "initializer": initializer_text(values.get("initializer"))})

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint.parse(self.address).with_key(self.key_file).trusting(self.trust_users)

    def _check_together(self) -> None:
        read_amounts(self.capabilities)
        if read_functions(self.functions) and self.engine not in SERVES_FUNCTIONS:
            raise ConfigError(
                f"functions are served by the engines {' and '.join(SERVES_FUNCTIONS)}, not by {self.engine!r}"
            )
        names = self.worker_names
        if names and len(names) != self.n_workers:
            raise ConfigError(f"{self.n_workers} workers need as many worker_names, not {len(names)}")
        if len(set(names)) != len(names) or any(not name or "," in name for name in names):
            raise ConfigError(f"worker_names must be different and not empty: {', '.join(names)}")
        for name in names:
            if printable(name, NAME_CHARACTERS) != name:
                raise ConfigError(
                    f"worker_names must be printable and have at most {NAME_CHARACTERS} characters: {name!r}"
                )
