"""SchedulerClusterCombo: a scheduler and a cluster as child processes, for a program or for one client."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from scaler.cluster.cluster import Cluster
from scaler.cluster.scheduler import Scheduler
from scaler.cores import usable_cores
from scaler.endpoint import LOCAL
from scaler.settings import ClusterConfig, SchedulerConfig
from scaler.settings.sources import NOT_GIVEN, marks_what_is_not_given, said

if TYPE_CHECKING:
    from scaler.cluster.threads import ThreadCluster


class SchedulerClusterCombo:
    """A scheduler and a cluster on this machine, as child processes. Usable as a context manager.

    Omitted arguments take their values from the environment or `scaler.toml` (docs/reference/settings.md).

    Args:
        n_workers: how many tasks run at once.
        address: where the scheduler listens: tcp://host:port or ipc:///path; a socket in a folder that only
            this user can enter if None.
        monitor_address: where viewers see what the scheduler does: tcp://host:port or ipc:///path. If None, a path
            that follows from the address; `get_monitor_address` says it.
        worker_io_threads: network threads; one handles a few GB/s.
        scheduler_io_threads: network threads; one handles a few GB/s.
        max_number_of_tasks_waiting: refuse new tasks with NoWorkerError while this many wait and no worker has room;
            -1: no limit.
        heartbeat_interval_seconds: the time between two heartbeats.
        client_timeout_seconds: a client that is silent for this time is dead: its tasks are cancelled.
        worker_timeout_seconds: a cluster that is silent for this time is dead: its tasks go to other workers.
        object_retention_seconds: how long clusters keep functions that no task needs.
        task_timeout_seconds: a task that runs for longer ends with TimeoutError; 0: no limit.
        death_timeout_seconds: a cluster ends after this time without a scheduler.
        load_balance_seconds: the least time between two rounds of balancing, which move waiting tasks from busy to idle
            workers; 0: no balancing.
        load_balance_trigger_times: how many checks in a row, 25 ms apart, must find idle workers while tasks wait at
            others before a round of balancing.
        garbage_collect_interval_seconds: a worker process drops objects and functions that its tasks have not used for
            this time.
        trim_memory_threshold_bytes: a process with more memory than this returns unused memory to the system.
        per_worker_queue_size: the most tasks at one worker, including the running one.
        hard_processor_suspend: whether to stop (SIGSTOP) the process of a task while it waits for other tasks.
        protected: whether to refuse clients that ask for a shutdown.
        event_loop: builtin or uvloop.
        logging_paths: files to log to; each worker appends its name to the file names.
        logging_level: log messages of this level and above: DEBUG, INFO, WARNING, ERROR, CRITICAL.
        logging_config_file: a file in the format of Python's logging.config.fileConfig, never named by scaler.toml;
            replaces the paths and the level.
        crash_limit: a task fails when its process or host has died this many times while it ran.
        policy: the order of waiting tasks: fair (clients take turns) or fifo (first come, first served).
        preload: modules that are imported once for all worker processes, which share their memory.
        initializer: what each new worker process calls before its first task; in code also a function.
        max_tasks_per_processor: a worker process is replaced by a fresh one after this many tasks; 0: never.
        drain_seconds: how long to wait for running tasks on SIGTERM, while no new ones are taken; 0: end at once.
        processor_memory_bytes: a task whose process has this much memory of its own gets MemoryError; a process still
            above 75 % of it between tasks is replaced; 0: no limit.
        capabilities: what this machine has that tasks may ask for, and how much of each; NAME alone means NAME=1, and
            K, M, G, T are powers of 1024; in code also a dict.
        functions: functions that clients in any language may call by name (client.call), with JSON as arguments and
            results; in code also a dict.
        engine: the installed engine that runs the tasks: NAME, or NAME://ARGUMENTS if it takes arguments.
        logging_text_characters: names, versions and reasons of other processes are cut to this length in the log.
        transfer_window_bytes: how much of its large values may be on the way to each peer; more is faster over long
            distances, less lets small messages through sooner.
        client_tasks: most open tasks that the scheduler accepts from one client; the client holds back the rest.
        client_bytes: the most bytes of arguments of open tasks that the scheduler has of one client, which keeps
            further ones.
        open_tasks: the most open tasks of all clients, which have equal parts of them.
        open_bytes: the most bytes of arguments of open tasks of all clients, which have equal parts of them.
        frame_bytes: a connection that begins a larger frame is closed; Scaler itself sends none of more than 1 MiB.
        kept_bytes: the most bytes that wait for a client or a cluster whose connection was lost; beyond that, its
            session begins anew, and tasks whose results are among them run again.
        value_bytes: the most bytes of one argument, object, function or result, unless it lies in shared memory; a
            larger one is refused with ObjectTooLargeError before it is sent.
        task_output_lines_per_second: limit per worker for the output lines of tasks that travel to future.logs() and
            viewers; a cluster as a whole sends at most twice as many; 0: none, they are in the log only.
        task_output_in_log: whether what tasks write is also in the log of their worker; off: only clients and viewers
            get it.
        task_output_retention_seconds: how long the lines that a task has written are kept after its last one.

    Raises:
        ConfigError: if an argument has a bad value.
        StartError: if the scheduler cannot start, for instance because its address is in use.
    """

    @marks_what_is_not_given
    def __init__(
        self,
        n_workers: int,
        address: str | None = None,
        monitor_address: str | None = None,
        worker_io_threads: int = 1,
        scheduler_io_threads: int = 1,
        max_number_of_tasks_waiting: int = -1,
        heartbeat_interval_seconds: float = 2,
        client_timeout_seconds: float = 60,
        worker_timeout_seconds: float = 60,
        object_retention_seconds: float = 60,
        task_timeout_seconds: float = 0,
        death_timeout_seconds: float = 300,
        load_balance_seconds: float = 1,
        load_balance_trigger_times: int = 2,
        garbage_collect_interval_seconds: float = 30,
        trim_memory_threshold_bytes: int = 1073741824,
        per_worker_queue_size: int = 1000,
        hard_processor_suspend: bool = False,
        protected: bool = True,
        event_loop: str = "builtin",
        logging_paths: str | Sequence[str] = ("/dev/stdout",),
        logging_level: str = "INFO",
        logging_config_file: str | None = None,
        *,
        crash_limit: int = 3,
        policy: str = "fair",
        preload: Sequence[str] = (),
        initializer: str | Callable[[], object] = "",
        max_tasks_per_processor: int = 0,
        drain_seconds: float = 0,
        processor_memory_bytes: int = 0,
        capabilities: Mapping[str, int | str] | Sequence[str] = (),
        functions: Mapping[str, str | Callable[..., object]] | Sequence[str] = (),
        engine: str = "processes",
        logging_text_characters: int = 256,
        transfer_window_bytes: int = 1048576,
        client_tasks: int = 250000,
        client_bytes: int = 134217728,
        open_tasks: int = 4000000,
        open_bytes: int = 4294967296,
        frame_bytes: int = 67108864,
        kept_bytes: int = 268435456,
        value_bytes: int = 0,
        task_output_lines_per_second: int = 500,
        task_output_in_log: bool = True,
        task_output_retention_seconds: float = 600,
    ) -> None:
        given = {name: value for name, value in locals().items() if value is not NOT_GIVEN}
        # The cluster's address is replaced by the one that the scheduler takes; everything else is checked here.
        first: dict[str, Any] = {"address": LOCAL if given.get("address") is None else address}
        if "scheduler_io_threads" in given:
            first["io_threads"] = scheduler_io_threads
        self._scheduler = Scheduler(**_chosen(Scheduler, given | first))
        self._cluster = Cluster(**_chosen(Cluster, given | {"address": "tcp://127.0.0.1:1", "worker_names": ()}))
        self._start()

    def __repr__(self) -> str:
        ended = "" if self._scheduler.is_alive() else ", ended"
        return f"<{type(self).__name__} at {self._scheduler.get_address()}{ended}>"

    def _start(self) -> None:
        """Start both at once: the agent imports what it needs while the scheduler finds its port."""
        self._scheduler.launch()
        try:
            self._cluster.launch()
            self._scheduler.listen()
            self._cluster.connect_to(self._scheduler.get_address())
        except BaseException:  # raised again: nothing may be left behind
            self.shutdown()
            raise

    def get_address(self) -> str:
        """Return the address of the scheduler, for clients and further clusters."""
        return self._scheduler.get_address()

    def get_monitor_address(self) -> str:
        """Return where viewers (`scaler_top`, `scaler_ui`) see what the scheduler does."""
        return self._scheduler.get_monitor_address()

    def shutdown(self) -> None:
        """End all processes. Any number of times; also done when the interpreter exits."""
        self._cluster.shutdown()
        self._scheduler.shutdown()

    def __enter__(self) -> SchedulerClusterCombo:  # noqa: PYI034 - typing.Self is of Python 3.11
        return self

    def __exit__(self, *_error: object) -> None:
        self.shutdown()


def _chosen(part: type, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments that `part` takes as well."""
    return {name: arguments[name] for name in inspect.signature(part).parameters if name in arguments}


