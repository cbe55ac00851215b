"""SchedulerClusterCombo: a scheduler and a cluster as child processes, for a program or for one client."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scaler.cluster.cluster import Cluster
from scaler.cluster.scheduler import Scheduler
from scaler.cores import usable_cores
from scaler.endpoint import LOCAL
from scaler.jobs.names import usual_job_folder
from scaler.settings import ClusterConfig, SchedulerConfig
from scaler.settings.sources import NOT_GIVEN, configured_values, descriptions, given, takes_settings

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from scaler.cluster.threads import ThreadCluster
    from scaler.settings.cluster import ClusterOptions
    from scaler.settings.scheduler import SchedulerOptions
    from scaler.starters import LocalSettings

    class _Options(SchedulerOptions, ClusterOptions, total=False):
        """The settings that `Scheduler` and `Cluster` take only by name."""


_TABLES = (
    (SchedulerConfig, {"io_threads": "scheduler_io_threads"}),
    (ClusterConfig, {"io_threads": "worker_io_threads"}),
)


class SchedulerClusterCombo:
    """A scheduler and a cluster on this machine, as child processes. Usable as a context manager.

    Omitted arguments take their values from the environment or `scaler.toml` (docs/reference/settings.md).

    Args:
        n_workers: how many tasks run at once.
        address: where the scheduler listens: tcp://host:port or ipc:///path; None: a socket in a
            folder that only this user can enter.
        {settings}

    Raises:
        ConfigError: if an argument has a bad value.
        StartError: if the scheduler cannot start, for instance because its address is in use.
    """

    @takes_settings(*_TABLES)
    def __init__(
        self,
        n_workers: int,
        address: str | None = None,
        monitor_address: str | None = NOT_GIVEN,
        worker_io_threads: int = NOT_GIVEN,
        scheduler_io_threads: int = NOT_GIVEN,
        max_number_of_tasks_waiting: int = NOT_GIVEN,
        heartbeat_interval_seconds: float = NOT_GIVEN,
        client_timeout_seconds: float = NOT_GIVEN,
        worker_timeout_seconds: float = NOT_GIVEN,
        object_retention_seconds: float = NOT_GIVEN,
        task_timeout_seconds: float = NOT_GIVEN,
        death_timeout_seconds: float = NOT_GIVEN,
        load_balance_seconds: float = NOT_GIVEN,
        load_balance_trigger_times: int = NOT_GIVEN,
        garbage_collect_interval_seconds: float = NOT_GIVEN,
        trim_memory_threshold_bytes: int | str = NOT_GIVEN,
        per_worker_queue_size: int = NOT_GIVEN,
        hard_processor_suspend: bool = NOT_GIVEN,
        protected: bool = NOT_GIVEN,
        event_loop: str = NOT_GIVEN,
        logging_paths: str | Sequence[str] = NOT_GIVEN,
        logging_level: str = NOT_GIVEN,
        logging_config_file: str | None = NOT_GIVEN,
        *,
        trust_users: Sequence[str | int] = NOT_GIVEN,
        logging_text_characters: int = NOT_GIVEN,
        transfer_window_bytes: int | str = NOT_GIVEN,
        **options: Unpack[_Options],
    ) -> None:
        arguments = given(locals())
        # The cluster's address is replaced by that of the scheduler; everything else is checked here.
        first: dict[str, Any] = {"address": LOCAL if address is None else address}
        if "scheduler_io_threads" in arguments:
            first["io_threads"] = scheduler_io_threads
        self._scheduler = Scheduler(**_chosen(Scheduler, arguments | first))
        of_cluster: dict[str, Any] = {"address": "tcp://127.0.0.1:1", "worker_names": ()}
        if arguments.get("keys"):
            of_cluster["key_file"] = str(Path(arguments["keys"]) / "worker.json")
        self._cluster = Cluster(**_chosen(Cluster, arguments | of_cluster))
        self._start()

    def __repr__(self) -> str:
        ended = "" if self._scheduler.is_alive() else ", ended"
        return f"<{type(self).__name__} at {self._scheduler.get_address()}{ended}>"

    def _start(self) -> None:
        """Start scheduler and cluster at once: the agent imports its modules while the scheduler finds its port."""
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
        """Return the address of the monitor stream, for viewers (`scaler_top`, `scaler_ui`)."""
        return self._scheduler.get_monitor_address()

    def shutdown(self) -> None:
        """End all processes. Idempotent; also called when the interpreter exits."""
        self._cluster.shutdown()
        self._scheduler.shutdown()

    def __enter__(self) -> SchedulerClusterCombo:  # noqa: PYI034 - typing.Self is of Python 3.11
        return self

    def __exit__(self, *_error: object) -> None:
        self.shutdown()


SchedulerClusterCombo.__doc__ = (SchedulerClusterCombo.__doc__ or "").replace(
    "{settings}", descriptions(*_TABLES, without=("address", "n_workers", "worker_names", "key_file"))
)


def _chosen(part: type, arguments: dict[str, Any]) -> dict[str, Any]:
    return {name: arguments[name] for name in inspect.signature(part).parameters if name in arguments}


def start_local_cluster(settings: LocalSettings | None = None, logs_output: bool = True) -> SchedulerClusterCombo:
    """Return a local cluster for one client. The cluster logs only warnings, and its tasks print to standard error.

    Args:
        logs_output: whether the cluster logs the output of its tasks; False if the client prints this output.
    """
    arguments: dict[str, Any] = {
        "n_workers": usable_cores(),
        "logging_level": "WARNING",
        "task_output_in_log": logs_output,
        "keep": usual_job_folder(),
    }
    for part in (SchedulerConfig, ClusterConfig):
        for name, value in configured_values(part, list(arguments)).items():
            if name == "n_workers":
                arguments[name] = value
            else:
                arguments.pop(name, None)  # each part reads it by itself
    # Programs share the folder of jobs; each job is open in one program.
    return SchedulerClusterCombo(**{**arguments, "keep_shared": True, **(settings or {})})


def start_thread_cluster(settings: LocalSettings) -> ThreadCluster:
    """Return a scheduler and workers in threads of this process, by default one worker for each core."""
    from scaler.cluster.threads import ThreadCluster  # noqa: PLC0415 - all of Scaler, and few programs need it here

    return ThreadCluster({"n_workers": usable_cores(), **configured_values(ClusterConfig, ["n_workers"]), **settings})
