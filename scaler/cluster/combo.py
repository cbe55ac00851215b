"""SchedulerClusterCombo: a scheduler and a cluster as child processes, for a program or for one client."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from scaler.cluster.cluster import Cluster
from scaler.cluster.scheduler import Scheduler
from scaler.cores import usable_cores
from scaler.settings import ClusterConfig, SchedulerConfig
from scaler.settings.sources import NOT_GIVEN, marks_what_is_not_given, said
from scaler.wire.private import LOCAL

if TYPE_CHECKING:
    from scaler.cluster.threads import ThreadCluster


class SchedulerClusterCombo:
    """A scheduler and a cluster on this machine, as child processes. Usable as a context manager.

    An argument that is not given is what the environment or `scaler.toml` says (docs/reference/settings.md).

    Args:
        n_workers: how many tasks run at once.
        address: where the scheduler listens: tcp://host:port or ipc:///path; a socket in a folder that only
            this user can enter if None.
        monitor_address: None; there is no monitor yet.
        worker_io_threads: threads for the network; one does some GB/s.
        scheduler_io_threads: threads for the network; one does some GB/s.
        max_number_of_tasks_waiting: new tasks are refused with NoWorkerError when so many wait and no worker has a free
            place; -1: none is refused.
        heartbeat_interval_seconds: the time between two signs of life.
        client_timeout_seconds: a client silent for so long is dead: its tasks are cancelled.
        worker_timeout_seconds: a cluster silent for so long is dead: its tasks go to other workers.
        object_retention_seconds: clusters keep the functions that are not needed any more for so long.
        task_timeout_seconds: a task that runs for longer is ended with TimeoutError; 0: none is.
        death_timeout_seconds: a cluster without a scheduler for so long ends itself.
        load_balance_seconds: the shortest time between two rounds of balancing, in which waiting tasks are taken from
            busy workers for idle ones; 0: there are none.
        load_balance_trigger_times: how many looks in a row, 25 ms apart, must find idle workers while tasks wait at
            others, before there is a round of balancing.
        garbage_collect_interval_seconds: objects and functions that no task of a worker used for so long are dropped
            from its process.
        trim_memory_threshold_bytes: a process with more memory than this gives back to the system what it does not use.
        per_worker_queue_size: the most tasks at one worker, the running one included.
        hard_processor_suspend: whether the process of a task that waits for others is stopped (SIGSTOP) until what it
            waits for is there.
        protected: whether clients that ask for a shutdown are refused.
        event_loop: builtin or uvloop.
        logging_paths: files that are logged to, several at once; each worker appends its name to theirs.
        logging_level: the least level that is logged: DEBUG, INFO, WARNING, ERROR, CRITICAL.
        logging_config_file: a file in the format of Python's logging.config.fileConfig, instead of the paths and the
            level.
        crash_limit: how often a task may be running when its process dies before it fails.
        policy: in which order waiting tasks go: fair: clients take turns; fifo: first come, first served, whoever it
            is.
        engine: what runs the tasks: an engine that is installed, NAME, or NAME://ARGUMENTS if it takes any.

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
        engine: str = "processes",
    ) -> None:
        given = {name: value for name, value in locals().items() if value is not NOT_GIVEN}
        # The cluster's address is replaced by the one that the scheduler takes; everything else is checked here.
        first: dict[str, Any] = {"address": LOCAL if given.get("address") is None else address}
        if "scheduler_io_threads" in given:
            first["io_threads"] = scheduler_io_threads
        self._scheduler = Scheduler(**_chosen(Scheduler, given | first))
        self._cluster = Cluster(**_chosen(Cluster, given | {"address": "tcp://127.0.0.1:1", "worker_names": ()}))
        self._start()

    def _start(self) -> None:
        """Start both at once: the agent imports what it needs while the scheduler finds its port."""
        self._scheduler.launch()
        try:
            self._cluster.launch()
            self._scheduler.listen()
            self._cluster.connect_to(self._scheduler.get_address())
        except BaseException:
            self.shutdown()
            raise

    def get_address(self) -> str:
        """Return the address of the scheduler, for clients and further clusters."""
        return self._scheduler.get_address()

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


def start_local_cluster() -> SchedulerClusterCombo:
    """Return a quiet cluster with a worker per core, for one client; what its tasks print goes to standard error.

    What the environment or `scaler.toml` says comes before that.
    """
    arguments: dict[str, Any] = {
        "n_workers": usable_cores(),
        "logging_paths": ("/dev/stderr",),
        "logging_level": "WARNING",
        "event_loop": best_event_loop(),
    }
    for part in (SchedulerConfig, ClusterConfig):
        for name, value in said(part, list(arguments)).items():
            if name == "n_workers":
                arguments[name] = value
            else:
                arguments.pop(name, None)  # each part finds it by itself
    return SchedulerClusterCombo(**arguments)


def start_thread_cluster() -> ThreadCluster:
    """Return a scheduler and as many workers as cores in threads of this process, for one client."""
    from scaler.cluster.threads import ThreadCluster  # noqa: PLC0415 - all of Scaler, and few programs need it here

    return ThreadCluster(said(ClusterConfig, ["n_workers"]).get("n_workers", usable_cores()))


def best_event_loop() -> str:
    """Return the fastest event loop that is installed."""
    try:
        import uvloop  # noqa: F401, PLC0415 - only to see whether it is there
    except ImportError:
        return "builtin"
    return "uvloop"
