"""Cluster: an agent and its workers as child processes of the user's program."""

from __future__ import annotations

import dataclasses
import multiprocessing
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from scaler.cluster.child_process import AGENT, ChildProcess
from scaler.cluster.keeper import keep
from scaler.config import check_reachable
from scaler.settings import ClusterConfig
from scaler.settings.sources import NOT_GIVEN, completes_from_outside, given

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from scaler.settings.cluster import ClusterOptions


class Cluster(ChildProcess):
    """One agent and its workers, in processes of their own.

    An agent that dies is restarted, at most three times a minute. If it dies more often, and this program has also
    started the scheduler, the open futures of this program fail with `WorkerDiedError`.

    Args:
        address: the address of the scheduler.
        n_workers: how many tasks run at once. None: as many as there are `worker_names`; without names, as many as the
            engine runs at once; if that is unknown, one for each core.
        worker_names: a name for each worker.
        key_file: the file with the key for a scheduler on TCP; None: the key file that is found for the address
            (docs/howto/keys.md).
        trust_users: the users who may run the scheduler at an ipc:// address besides this user and root: names or uids.

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
        worker_io_threads: int = NOT_GIVEN,
        heartbeat_interval_seconds: float = NOT_GIVEN,
        task_timeout_seconds: float = NOT_GIVEN,
        death_timeout_seconds: float = NOT_GIVEN,
        garbage_collect_interval_seconds: float = NOT_GIVEN,
        trim_memory_threshold_bytes: int | str = NOT_GIVEN,
        hard_processor_suspend: bool = NOT_GIVEN,
        event_loop: str = NOT_GIVEN,
        logging_paths: str | Sequence[str] = NOT_GIVEN,
        logging_level: str = NOT_GIVEN,
        logging_config_file: str | None = NOT_GIVEN,
        *,
        key_file: str | None = NOT_GIVEN,
        trust_users: Sequence[str | int] = NOT_GIVEN,
        logging_text_characters: int = NOT_GIVEN,
        transfer_window_bytes: int | str = NOT_GIVEN,
        **options: Unpack[ClusterOptions],
    ) -> None:
        arguments = given(locals(), worker_io_threads="io_threads")
        super().__init__(AGENT)
        config = ClusterConfig.of(arguments)
        key = multiprocessing.current_process().authkey.hex()
        self._config = dataclasses.replace(config, authentication_key=key)
        check_reachable(self._config.endpoint)

    def start(self) -> None:
        """Start the process. Return when the agent runs, whether or not it is connected to the scheduler.

        Raises:
            ConfigError: if this machine lacks GPUs or a folder that the settings name.
            StartError: if the process cannot start.
        """
        self.launch()
        self.configure(self._config)
        self.wait_ready()
        self._keep()

    def launch(self) -> None:
        """Start the interpreter of the agent, which then waits for its settings.

        Raises:
            ConfigError: if this machine lacks GPUs or a folder that the settings name.
            StartError: if the interpreter cannot start.
        """
        if self._config.capabilities:
            from scaler.agent.devices import check_gpus  # noqa: PLC0415 - few programs need it here

            check_gpus(self._config, os.environ)
        if self._config.spill_folder:
            from scaler.store.opening import check_spill_folder  # noqa: PLC0415 - few programs need it here

            check_spill_folder(self._config.spill_folder, self._config.spill_bytes)
        super().launch()

    def connect_to(self, address: str) -> None:
        """Send a launched process its settings, for the scheduler at `address`."""
        self._config = dataclasses.replace(self._config, address=address)
        self.configure(self._config)
        self._keep()

    def _keep(self) -> None:
        assert self._running is not None
        self._running.stop_seconds += self._config.drain_seconds
        keep(self._running, self._config)
