"""Cluster: an agent and its workers as child processes of the user's program."""

from __future__ import annotations

import dataclasses
import multiprocessing
from collections.abc import Callable, Mapping, Sequence

from scaler.cluster.child_process import ChildProcess
from scaler.cluster.keeper import keep
from scaler.config import check_reachable
from scaler.settings import ClusterConfig
from scaler.settings.sources import completes_from_outside


class Cluster(ChildProcess):
    """One agent and its workers, in processes of their own.

    An agent that dies is restarted, at most three times a minute. After that, the open futures of this program fail
    with `WorkerDiedError`, if the scheduler belongs to this program too.

    Args:
        address: of the scheduler.
        n_workers: how many tasks run at once; None: one for each name, or as many as the engine says, or one for each
            core.
        worker_names: a name for each worker.

    The other arguments are those of `SchedulerClusterCombo`. Omitted arguments take their values from the environment
    or `scaler.toml`.

    Raises:
        ConfigError: if an argument has a bad value.
    """

    @completes_from_outside(ClusterConfig, io_threads="worker_io_threads")
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
        *,
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
        task_output_lines_per_second: int = 500,
        task_output_in_log: bool = True,
    ) -> None:
        arguments = locals()
        super().__init__("scaler_cluster")
        config = ClusterConfig.of(arguments | {"io_threads": worker_io_threads})
        key = multiprocessing.current_process().authkey.hex()
        self._config = dataclasses.replace(config, authentication_key=key)
        check_reachable(self._config.address)

    def start(self) -> None:
        """Start the process; returns when the agent runs, whether or not it has found the scheduler yet.

        Raises:
            StartError: if it cannot.
        """
        self.launch()
        self.configure(self._config)
        self.wait_ready()
        self._keep()

    def connect_to(self, address: str) -> None:
        """Let a launched process go on, to the scheduler at `address`."""
        self._config = dataclasses.replace(self._config, address=address)
        self.configure(self._config)
        self._keep()

    def _keep(self) -> None:
        assert self._running is not None
        self._running.stop_seconds += self._config.drain_seconds
        keep(self._running, self._config)
