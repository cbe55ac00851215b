"""Cluster: an agent and its workers as child processes of the user's program."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence

from scaler.cluster.child_process import ChildProcess, settings_among
from scaler.config import ClusterConfig


class Cluster(ChildProcess):
    """One agent and its workers, in processes of their own.

    Args:
        address: of the scheduler.
        n_workers: how many tasks may run at once; the number of cores if None.
        worker_names: one per worker.

    The other arguments are those of `SchedulerClusterCombo`.

    Raises:
        ConfigError: if an argument has a bad value.
    """

    def __init__(
        self,
        address: str,
        n_workers: int | None = None,
        worker_names: Sequence[str] = (),
        worker_io_threads: int = 1,
        heartbeat_interval_seconds: float = 2,
        task_timeout_seconds: float = 0,
        death_timeout_seconds: float = 300,
        garbage_collect_interval_seconds: float = 30,
        trim_memory_threshold_bytes: int = 1073741824,
        hard_processor_suspend: bool = False,
        event_loop: str = "builtin",
        logging_paths: str | Sequence[str] = ("/dev/stdout",),
        logging_level: str = "INFO",
        logging_config_file: str | None = None,
        engine: str = "processes",
    ) -> None:
        arguments = locals()
        super().__init__("scaler_cluster")
        if n_workers is None:
            arguments["n_workers"] = len(worker_names) or usable_cores()
        self._config = settings_among(ClusterConfig, arguments | {"io_threads": worker_io_threads})

    def start(self) -> None:
        """Start the process; returns when the agent runs, whether or not it has found the scheduler yet.

        Raises:
            StartError: if it cannot.
        """
        self.launch()
        self.configure(self._config)
        self.wait_ready()

    def connect_to(self, address: str) -> None:
        """Let a launched process go on, to the scheduler at `address`."""
        self.configure(dataclasses.replace(self._config, address=address))


def usable_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