def start_local_cluster(n_workers: int | None = None, logs_output: bool = True) -> SchedulerClusterCombo:
    """Return a quiet cluster for one client; prints of its tasks go to standard error.

    The environment and `scaler.toml` override these settings, but not a number of workers.

    Args:
        n_workers: None: one for each core.
        logs_output: False: its client prints what its tasks write, so the cluster does not.
    """
    arguments: dict[str, Any] = {
        "n_workers": usable_cores(),
        "logging_paths": ("/dev/stderr",),
        "logging_level": "WARNING",
        "event_loop": best_event_loop(),
        "task_output_in_log": logs_output,
    }
    for part in (SchedulerConfig, ClusterConfig):
        for name, value in said(part, list(arguments)).items():
            if name == "n_workers":
                arguments[name] = value
            else:
                arguments.pop(name, None)  # each part finds it by itself
    if n_workers is not None:
        arguments["n_workers"] = n_workers
    return SchedulerClusterCombo(**arguments)


def start_thread_cluster(n_workers: int | None = None) -> ThreadCluster:
    """Return a scheduler and workers, as many as cores if nothing else is said, in threads of this process."""
    from scaler.cluster.threads import ThreadCluster  # noqa: PLC0415 - all of Scaler, and few programs need it here

    return ThreadCluster(n_workers or said(ClusterConfig, ["n_workers"]).get("n_workers", usable_cores()))


def best_event_loop() -> str:
    """Return the fastest event loop that is installed."""
    try:
        import uvloop  # noqa: F401, PLC0415 - only to see whether it is there
    except (ImportError, RuntimeError):  # the latter where a program ends: too late to import it
        return "builtin"
    return "uvloop"
