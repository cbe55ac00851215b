"""SchedulerClusterCombo: a scheduler and a cluster as child processes, for a program or for one client."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from scaler.cluster.cluster import Cluster, usable_cores
from scaler.cluster.scheduler import Scheduler


class SchedulerClusterCombo:
    """A scheduler and a cluster on this machine, as child processes. Usable as a context manager.

    Args:
        n_workers: how many tasks may run at once.
        address: where the scheduler listens; a free port of the loopback interface if None.
        worker_io_threads: ZeroMQ threads of the agent.
        scheduler_io_threads: ZeroMQ threads of the scheduler.
        max_number_of_tasks_waiting: new tasks are refused with `NoWorkerError` when so many wait and no worker has a
            free place; -1: none is refused.
        heartbeat_interval_seconds: how often the agent says that it is there.
        client_timeout_seconds: a client silent for so long is dead: its tasks are cancelled.
        worker_timeout_seconds: an agent silent for so long is dead: its tasks go to others.
        object_retention_seconds: nodes keep functions that nobody needs any more for so long.
        task_timeout_seconds: a task that runs for longer is ended with `TimeoutError`; 0: none is.
        death_timeout_seconds: the cluster ends itself when it was without a scheduler for so long.
        load_balance_seconds: the shortest time between two rounds of balancing, in which waiting tasks are taken from
            busy workers for idle ones; 0: there are none.
        load_balance_trigger_times: how many looks in a row must find that before there is a round.
        garbage_collect_interval_seconds: what a worker's process did not use for so long is dropped there.
        trim_memory_threshold_bytes: a process of the cluster with more memory gives back what it does not use.
        per_worker_queue_size: the most tasks at one worker, the running one included.
        hard_processor_suspend: whether the process of a task that waits for others is stopped meanwhile.
        protected: whether `Client.shutdown()` is refused.
        event_loop: `builtin` or `uvloop`.
        logging_paths: files that the processes log to.
        logging_level: the least level that is logged.
        logging_config_file: a file in the format of `logging.config.fileConfig`, instead of the two before.
        crash_limit: how often a task may be running when its process dies before it fails.
        engine: what runs the tasks: the name of an engine that is installed, or `NAME://...`.

    Raises:
        ConfigError: if an argument has a bad value.
        StartError: if the scheduler cannot start, for instance because its address is in use.
    """

    def __init__(
        self,
        n_workers: int,
        address: str | None = None,
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
        crash_limit: int = 3,
        engine: str = "processes",
    ) -> None:
        arguments = locals()
        listens_at = "tcp://127.0.0.1:*" if address is None else address
        self._scheduler = Scheduler(
            **_chosen(Scheduler, arguments | {"address": listens_at, "io_threads": scheduler_io_threads})
        )
        # The address is replaced by the one that the scheduler takes; everything else is checked here.
        self._cluster = Cluster(**_chosen(Cluster, arguments | {"address": "tcp://127.0.0.1:1"}))
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
    """Return a quiet cluster with a worker per core, for one client; what its tasks print goes to standard error."""
    return SchedulerClusterCombo(
        n_workers=usable_cores(), logging_paths=("/dev/stderr",), logging_level="WARNING", event_loop=best_event_loop()
    )


def best_event_loop() -> str:
    """Return the fastest event loop that is installed."""
    try:
        import uvloop  # noqa: F401, PLC0415 - only to see whether it is there
    except ImportError:
        return "builtin"
    return "uvloop"
