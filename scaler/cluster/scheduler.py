"""Scheduler: a scheduler as a child process of the user's program."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from scaler.cluster.child_process import ChildProcess
from scaler.cluster.keeper import keep_scheduler, schedulers
from scaler.config import check_reachable
from scaler.endpoint import ANYWHERE, LOCAL, Endpoint
from scaler.settings import SchedulerConfig
from scaler.settings.sources import NOT_GIVEN, completes_from_outside, given
from scaler.transport.private import remove_private_folder, remove_socket

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from scaler.settings.scheduler import SchedulerOptions


class Scheduler(ChildProcess):
    """A scheduler in a process of its own.

    Args:
        address: where it listens, such as `tcp://127.0.0.1:2345`. Port `*` means a free port, and `ipc://*` a socket in
            a new folder that only this user can enter.

    The other arguments are those of `SchedulerClusterCombo`. Omitted arguments take their values from the environment
    or `scaler.toml`.

    Raises:
        ConfigError: if an argument has a bad value.
    """

    @completes_from_outside(SchedulerConfig)
    def __init__(
        self,
        address: str = LOCAL,
        monitor_address: str | None = NOT_GIVEN,
        io_threads: int = NOT_GIVEN,
        max_number_of_tasks_waiting: int = NOT_GIVEN,
        client_timeout_seconds: float = NOT_GIVEN,
        worker_timeout_seconds: float = NOT_GIVEN,
        object_retention_seconds: float = NOT_GIVEN,
        load_balance_seconds: float = NOT_GIVEN,
        load_balance_trigger_times: int = NOT_GIVEN,
        per_worker_queue_size: int = NOT_GIVEN,
        protected: bool = NOT_GIVEN,
        event_loop: str = NOT_GIVEN,
        logging_paths: str | Sequence[str] = NOT_GIVEN,
        logging_level: str = NOT_GIVEN,
        logging_config_file: str | None = NOT_GIVEN,
        *,
        logging_text_characters: int = NOT_GIVEN,
        transfer_window_bytes: int | str = NOT_GIVEN,
        **options: Unpack[SchedulerOptions],
    ) -> None:
        arguments = given(locals())
        super().__init__("scaler_scheduler")
        self._config = SchedulerConfig.of(arguments)
        check_reachable(self._config.endpoint)
        self._address = address
        self._monitor_address = ""

    def start(self) -> None:
        """Start the process. Return when the scheduler listens.

        Raises:
            StartError: if the scheduler cannot listen, for instance because its address is in use.
        """
        self.launch()
        self.listen()

    def listen(self) -> None:
        """Send a launched process its settings. Return when the scheduler listens."""
        self.configure(self._config)
        self._address, self._monitor_address = self.wait_ready()
        schedulers.add(self._address)
        assert self._running is not None
        self._running.has_private_place = self._config.address == ANYWHERE
        monitor_address = self._monitor_address or None
        config = dataclasses.replace(self._config, address=self._address, monitor_address=monitor_address)
        keep_scheduler(self._running, config)

    def shutdown(self) -> None:
        """End the process in order; kill it if it still runs after some seconds. Idempotent."""
        schedulers.discard(self._address)
        super().shutdown()
        if self._config.address == ANYWHERE:
            remove_private_folder(Endpoint.parse(self._address))  # it may have been killed
        if self._config.endpoint.takes_any_port and not Endpoint.parse(self._address).takes_any_port:
            from scaler.scheduler.own_keys import remove_keys  # noqa: PLC0415 - it needs the library of TCP

            remove_keys(Endpoint.parse(self._address))
        if self._monitor_address:
            remove_socket(Endpoint.parse(self._monitor_address))

    def get_address(self) -> str:
        """Return the address at which the scheduler listens."""
        return self._address

    def get_monitor_address(self) -> str:
        """Return the address of the scheduler's monitor stream; empty before the scheduler has started."""
        return self._monitor_address
