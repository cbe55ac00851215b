"""Scheduler: a scheduler as a child process of the user's program."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from scaler.cluster.child_process import ChildProcess
from scaler.cluster.keeper import keep_scheduler, schedulers
from scaler.config import check_reachable
from scaler.endpoint import ANYWHERE, LOCAL
from scaler.settings import SchedulerConfig
from scaler.settings.sources import completes_from_outside
from scaler.transport.private import remove_private_place, remove_socket


class Scheduler(ChildProcess):
    """A scheduler in a process of its own.

    Args:
        address: where it listens, such as `tcp://127.0.0.1:2345`. With port `*` it takes a free one; at `ipc://*`, a
            socket in a new folder that only this user can enter.

    The other arguments are those of `SchedulerClusterCombo`. Omitted arguments take their values from the environment
    or `scaler.toml`.

    Raises:
        ConfigError: if an argument has a bad value.
    """

    @completes_from_outside(SchedulerConfig)
    def __init__(
        self,
        address: str = LOCAL,
        monitor_address: str | None = None,
        io_threads: int = 1,
        max_number_of_tasks_waiting: int = -1,
        client_timeout_seconds: float = 60,
        worker_timeout_seconds: float = 60,
        object_retention_seconds: float = 60,
        load_balance_seconds: float = 1,
        load_balance_trigger_times: int = 2,
        per_worker_queue_size: int = 1000,
        protected: bool = True,
        event_loop: str = "builtin",
        logging_paths: str | Sequence[str] = ("/dev/stdout",),
        logging_level: str = "INFO",
        logging_config_file: str | None = None,
        *,
        crash_limit: int = 3,
        policy: str = "fair",
        logging_text_characters: int = 256,
        transfer_window_bytes: int = 1048576,
        client_tasks: int = 250000,
        client_bytes: int = 134217728,
        open_tasks: int = 4000000,
        open_bytes: int = 4294967296,
        frame_bytes: int = 67108864,
        kept_bytes: int = 268435456,
        value_bytes: int = 0,
        task_output_retention_seconds: float = 600,
    ) -> None:
        arguments = locals()
        super().__init__("scaler_scheduler")
        self._config = SchedulerConfig.of(arguments)
        check_reachable(self._config.address)
        self._address = address
        self._monitor_address = ""

    def start(self) -> None:
        """Start the process; returns when it listens.

        Raises:
            StartError: if it cannot, for instance because its address is in use.
        """
        self.launch()
        self.listen()

    def listen(self) -> None:
        """Let a launched process go on to its address; returns when it listens."""
        self.configure(self._config)
        self._address, self._monitor_address = self.wait_ready()
        schedulers.add(self._address)
        assert self._running is not None
        self._running.has_private_place = self._config.address == ANYWHERE
        monitor_address = self._monitor_address or None
        config = dataclasses.replace(self._config, address=self._address, monitor_address=monitor_address)
        keep_scheduler(self._running, config)

    def shutdown(self) -> None:
        """End the process: in good order, or after some seconds by force. Any number of times."""
        schedulers.discard(self._address)
        super().shutdown()
        if self._config.address == ANYWHERE:
            remove_private_place(self._address)  # it may have been killed
        if self._monitor_address:
            remove_socket(self._monitor_address)

    def get_address(self) -> str:
        """Return where it listens."""
        return self._address

    def get_monitor_address(self) -> str:
        """Return where viewers see what it does; empty before it has started."""
        return self._monitor_address
