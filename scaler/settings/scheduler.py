"""The settings of a scheduler process."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TypedDict

from scaler.config import ConfigError, check_address, entry, setting
from scaler.endpoint import Endpoint
from scaler.settings.base import ADDRESS, EVENT_LOOP, EVENT_LOOPS, IO_THREADS, TRANSFER_WINDOW, LoggingConfig, Settings

POLICIES = FAIR, FIFO = "fair", "fifo"


_check_listening_address = partial(check_address, may_be_any_port=True)


def _check_monitor_address(address: str) -> None:
    if _check_listening_address(address).is_in_process:
        raise ConfigError(f"the monitor cannot be at {address!r}, because viewers are other processes; use ipc:///path")


class SchedulerOptions(TypedDict, total=False):
    """The types of the settings that `Scheduler` takes by keyword only. Everything else about them is in the table."""

    keys: str
    insecure_let_everybody_run_code: bool
    audit_file: str
    keep: str
    keep_shared: bool
    keep_bytes: int | str
    crash_limit: int
    policy: str
    rows_per_task: int
    client_tasks: int
    client_bytes: int | str
    open_tasks: int
    open_bytes: int | str
    frame_bytes: int | str
    kept_bytes: int | str
    value_bytes: int | str
    task_output_retention_seconds: float


@dataclass(frozen=True)
class SchedulerConfig(Settings):
    """Settings of a scheduler process."""

    OPTIONS = SchedulerOptions
    TABLE = "scheduler"

    address: str = field(metadata=entry(ADDRESS, "address", check=_check_listening_address, metavar="ADDRESS"))
    monitor_address: str | None = setting(
        None,
        "where viewers see what the scheduler does: tcp://host:port or ipc:///path",
        "-ma",
        "--monitor-address",
        check=_check_monitor_address,
        metavar="ADDRESS",
        default="ipc:///tmp/HOST_PORT_monitor; for an ipc address, its path followed by _monitor",
    )
    io_threads: int = setting(1, IO_THREADS, "--io-threads", least=1)
    max_number_of_tasks_waiting: int = setting(
        -1,
        "refuse new tasks with NoWorkerError while this many wait and no worker has a free place; -1: no limit",
        "-mt",
        "--max-number-of-tasks-waiting",
        least=-1,
    )
    client_timeout_seconds: float = setting(
        60,
        "after this time without a message from a client, it is lost: its tasks are cancelled",
        "-ct",
        "--client-timeout-seconds",
        unit="s",
        least=1,
    )
    worker_timeout_seconds: float = setting(
        60,
        "after this time without a message from a cluster, it is lost: its tasks are assigned to other workers",
        "-wt",
        "--worker-timeout-seconds",
        unit="s",
        least=1,
    )
    object_retention_seconds: float = setting(
        60, "how long clusters keep functions that no task needs", "-ot", "--object-retention-seconds", unit="s"
    )
    task_output_retention_seconds: float = setting(
        600,
        "how long the output lines of a task are kept after its last line",
        "--task-output-retention-seconds",
        unit="s",
    )
    load_balance_seconds: float = setting(
        1,
        "the least time between two rounds of balancing, which move waiting tasks from busy to idle workers; "
        "0: no balancing",
        "-ls",
        "--load-balance-seconds",
        unit="s",
    )
    load_balance_trigger_times: int = setting(
        2,
        "a round of balancing starts when this many checks in a row, 25 ms apart, have found idle workers while tasks "
        "waited at other workers",
        "-lbt",
        "--load-balance-trigger-times",
        least=1,
    )
    policy: str = setting(
        "fair",
        "the order of waiting tasks: fair (owners and their clients take turns) or fifo (first come, first served)",
        "--policy",
        choices=POLICIES,
        metavar="NAME",
    )
    per_worker_queue_size: int = setting(
        1000, "the most tasks at one worker, including the running one", "-qs", "--per-worker-queue-size", least=1
    )
    rows_per_task: int = setting(
        500,
        "the most rows of a map that are sent as one task, once their duration is known; 1: each row is a task",
        "--rows-per-task",
        least=1,
        most=4096,
    )
    client_tasks: int = setting(
        250_000,
        "the most open tasks that the scheduler accepts from one client; the client holds back the rest",
        "--client-tasks",
        least=1,
    )
    client_bytes: int = setting(
        128 * 1024 * 1024,
        "the most bytes of arguments of open tasks that the scheduler accepts from one client; the client holds back "
        "the rest",
        "--client-bytes",
        unit="bytes",
        least=1,
    )
    open_tasks: int = setting(
        4_000_000, "the most open tasks of all clients together, shared equally by the clients", "--open-tasks", least=1
    )
    open_bytes: int = setting(
        4 * 1024 * 1024 * 1024,
        "the most bytes of arguments of open tasks of all clients together, shared equally by the clients",
        "--open-bytes",
        unit="bytes",
        least=1,
    )
    frame_bytes: int = setting(
        64 * 1024 * 1024,
        "the most bytes of a frame; a connection that sends a larger one is closed; Scaler itself sends at most 1 MiB",
        "--frame-bytes",
        unit="bytes",
        least=1024 * 1024,
        most=2**40,
    )
    kept_bytes: int = setting(
        256 * 1024 * 1024,
        "the most bytes kept for a disconnected client or cluster; beyond that, the peer gets a new session, and only "
        "results are kept for it, up to 64 MiB",
        "--kept-bytes",
        unit="bytes",
        least=1,
    )
    value_bytes: int = setting(
        0,
        "the most bytes of one argument, object, function or result outside of shared memory; a larger one fails with "
        "ObjectTooLargeError before it is sent",
        "--value-bytes",
        unit="bytes",
        most=2**62,
        default="four fifths of the memory that is free at the scheduler when the value is sent",
    )
    crash_limit: int = setting(
        3, "a task fails when its process or host has died this many times while it ran", "--crash-limit", least=1
    )
    transfer_window_bytes: int = field(default=1048576, metadata=TRANSFER_WINDOW)
    keys: str | None = setting(
        None,
        "the folder of keys (scaler_keys new): over TCP, only programs with one of the keys can connect; never taken "
        "from scaler.toml",
        "--keys",
        metavar="FOLDER",
        default="the folder for the scheduler's address in ~/.scaler; the scheduler creates it if it is missing",
        in_file=False,
    )
    insecure_let_everybody_run_code: bool = setting(
        False,
        "listen on TCP without keys: any program that can connect runs code as the user of the workers; never taken "
        "from scaler.toml",
        "--insecure-let-everybody-run-code",
        in_file=False,
    )
    audit_file: str | None = setting(
        None,
        "append a line of JSON for each connection that is accepted or refused, each session that starts or ends, and "
        "each owner over a quota",
        "--audit-file",
        metavar="FILE",
        default="none; the logger scaler.audit receives the lines",
    )
    keep: str | None = setting(
        None,
        "the folder where jobs are kept, so that they outlive programs and schedulers; only this user may have access",
        "--keep",
        metavar="FOLDER",
        default="no jobs are kept",
    )
    keep_shared: bool = setting(
        False,
        "whether other schedulers may also use the folder of jobs; each job is open in one scheduler at a time",
        "--keep-shared",
    )
    keep_bytes: int = setting(
        64 * 1024 * 1024 * 1024,
        "the most bytes of all jobs on disk; beyond that, new jobs are refused, and running jobs pause",
        "--keep-bytes",
        unit="bytes",
        least=1,
    )
    protected: bool = setting(
        True, "whether the scheduler refuses to shut down when a client requests it", "-p", "--protected"
    )
    event_loop: str = setting("builtin", EVENT_LOOP, "-e", "--event-loop", choices=EVENT_LOOPS, metavar="LOOP")
    logging: LoggingConfig = field(default_factory=LoggingConfig)

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint.parse(self.address)
